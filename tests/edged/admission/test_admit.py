"""Which pods this node refuses, and with which words: the pure part."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from msgspec.structs import replace

from edged.admission import admit
from edged.admission.admit import NodeInfo, refusal_by_node
from edged.eviction_api.signals import Pressure
from edged.pods.kill_options import EVICTED, KillOptions
from edged.pods.taken_room import demand_of
from modules.apimachinery.pods.static import CONFIG_SOURCE
from modules.apimachinery.types import Node, ObjectMeta, Pod, ResourceRequirements, from_value
from modules.apimachinery.types.nodes import NodeSpec, Taint
from modules.apimachinery.types.scheduling import PodOS
from tests.edged.admission.rooms import taken_by
from tests.edged.pods.builders import a_container, a_pod

ROOM = {"cpu": Fraction(2), "memory": Fraction(1 << 30), "pods": Fraction(3), "ephemeral-storage": Fraction(10 << 30)}


def refusal(pod: Pod, others: Sequence[Pod], node_info: NodeInfo) -> KillOptions | None:
    """Why the node refuses a pod beside others."""
    return admit.refusal(pod, demand_of(pod), taken_by(*others), node_info)


def asking(name: str = "a", **requests: str) -> Pod:
    return a_pod(a_container(resources=ResourceRequirements(requests=dict(requests))), meta={"name": name, "uid": name})


def node(labels: dict[str, str] | None = None, *taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name="n1", labels=labels or {}), spec=NodeSpec(taints=taints))


@pytest.mark.parametrize(
    ("wanted", "others", "reason", "words"),
    [
        ({"cpu": "500m"}, [], None, ""),
        ({"cpu": "2"}, [], None, "all of it"),
        ({"cpu": "2001m"}, [], "OutOfcpu", "cpu, requested: 2001, used: 0, capacity: 2000"),
        ({"cpu": "1500m"}, [{"cpu": "600m"}], "OutOfcpu", "cpu, requested: 1500, used: 600, capacity: 2000"),
        ({"memory": "600Mi"}, [{"memory": "600Mi"}], "OutOfmemory", "memory, requested: 629145600"),
        ({}, [{}, {}, {}], "OutOfpods", "pods, requested: 1, used: 3, capacity: 3"),
        ({"ephemeral-storage": "11Gi"}, [], "OutOfephemeral-storage", "ephemeral-storage"),
        ({"cpu": "3"}, [{}, {}, {}], "OutOfpods", "pods, requested: 1"),
        ({"ephemeral-storage": "11Gi", "memory": "2Gi"}, [], "OutOfmemory", "memory, requested: 2147483648"),
        ({"a.example/gpu": "1", "memory": "2Gi"}, [], "OutOfmemory", "memory, requested: 2147483648"),
        ({"example.com/gpu": "1"}, [], "OutOfexample.com/gpu", "capacity: 0"),
        ({"example.com/gpu": "0"}, [], None, "nothing is asked for"),
        ({"example.com/gpu": "0"}, [{"example.com/gpu": "1"}], None, "nor when the device of another has gone"),
    ],
)
def test_room(wanted: dict[str, str], others: list[dict[str, str]], reason: str | None, words: str) -> None:
    here = [asking(f"other-{n}", **other) for n, other in enumerate(others)]
    options = refusal(asking(**wanted), here, NodeInfo("n1", ROOM))
    assert (options.reason if options else None) == reason
    if options is not None:
        assert options.rejected
        assert options.message.startswith("Pod was rejected: ")
        assert words in options.message


@pytest.mark.parametrize(
    ("pod", "pressures", "is_rejected"),
    [
        (asking(), {Pressure.MEMORY}, True),
        (asking(memory="1Mi"), {Pressure.MEMORY}, False),
        (asking(memory="1Mi"), {Pressure.MEMORY, Pressure.DISK}, True),
        (asking(memory="1Mi"), {Pressure.PIDS}, True),
        (a_pod(priority=2_000_000_000), {Pressure.DISK}, False),
    ],
)
def test_pressure(pod: Pod, pressures: set[Pressure], *, is_rejected: bool) -> None:
    options = refusal(pod, [], NodeInfo("n1", pressures=frozenset(pressures)))
    assert (options is not None and options.reason == EVICTED) is is_rejected


def test_pressures_are_named_in_their_order() -> None:
    options = refusal(asking(), [], NodeInfo("n1", pressures=frozenset(Pressure)))
    assert options is not None
    assert f"[{' '.join(sorted(Pressure))}]" in options.message


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (asking(cpu="99"), None),
        (asking(**{"example.com/gpu": "1"}), "OutOfexample.com/gpu"),
        (a_pod(node_selector={"disk": "ssd"}), "NodeAffinity"),
        (a_pod(node_selector={"disk": "hdd"}), "TaintToleration"),
    ],
)
def test_the_node_object_turns_a_pod_out_by_its_labels_taints_and_extended_resources(
    pod: Pod, reason: str | None
) -> None:
    """Not by the resources of the machine: pods of others may just be ending."""
    taints = () if reason is None else (Taint(key="k", effect="NoExecute"),)
    info = NodeInfo("n1", {**ROOM, "example.com/gpu": Fraction(0)}, node({"disk": "hdd"}, *taints))
    options = refusal_by_node(pod, info)
    assert (options.reason if options else None) == reason


def test_unknown_resources_of_the_node_reject_no_pod() -> None:
    pod = a_pod(node_selector={"disk": "ssd"})
    assert refusal(pod, [], NodeInfo("n1")) is None


def _term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


_BOTH = {
    "matchExpressions": [{"key": "zone", "operator": "Exists"}, {"key": "cores", "operator": "Lt", "values": ["2"]}]
}


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ([_term("zone", "In", "a", "b")], True),
        ([_term("zone", "In", "b")], False),
        ([_term("zone", "NotIn", "b")], True),
        ([_term("zone", "NotIn", "a")], False),
        ([_term("nothing", "NotIn", "a")], True),
        ([_term("zone", "Exists")], True),
        ([_term("nothing", "Exists")], False),
        ([_term("zone", "DoesNotExist")], False),
        ([_term("cores", "Gt", "3")], True),
        ([_term("cores", "Gt", "4")], False),
        ([_term("cores", "Lt", "5")], True),
        ([_term("cores", "Lt", "4")], False),
        ([_term("cores", "Gt", "+3")], True),
        ([_term("cores", "Gt", "0_3")], False),
        ([_term("cores", "Lt", "9223372036854775807")], True),
        ([_term("cores", "Lt", "9223372036854775808")], False),
        ([_term("zone", "Gt", "5")], False),
        ([_term("zone", "Gt", "5", "6")], False),
        ([_term("zone", "Resembles", "a")], False),
        ([_term("zone", "In", "b"), _term("zone", "In", "a")], True),
        ([_BOTH], False),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}], True),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}], False),
        ([{}], False),
        ([], False),
    ],
)
def test_node_affinity(terms: list[dict[str, Any]], fits: bool) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = from_value(Pod, {"spec": {"affinity": {"nodeAffinity": required}, "containers": []}})
    options = refusal(pod, [], NodeInfo("n1", ROOM, node({"zone": "a", "cores": "4"})))
    assert (options is None) == fits
    if options is not None:
        assert options.reason == "NodeAffinity"


@pytest.mark.parametrize(("labels", "fits"), [({"disk": "ssd", "x": "y"}, True), ({"disk": "hdd"}, False), ({}, False)])
def test_node_selector(labels: dict[str, str], fits: bool) -> None:
    assert (refusal(a_pod(node_selector={"disk": "ssd"}), [], NodeInfo("n1", ROOM, node(labels))) is None) == fits


@pytest.mark.parametrize(
    ("effect", "toleration", "fits"),
    [
        ("NoExecute", None, False),
        ("NoSchedule", None, True),
        ("NoExecute", {"key": "broken", "operator": "Exists"}, True),
        ("NoExecute", {"operator": "Exists"}, True),
        ("NoExecute", {"key": "broken", "value": "yes"}, True),
        ("NoExecute", {"key": "broken", "value": "no"}, False),
        ("NoExecute", {"key": "other", "operator": "Exists"}, False),
        ("NoExecute", {"key": "broken", "operator": "Exists", "effect": "NoSchedule"}, False),
        ("NoExecute", {"operator": "Equal", "value": "yes"}, False),
    ],
)
def test_taints(effect: str, toleration: dict[str, Any] | None, fits: bool) -> None:
    pod = from_value(Pod, {"spec": {"tolerations": [toleration] if toleration else [], "containers": []}})
    place = NodeInfo("n1", ROOM, node({}, Taint(key="broken", value="yes", effect=effect)))
    assert (refusal(pod, [], place) is None) == fits


def test_the_taint_of_its_own_silence_refuses_no_pod() -> None:
    """A node that reads its Node answers again; the cloud takes the taint away with the next status."""
    silent = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
    assert refusal(a_pod(), [], NodeInfo("n1", ROOM, node({}, silent))) is None


def test_a_static_pod_tolerates_every_taint() -> None:
    pod = a_pod(meta={"annotations": {CONFIG_SOURCE: "file"}})
    assert refusal(pod, [], NodeInfo("n1", ROOM, node({}, Taint(key="broken", effect="NoExecute")))) is None


def _ports(host_network: bool = False, init: str = "", **port: Any) -> Pod:
    container = {"name": "c", "ports": [{"containerPort": 80, **port}]}
    kind = {"initContainers": [{**container, "restartPolicy": init}]} if init else {"containers": [container]}
    metadata = {"namespace": "default", "name": "web"}
    return from_value(Pod, {"metadata": metadata, "spec": {"hostNetwork": host_network, **kind}})


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        (_ports(hostPort=8080), _ports(hostPort=8080), True),
        (_ports(hostPort=8080), _ports(hostPort=8081), False),
        (_ports(), _ports(), False),
        (_ports(host_network=True), _ports(hostPort=80), True),
        (_ports(hostPort=53, protocol="UDP"), _ports(hostPort=53, protocol="TCP"), False),
        (_ports(hostPort=80, hostIP="10.0.0.1"), _ports(hostPort=80, hostIP="10.0.0.2"), False),
        (_ports(hostPort=80, hostIP="10.0.0.1"), _ports(hostPort=80, hostIP="::"), True),
        (_ports(hostPort=80, hostIP="10.0.0.1"), _ports(hostPort=80), True),
        (_ports(hostPort=80, protocol=""), _ports(hostPort=80, protocol="TCP"), True),
        (_ports(hostPort=80, init="Always"), _ports(hostPort=80), True),
        (_ports(hostPort=80, init="Never"), _ports(hostPort=80), False),
    ],
)
def test_ports_of_the_node(one: Pod, other: Pod, collide: bool) -> None:
    for pod, there in ((one, other), (other, one)):
        options = refusal(pod, [there], NodeInfo("n1", ROOM))
        assert (options.reason if options else None) == ("NodePorts" if collide else None)


def test_a_taken_port_is_named_with_its_protocol_and_its_pod() -> None:
    options = refusal(_ports(hostPort=53, protocol="UDP"), [_ports(hostPort=53, protocol="UDP")], NodeInfo("n1", ROOM))
    assert options is not None
    assert options.message.endswith("Predicate NodePorts failed: port 53/UDP of the node is taken by pod default/web")


def test_of_another_namespace_s_pod_that_has_a_port_nobody_learns_the_name() -> None:
    """Both want the port of the node; who was first keeps it."""
    mine, others = _ports(hostPort=53), _ports(hostPort=53)
    others = replace(others, metadata=replace(others.metadata, namespace="bank", name="payments"))
    for wants, has in ((mine, others), (others, mine)):
        options = refusal(wants, [has], NodeInfo("n1", ROOM))
        assert options is not None
        assert options.message.endswith("port 53/TCP of the node is taken by a pod of another namespace")


def test_reasons_have_a_kubelets_order() -> None:
    """Resources, labels, ports, taints: the first of them is reported."""
    pod = from_value(
        Pod,
        {
            "spec": {
                "nodeSelector": {"disk": "ssd"},
                "containers": [{"name": "c", "ports": [{"hostPort": 80}], "resources": {"requests": {"cpu": "3"}}}],
            }
        },
    )
    here = node({"disk": "ssd"}, Taint(key="broken", effect="NoExecute"))
    nodes = [
        (NodeInfo("n1", ROOM, node({})), [pod], "OutOfcpu"),
        (NodeInfo("n1", node=node({})), [pod], "NodeAffinity"),
        (NodeInfo("n1", node=here), [pod], "NodePorts"),
        (NodeInfo("n1", node=here), [], "TaintToleration"),
    ]
    found = [refusal(pod, others, where) for where, others, _ in nodes]
    assert [options.reason if options else None for options in found] == [reason for *_, reason in nodes]


_CONFINED, _FREE = {"type": "RuntimeDefault"}, {"type": "Unconfined"}
_NOTE = "container.apparmor.security.beta.kubernetes.io/c"


def _profiled(own: Any = None, shared: Any = None, note: str = "", kind: str = "containers") -> Pod:
    container = {"name": "c", "securityContext": {"appArmorProfile": own} if own else None}
    notes = {_NOTE: note} if note else {}
    spec = {kind: [container], "securityContext": {"appArmorProfile": shared} if shared else None}
    return from_value(Pod, {"metadata": {"annotations": notes}, "spec": spec})


@pytest.mark.parametrize(
    ("pod", "is_refused"),
    [
        (_profiled(), False),
        (_profiled(_FREE, _FREE, "unconfined"), False),
        (_profiled(_CONFINED), True),
        (_profiled(_CONFINED, kind="initContainers"), True),
        (_profiled({"type": "Localhost", "localhostProfile": "p"}), True),
        (_profiled(_FREE, _CONFINED), True),
        (_profiled(note="runtime/default"), True),
    ],
)
def test_a_profile_is_refused_where_the_kernel_has_no_apparmor(pod: Pod, is_refused: bool) -> None:
    """A runtime may leave out its default profile there, and the pod would be unconfined."""
    options = refusal(pod, [], NodeInfo("n1", ROOM, has_apparmor=False))
    assert (options.reason if options else None) == ("AppArmor" if is_refused else None)
    if options is not None:
        expected = "Pod was rejected: Cannot enforce AppArmor: AppArmor is not enabled on the host"
        assert (options.message, options.rejected) == (expected, True)
    assert refusal(pod, [], NodeInfo("n1", ROOM)) is None


def test_a_machine_that_shuts_down_takes_no_pod() -> None:
    options = refusal(a_pod(priority=2_000_000_000), [], NodeInfo("n1", ROOM, is_shutting_down=True))
    assert options is not None
    assert (options.reason, options.message) == (
        "NodeShutdown",
        "Pod was rejected: Pod was rejected as the node is shutting down.",
    )


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (a_pod(os=PodOS(name="linux")), None),
        (a_pod(os=PodOS(name="")), None),
        (a_pod(meta={"labels": {"kubernetes.io/os": "plan9"}}), "PodOSSelectorNodeLabelDoesNotMatch"),
        (a_pod(os=PodOS(name="windows")), "PodOSNotSupported"),
        (a_pod(meta={"labels": {"kubernetes.io/os": "linux"}}), None),
        (a_pod(meta={"labels": {"kubernetes.io/os": "windows"}}), "PodOSSelectorNodeLabelDoesNotMatch"),
    ],
)
def test_a_pod_for_another_operating_system(pod: Pod, reason: str | None) -> None:
    options = refusal(pod, [], NodeInfo("n1"))
    assert (options.reason if options else None) == reason
