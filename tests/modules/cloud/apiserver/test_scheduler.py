"""Where the scheduler puts a pod."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.cloud.apiserver import scheduler
from modules.cloud.apiserver.scheduler import Placement, Placer, makes_room
from modules.cloud.apiserver.scheduling import pod_affinity, rooms, topology_spread
from modules.cloud.apiserver.scheduling.scores import Scorer, balanced, least_allocated
from modules.cloud.apiserver.silent_nodes import UNREACHABLE
from modules.cloud.applications import NODE_GROUP
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.support.failing import Attempt, Failing, fail_at_each_call


def a_node(name: str, *, ready: bool = True, labels: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    condition = {"type": "Ready", "status": "True" if ready else "Unknown"}
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "3"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": spec,
        "status": {"conditions": [condition], "allocatable": allocatable},
    }


def a_pod(name: str = "p", on: str = "", cpu: str = "", port: int = 0, **spec: Any) -> JsonObject:
    container: JsonObject = {"name": "c", "image": "i"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if port:
        container["ports"] = [{"containerPort": 1, "hostPort": port}]
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container], "nodeName": on, **spec}}


def place(pod: JsonObject, nodes: list[JsonObject], pods: list[JsonObject]) -> Placement:
    return Placer.of(nodes, pods).place(pod)


def test_the_ready_one_with_the_fewest_pods_and_then_the_first_by_name() -> None:
    nodes = [a_node("c"), a_node("b"), a_node("a", ready=False)]
    assert place(a_pod(), nodes, []).node == "b"
    assert place(a_pod(), nodes, [a_pod("x", on="b")]).node == "c"
    ended = {**a_pod("x", on="b"), "status": {"phase": "Succeeded"}}
    assert place(a_pod(), nodes, [ended]).node == "b", "a pod that has ended takes no room"
    assert place(a_pod(), [nodes[2]], []).node == "a", "a node that is offline gets it when it connects"


RUNS = {**a_pod(on="n"), "metadata": {"name": "p", "labels": {"app": "web"}}}
NODE = a_node("n")
SPACE = {"kind": "Namespace", "metadata": {"name": "n", "labels": {"team": "a"}}}
GROUP = {"kind": NODE_GROUP.key_name, "metadata": {"name": "bank"}, "spec": {}}


@pytest.mark.parametrize(
    ("old", "new", "makes"),
    [
        (RUNS, None, True),
        (None, RUNS, False),
        (RUNS, {**RUNS, "status": {"phase": "Running"}}, False),
        (RUNS, {**RUNS, "status": {"phase": "Failed"}}, True),
        (RUNS, {**RUNS, "metadata": {"name": "p", "labels": {"app": "db"}}}, True),
        (a_pod(), a_pod(tolerations=[{"operator": "Exists"}]), True),
        (NODE, None, True),
        (None, NODE, True),
        (NODE, a_node("n", ready=False), True),
        (NODE, a_node("n", unschedulable=True), True),
        (NODE, a_node("n", labels={"disk": "fast"}), True),
        (NODE, {**NODE, "status": {**NODE["status"], "allocatable": {"cpu": "2"}}}, True),
        (NODE, {**NODE, "status": {**NODE["status"], "images": []}}, False),
        (None, SPACE, False),
        (SPACE, {**SPACE, "status": {}}, False),
        (SPACE, {"kind": "Namespace", "metadata": {"name": "n"}}, True),
        (None, {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}, True),
        ({"kind": "PersistentVolume", "metadata": {"name": "disk"}}, None, True),
        (GROUP, {**GROUP, "spec": {"nodes": ["n"]}}, True),
        (GROUP, {**GROUP, "status": {"ready": "0/1"}}, False),
    ],
)
def test_after_which_changes_pods_that_wait_are_looked_at(
    old: JsonObject | None, new: JsonObject | None, makes: bool
) -> None:
    """Rules of pods are about the labels of others, and each heartbeat of a node would look at all of them."""
    change = EventType.ADDED if old is None else EventType.DELETED if new is None else EventType.MODIFIED
    present = new or old or {}
    key = ObjectKey(present["kind"], "", present["metadata"]["name"])
    assert makes_room(ObjectEvent(change, key, present, old)) is makes


def a_volume(*nodes: str) -> JsonObject:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [*nodes]}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}} if nodes else {}
    return {"kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec}


_BOUND = {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}


@pytest.mark.parametrize(
    ("volume", "bound", "node"),
    [
        (a_volume("c"), "disk", "c"),
        (a_volume("b", "c"), "disk", "b"),
        (a_volume("elsewhere"), "disk", ""),
        (a_volume(), "disk", "b"),
        (a_volume("c"), "gone", "b"),
    ],
)
def test_a_pod_goes_where_the_volume_of_its_claim_is(volume: JsonObject, bound: str, node: str) -> None:
    claim = {"kind": "PersistentVolumeClaim", "metadata": _BOUND, "spec": {"volumeName": bound}}
    objects = {
        ObjectKey("PersistentVolumeClaim", "default", "data"): claim,
        ObjectKey("PersistentVolume", "", "disk"): volume,
    }
    fleet = rooms.NodeRooms(objects.get)
    fleet.set_nodes([a_node(name, labels={"host": name}) for name in "abc"])
    pod = a_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    pod["metadata"]["namespace"] = "default"
    placer = Placer(fleet)
    assert placer.place(a_pod("other")).node == "a"
    why = "" if node else "0/3 nodes are available: 3 node(s) had volume node affinity conflict."
    assert placer.place(pod) == Placement(node, why)


_ENDING = {"metadata": {"name": "data", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"volumeName": "disk"}}


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (_ENDING, 'persistentvolumeclaim "data" is being deleted'),
        ({"metadata": {"name": "data"}, "spec": {}}, "pod has unbound immediate PersistentVolumeClaims"),
        (
            {"metadata": {"name": "data"}, "spec": {"volumeName": "gone"}},
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            {"metadata": {"name": "data"}, "spec": {"volumeName": "gone"}, "status": {"phase": "Lost"}},
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
    ],
)
def test_a_pod_waits_until_its_claims_have_volumes(claim: JsonObject | None, why: str) -> None:
    """A volume that is bound afterwards may be out of the chosen node's reach; and nobody makes room meanwhile."""
    found = {} if claim is None else {ObjectKey("PersistentVolumeClaim", "default", "data"): claim}
    fleet = rooms.NodeRooms(found.get)
    fleet.set_nodes([a_node("a"), a_node("b")])
    fleet.set_pods("a", [a_pod("other", nodeName="a")])
    pod = a_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}], priority=9)
    pod["metadata"]["namespace"] = "default"
    placer = Placer(fleet)
    assert placer.place(pod) == Placement("", f"0/2 nodes are available: {why}.")
    assert placer.preemption(pod, list) is None


@pytest.mark.parametrize(
    ("modes", "namespace", "phase", "is_taken"),
    [
        (["ReadWriteOncePod"], "default", "Running", True),
        (["ReadWriteOncePod"], "default", "Succeeded", False),
        (["ReadWriteOncePod"], "other", "Running", False),
        (["ReadWriteOnce"], "default", "Running", False),
    ],
)
def test_a_claim_for_one_pod_keeps_other_pods_waiting(
    modes: list[str], namespace: str, phase: str, *, is_taken: bool
) -> None:
    spec = {"accessModes": modes, "volumeName": "disk"}
    claim = {"kind": "PersistentVolumeClaim", "metadata": _BOUND, "spec": spec}
    fleet = rooms.NodeRooms({ObjectKey("PersistentVolumeClaim", "default", "data"): claim}.get)
    fleet.set_nodes([a_node("a"), a_node("b")])
    pod = a_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    pod["metadata"]["namespace"] = "default"
    fleet.set_pods("a", [{**pod, "metadata": {"name": "first", "namespace": namespace}, "status": {"phase": phase}}])
    why = (
        "0/2 nodes are available: 2 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod "
        "access mode."
    )
    placement = Placer(fleet).place(pod)
    assert (placement.why == why, not placement.node) == (is_taken, is_taken)
    room = Placer(fleet).preemption({**pod, "spec": {**pod["spec"], "priority": 1}}, list)
    assert (room is not None and [key_of(one).name for one in room.victims] == ["first"]) == is_taken


def large(node: JsonObject) -> JsonObject:
    """Return a node with room for every pod."""
    return {**node, "status": {**node["status"], "allocatable": {"cpu": "9", "pods": "9"}}}


NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
TAINT = {"key": "gpu", "value": "yes", "effect": NO_SCHEDULE}


@pytest.mark.parametrize(
    ("node", "pod", "others", "reason"),
    [
        (a_node("n"), a_pod(nodeSelector={"a": "b"}), [], "node(s) didn't match Pod's node affinity/selector"),
        (a_node("n", unschedulable=True), a_pod(), [], "node(s) were unschedulable"),
        (a_node("n", taints=[TAINT]), a_pod(), [], "node(s) had untolerated taint {gpu: yes}"),
        (a_node("n"), a_pod(cpu="600m"), [a_pod("x", on="n", cpu="500m")], "Insufficient cpu"),
        (a_node("n"), a_pod(), [a_pod(str(i), on="n") for i in range(3)], "Too many pods"),
        (a_node("n"), a_pod(cpu="1"), [a_pod(str(i), on="n", cpu="1m") for i in range(3)],
         "Insufficient cpu, 1 Too many pods"),
        (a_node("n"), a_pod(cpu="2", port=80), [a_pod("x", on="n", port=80)],
         "node(s) didn't have free ports for the requested pod ports"),
        (a_node("n", taints=[TAINT]), a_pod(nodeSelector={"a": "b"}), [], "node(s) had untolerated taint {gpu: yes}"),
        (a_node("n", unschedulable=True), a_pod(nodeSelector={"a": "b"}), [], "node(s) were unschedulable"),
        (a_node("n"), a_pod(port=80), [a_pod("x", on="n", port=80)],
         "node(s) didn't have free ports for the requested pod ports"),
    ],
)  # fmt: skip
def test_a_node_that_does_not_fit(node: JsonObject, pod: JsonObject, others: list[JsonObject], reason: str) -> None:
    placement = place(pod, [node], others)
    assert placement == Placement("", f"0/1 nodes are available: 1 {reason}.")
    assert place(pod, [node, large(a_node("other", labels={"a": "b"}))], others).node == "other"


def test_a_reason_is_no_longer_than_an_events_message() -> None:
    """Nodes choose the keys of their taints."""
    nodes = [a_node(f"n{number}", taints=[{**TAINT, "value": f"{number:063}"}]) for number in range(30)]
    reason = place(a_pod(), nodes, []).why
    assert (len(reason), reason[:41]) == (1024, "0/30 nodes are available: 1 node(s) had u")


def test_a_toleration_lets_a_pod_onto_a_node() -> None:
    node = a_node("n", taints=[TAINT], unschedulable=True)
    everything = [{"operator": "Exists"}]
    assert place(a_pod(tolerations=everything), [node], []).node == "n"


def test_a_pod_goes_to_any_of_the_nodes_that_its_terms_name() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in ("a", "b")]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for name, node in (("a", "a"), ("b", "b"), ("c", "")):
        assert place(a_pod(affinity={"nodeAffinity": required}), [a_node(name)], []).node == node


def test_a_pod_may_go_to_a_node_by_its_name_or_to_others_by_their_labels() -> None:
    terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for node in (a_node("a"), a_node("b", labels={"zone": "west"})):
        assert place(a_pod(affinity={"nodeAffinity": required}), [node], []).node == node["metadata"]["name"]


@pytest.mark.parametrize(
    ("seconds", "annotations", "node"),
    [
        (None, {}, "n"),
        (300, {}, "n"),
        (60, {}, ""),
        (300, {"edgecore.io/evict-after": "30m"}, ""),
        (None, {"edgecore.io/evict-after": "30m"}, ""),
    ],
)
def test_a_silent_node_gets_the_pods_that_stay_there_for_ever(
    seconds: int | None, annotations: dict[str, str], node: str
) -> None:
    """It runs them when it connects; others would be evicted there at once."""
    silent = a_node(
        "n", ready=False, taints=[{"key": UNREACHABLE, "effect": each} for each in (NO_SCHEDULE, NO_EXECUTE)]
    )
    silent["metadata"]["annotations"] = annotations
    tolerated = {"key": UNREACHABLE, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": seconds}
    assert place(a_pod(tolerations=[tolerated] if seconds is not None else []), [silent], []).node == node


def test_what_keeps_each_node_away_is_counted() -> None:
    nodes = [a_node("a", unschedulable=True), a_node("b", unschedulable=True), a_node("c", taints=[TAINT])]
    why = place(a_pod(), nodes, []).why
    assert why == ("0/3 nodes are available: 1 node(s) had untolerated taint {gpu: yes}, 2 node(s) were unschedulable.")
    near = place(a_pod(nodeSelector={"a": "b"}), [nodes[0], a_node("d"), a_node("e")], []).why
    assert near == (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector."
    )
    assert place(a_pod(), [], []).why == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("node", "first", "second"),
    [
        (a_node("n", taints=[TAINT]), a_pod(), a_pod("q", tolerations=[{"operator": "Exists"}])),
        (a_node("n"), a_pod(cpu="2"), a_pod("q", cpu="1")),
        (a_node("n"), a_pod(port=80), a_pod("q", port=81)),
        (a_node("n"), a_pod(nodeSelector={"a": "b"}), a_pod("q")),
    ],
)
def test_the_memory_of_a_pod_does_not_count_for_a_smaller_pod(
    node: JsonObject, first: JsonObject, second: JsonObject
) -> None:
    placer = Placer.of([node], [a_pod("other", on="n", port=80)])
    assert [placer.place(pod).node for pod in (first, second)] == ["", "n"]


def test_a_node_that_reports_nonsense_keeps_only_itself_from_pods() -> None:
    broken, good = a_node("a"), a_node("b")
    broken["status"]["allocatable"] = {"cpu": "many"}
    assert "cannot be read" in place(a_pod(), [broken], []).why
    assert place(a_pod(), [broken, good], []).node == "b"
    mirror = a_pod("mirror", on="a", overhead={"cpu": "lots"})
    assert place(a_pod(), [a_node("a"), good], [mirror, a_pod("x", on="b"), a_pod("y", on="b")]).node == "b"
    room = rooms.NodeRoom(a_node("a"))
    for there, is_readable in (([mirror], False), ([], True), ([mirror, a_pod("x")], False), ([a_pod("x")], True)):
        room.set_pods(there)
        assert room.is_readable is is_readable


def test_a_node_that_is_full_already_is_no_worse_than_one_without_room() -> None:
    """A pod without requests counts for 200 MiB in scores, and may be on a node that has less."""
    small = a_node("a")
    small["status"]["allocatable"]["memory"] = "100Mi"
    assert least_allocated(rooms.NodeRoom(small), rooms.demand_of(a_pod())) == 90 // 2
    assert least_allocated(rooms.NodeRoom(small), rooms.demand_of(a_pod(cpu="2"))) == 0
    small["status"]["allocatable"] = {"pods": "3"}
    assert least_allocated(rooms.NodeRoom({**small}), rooms.demand_of(a_pod())) == 0


@pytest.mark.parametrize(
    ("requests", "there", "score"),
    [
        ({"cpu": "500m"}, "", 75),
        ({"cpu": "250m"}, "250m", 75),
        ({"cpu": "500m", "memory": "256Mi"}, "", 87),
        ({"cpu": "1"}, "2", 50),
        ({}, "", 100),
    ],
)
def test_a_node_whose_processor_and_memory_are_used_evenly_is_better(
    requests: dict[str, str], there: str, score: int
) -> None:
    """Where pods request more than the node has, as after its change, it counts as full."""
    room = rooms.NodeRoom(a_node("a"))
    room.set_pods([{**a_pod(on="a", cpu=there), "metadata": {"name": "x", "namespace": "default"}}])
    wanted = a_pod(containers=[{"name": "c", "image": "i", "resources": {"requests": requests}}])
    assert balanced(room, rooms.demand_of(wanted)) == score


def test_a_node_keeps_few_looks() -> None:
    room, looked = rooms.NodeRoom(a_node("a")), list[bytes]()
    for demand in (bytes([number]) for number in (*range(33), 32, 0)):

        def look(_room: rooms.NodeRoom, demand: bytes = demand) -> rooms.Reasons:
            looked.append(demand)
            return ("no",)

        room.verdict(demand, look)
    assert [*map(ord, looked)] == [*range(33), 0]


_THERE = {**a_pod(on="a", cpu="100m"), "metadata": {"name": "x", "namespace": "default", "labels": {"app": "web"}}}


@pytest.mark.parametrize(
    ("change", "evaluations"),
    [
        ({"status": {"phase": "Running"}}, 1),
        ({"metadata": {**_THERE["metadata"], "resourceVersion": "7", "annotations": {"a": "b"}}}, 1),
        ({"spec": {**_THERE["spec"], "nodeName": ""}}, 1),
        ({"spec": a_pod(on="a", cpu="200m")["spec"]}, 2),
        ({"spec": {**_THERE["spec"], "priority": 5}}, 2),
        ({"metadata": {**_THERE["metadata"], "labels": {"app": "db"}}}, 2),
        ({"metadata": {**_THERE["metadata"], "annotations": {CONFIG_MIRROR: "x"}}}, 2),
        ({"metadata": {**_THERE["metadata"], "deletionTimestamp": "2027-01-15T08:00:30Z"}}, 2),
    ],
)
def test_a_node_is_evaluated_again_when_its_pods_take_something_else(change: JsonObject, evaluations: int) -> None:
    """Not for each status of a pod."""
    room, evaluated = rooms.NodeRoom(a_node("a")), list[list[JsonObject]]()

    def evaluate(room: rooms.NodeRoom) -> rooms.Reasons:
        evaluated.append(list(room.pods))
        return ("no",)

    changed = {**_THERE, **change}
    for pod in (_THERE, changed):
        room.set_pods([pod])
        room.verdict(b"", evaluate)
    assert len(evaluated) == evaluations
    assert list(room.pods) == [changed]
    assert room.used["cpu"] == rooms.demand_of(changed).requests["cpu"]


def test_many_pods_are_placed_one_after_another_with_one_reading_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred pods that waited beside a hundred nodes kept the API server busy for twelve seconds."""
    nodes, others = [a_node(f"n{i}") for i in range(10)], [a_pod(f"x{i}", on=f"n{i}", cpu="500m") for i in range(10)]
    read = list[str]()

    def counted(obj: JsonObject, kind: Any, name: str) -> Any:
        read.append(name)
        return convert(obj, kind, name)

    for module in (scheduler, rooms):
        monkeypatch.setattr(module, "convert", counted)
    placer = Placer.of(nodes, others)
    assert [placer.place(a_pod(f"w{i}", cpu="600m")).node for i in range(50)] == [""] * 50
    assert (read.count("Node"), read.count("Pod")) == (10, 11)
    assert [placer.place(a_pod(f"w{i}", cpu="300m")).node for i in range(11)] == [*(f"n{i}" for i in range(10)), ""]


def affinity(kind: str, *, key: str = "kubernetes.io/hostname", weight: int = 0, **labels: str) -> dict[str, Any]:
    """Return a rule about pods with labels: required, or preferred if it has a weight."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
    if weight:
        preferred = [{"weight": weight, "podAffinityTerm": term}]
        return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def labelled(pod: JsonObject, namespace: str = "default", **labels: str) -> JsonObject:
    return {**pod, "metadata": {**pod["metadata"], "namespace": namespace, "labels": labels}}


def hosts(*names: str, **zones: str) -> list[JsonObject]:
    zone = {name: {"zone": zones[name]} if name in zones else {} for name in names}
    return [a_node(name, labels={"kubernetes.io/hostname": name, **zone[name]}) for name in names]


def test_pods_that_keep_each_other_away_are_on_different_nodes() -> None:
    away = affinity("podAntiAffinity", app="db")
    placer = Placer.of(hosts("a", "b"), [])
    pods = [labelled(a_pod(f"p{number}", affinity=away), app="db") for number in range(3)]
    placed = [placer.place(pod) for pod in pods]
    assert [one.node for one in placed] == ["a", "b", ""]
    assert placed[2].why == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    kept_away = place(labelled(a_pod(), app="db"), hosts("a"), [labelled(a_pod("x", on="a", affinity=away))])
    assert kept_away.why == "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    assert placer.place(labelled(a_pod("web"), app="web")).node == "a"
    assert not placer.place(labelled(a_pod("other"), app="db")).node, "the rules of those that are there count"
    assert placer.place(labelled(a_pod("far"), "elsewhere", app="db")).node == "b", "they are about their namespace"
    mirror = labelled(a_pod("mirror", on="a", affinity=affinity("podAntiAffinity", key="zone")), "kube-system")
    mirror["metadata"]["annotations"] = {CONFIG_MIRROR: "x"}
    wide = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "zone"}
    mirror["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = [wide]
    assert place(labelled(a_pod()), hosts("a", a="east"), [mirror]).node == "a", "a node writes the rules of such a pod"
    real = {**mirror, "metadata": {**mirror["metadata"], "annotations": {}}}
    assert not place(labelled(a_pod()), hosts("a", a="east"), [real]).node
    alone = place(labelled(a_pod(affinity=affinity("podAntiAffinity", app="web")), app="db"), hosts("a"),
                  [labelled(a_pod("web", on="a"), app="web")])  # fmt: skip
    assert alone.why == "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."


def test_pods_that_want_to_be_together_are_in_one_zone() -> None:
    nodes = hosts("a", "b", "c", a="east", b="west", c="west")
    near = affinity("podAffinity", key="zone", app="db")
    there = [labelled(a_pod("db", on="b"), app="db"), labelled(a_pod("x", on="c"))]
    assert place(labelled(a_pod(affinity=near), app="web"), nodes, there).node in ("b", "c")
    lonely = place(labelled(a_pod(affinity=near), app="web"), nodes, [])
    assert lonely.why == "0/3 nodes are available: 3 node(s) didn't match pod affinity rules."
    placer = Placer.of(nodes, [])
    first, second = (placer.place(labelled(a_pod(f"db{i}", affinity=near), app="db")).node for i in range(2))
    assert (first, second) == ("a", "a"), "the first of those that want each other may begin anywhere"


def spread(when: str = "DoNotSchedule", **fields: Any) -> list[JsonObject]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when, **fields}
    return [{"labelSelector": {"matchLabels": {"app": "web"}}, **constraint}]


def test_a_topology_spread_constraint_bounds_the_difference_between_zones() -> None:
    nodes = hosts("a", "b", "c", a="east", b="west")
    placer = Placer.of(nodes, [])
    pods = [labelled(a_pod(f"w{i}", topologySpreadConstraints=spread()), app="web") for i in range(4)]
    assert sorted(placer.place(pod).node for pod in pods) == ["a", "a", "b", "b"]
    full = [labelled(a_pod(f"x{i}", on="b")) for i in range(3)]
    there = [*full, labelled(a_pod("w", on="a"), app="web")]
    refused = place(pods[0], nodes, there)
    unbalanced = "node(s) didn't match pod topology spread constraints"
    assert refused.why == (
        f"0/3 nodes are available: 1 Too many pods, 1 {unbalanced}, 1 {unbalanced} (missing required label)."
    )
    both = [there[-1], labelled(a_pod("v", on="b"), app="web")]
    leaving = labelled(a_pod("u", on="a"), app="web")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert place(pods[0], nodes, [leaving, *full]).node == "a", "it does not count, as it is ending"
    for domains, chosen in ((2, "a"), (3, "")):
        wanted = labelled(a_pod(topologySpreadConstraints=spread(minDomains=domains)), app="web")
        assert place(wanted, nodes, both).node == chosen


HOST: Final = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("constraint", "selector", "node"),
    [
        ({}, {}, ""),
        ({"nodeTaintsPolicy": "Honor"}, {}, "a"),
        ({}, {HOST: "a"}, "a"),
        ({"nodeAffinityPolicy": "Ignore"}, {HOST: "a"}, ""),
        ({"maxSkew": 2}, {}, "a"),
        ({"matchLabelKeys": ["rev"]}, {}, "a"),
        ({"matchLabelKeys": ["unknown"]}, {}, ""),
        ({"labelSelector": None}, {}, "a"),
        ({"labelSelector": {}}, {}, "a"),
        ({"labelSelector": {}, "matchLabelKeys": ["app"]}, {}, ""),
    ],
)
def test_which_nodes_and_pods_a_topology_spread_constraint_counts(
    constraint: dict[str, Any], selector: dict[str, str], node: str
) -> None:
    nodes = hosts("a", "b", a="east", b="west")
    nodes[1]["spec"]["taints"] = [TAINT]
    wanted = a_pod(topologySpreadConstraints=spread(**constraint), nodeSelector=selector)
    there = labelled(a_pod("x", on="a"), app="web", rev="1")
    assert place(labelled(wanted, app="web", rev="2"), nodes, [there]).node == node


@pytest.mark.parametrize(("keys", "node"), [({"matchLabelKeys": ["rev"]}, "a"), ({"mismatchLabelKeys": ["rev"]}, "b")])
def test_a_rule_is_about_pods_with_the_same_or_another_value_of_a_label(keys: dict[str, Any], node: str) -> None:
    near = affinity("podAffinity", key=HOST, app="web")
    near["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0].update(keys)
    there = [labelled(a_pod(host, on=host), app="web", rev=rev) for host, rev in (("a", "1"), ("b", "2"))]
    assert place(labelled(a_pod(affinity=near), app="web", rev="1"), hosts("a", "b"), there).node == node


@pytest.mark.parametrize(
    ("about", "node"),
    [
        ({}, "a"),
        ({"namespaces": ["one"]}, "b"),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, "b"),
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}, "namespaces": ["two"]}, ""),
        ({"namespaceSelector": {}}, ""),
    ],
)
def test_a_rule_is_about_the_namespaces_that_it_names_and_selects(about: dict[str, Any], node: str) -> None:
    away = affinity("podAntiAffinity", key=HOST, app="web")
    away["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0].update(about)
    fleet = rooms.NodeRooms()
    fleet.set_nodes(hosts("a", "b"))
    fleet.namespaces = {"one": {"team": "red"}, "two": {"team": "blue"}}
    fleet.set_pods("a", [labelled(a_pod("x"), "one", app="web")])
    fleet.set_pods("b", [labelled(a_pod("y"), "two", app="web")])
    assert Placer(fleet).place(labelled(a_pod(affinity=away))).node == node


def test_a_rule_without_a_selector_is_about_no_pod() -> None:
    away: JsonObject = {"topologyKey": HOST}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
    assert place(labelled(a_pod(affinity=rule)), hosts("a"), [labelled(a_pod("x", on="a"))]).node == "a"
    away["labelSelector"] = {}
    assert place(labelled(a_pod(affinity=rule)), hosts("a"), [labelled(a_pod("x", on="a"))]).node == ""


WEB: Final[dict[str, Any]] = {"topologySpreadConstraints": spread("ScheduleAnyway")}
ON_HOSTS: Final[dict[str, Any]] = {"topologySpreadConstraints": spread("ScheduleAnyway", topologyKey=HOST)}
ZONES: Final = hosts("a", "b", "c", a="east", b="west")
WEST: Final = {"weight": 9, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]}}


def web(name: str, on: str = "") -> JsonObject:
    return labelled(a_pod(name, on=on), app="web")


def with_image(name: str, image: str, megabytes: int) -> JsonObject:
    node = a_node(name)
    node["status"]["images"] = [{"names": [image], "sizeBytes": megabytes << 20}]
    return node


def without_memory(name: str) -> JsonObject:
    node = a_node(name)
    del node["status"]["allocatable"]["memory"]
    return node


@pytest.mark.parametrize(
    ("pod", "nodes", "pods", "scores"),
    [
        (a_pod(cpu="100m"), ZONES[:2], [a_pod("x", on="a", cpu="500m")], {"a": 0, "b": 60}),
        (a_pod(), [a_node("a"), without_memory("b")], [], {"a": 0, "b": 5}),
        (a_pod(), ZONES[:2], [a_pod("x", on="a", containers=[{"name": name, "image": "i"} for name in "ij"]),
         a_pod("y", on="b")], {"a": 0, "b": 15}),
        (a_pod(), ZONES[:2], [a_pod("x", on="a"), a_pod("y", on="b", containers=[
            {"name": "i", "image": "i", "resources": {"requests": {"cpu": "0", "memory": "0"}}}])], {"a": 0, "b": 15}),
        (a_pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [WEST]}}), ZONES[:2], [],
         {"a": 0, "b": 200}),
        (a_pod(affinity=affinity("podAffinity", weight=10, app="web")), ZONES[:2], [web("x", "b")],
         {"a": 0, "b": 185}),
        (a_pod(affinity=affinity("podAffinity", weight=10, app="web")), ZONES[:2], [web("x", "a"), web("y", "b")],
         {"a": 0, "b": 0}),
        (a_pod(affinity=affinity("podAntiAffinity", weight=10, app="web")), ZONES[:2],
         [web("x", "a"), a_pod("y", on="b", cpu="300m")], {"a": 0, "b": 175}),
        (web("p"), ZONES[:2], [a_pod("x", on="b", affinity=affinity("podAffinity", weight=10, app="web"))],
         {"a": 0, "b": 185}),
        (web("p"), ZONES[:2], [a_pod("x", on="b", affinity=affinity("podAffinity", app="web"))], {"a": 0, "b": 185}),
        (web("p"), ZONES[:2], [a_pod("x", on="a", affinity=affinity("podAntiAffinity", weight=10, app="web"))],
         {"a": 0, "b": 215}),
        (a_pod("p"), ZONES[:2], [a_pod("x", on="b", affinity=affinity("podAffinity", weight=10, app="web"))],
         {"a": 15, "b": 0}),
        (a_pod(**WEB), ZONES, [web("w", "a"), a_pod("x", on="b")], {"a": 0, "b": 200, "c": 15}),
        (a_pod(**WEB), ZONES, [web("v", "a"), web("w", "a"), web("x", "b")], {"a": 36, "b": 185, "c": 0}),
        (a_pod(**WEB), [*ZONES[:2], a_node("c", labels={"zone": "south"}, taints=[TAINT])],
         [web("v", "a"), web("w", "b"), web("x", "b")], {"a": 149, "b": 0}),
        (a_pod(**ON_HOSTS), [a_node(name, labels={HOST: "twin"}) for name in "ab"], [web("w", "a"), a_pod("x", "b")],
         {"a": 0, "b": 200}),
        (a_pod(), [a_node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}]), a_node("b")], [],
         {"a": 0, "b": 300}),
        (a_pod(tolerations=[{"operator": "Exists"}]), [a_node("a", taints=[{**TAINT, "effect": "PreferNoSchedule"}]),
         a_node("b", taints=[TAINT])], [], {"a": 0, "b": 0}),
        (a_pod(affinity={**affinity("podAffinity", weight=10, app="web"),
                         **affinity("podAntiAffinity", weight=10, app="db")}), hosts("a", "b", "c"),
         [web("x", "a"), labelled(a_pod("y", on="a"), app="db"), web("z", "b")], {"a": 0, "b": 215, "c": 30}),
        (a_pod(), [a_node("a"), with_image("b", "i:latest", 1023)], [], {"a": 0, "b": 50}),
        (a_pod(), [with_image("a", "i:latest", 1023), with_image("b", "i:latest", 523)], [], {"a": 49, "b": 0}),
        (a_pod(), [with_image("a", "i:latest", 1023), a_node("b"), a_node("c")], [], {"a": 32, "b": 0, "c": 0}),
        (a_pod(containers=[{"name": "c", "image": "i:v1"}]),
         [a_node("a"), with_image("b", "i:v1", 1023)], [], {"a": 0, "b": 50}),
        (a_pod(containers=[{"name": "c", "image": "r:1/i"}]),
         [a_node("a"), with_image("b", "r:1/i:latest", 1023)], [], {"a": 0, "b": 50}),
        (a_pod(containers=[{"name": name, "image": name} for name in "ij"]),
         [a_node("a"), with_image("b", "j:latest", 2023)], [], {"a": 0, "b": 50}),
        (a_pod(initContainers=[{"name": "j", "image": "j"}]),
         [a_node("a"), with_image("b", "j:latest", 2023)], [], {"a": 0, "b": 50}),
    ],
    ids=["fewest requests", "no memory known", "two containers without requests", "requests of nothing",
         "node affinity", "pod affinity", "equal affinity", "pod anti-affinity",
         "preference of a pod there", "rule of a pod there", "dislike of a pod there", "preference for others",
         "emptier zone", "less full zone", "zone without a node that fits",
         "nodes with one name of a host", "soft taint", "tolerated taints", "affinity and anti-affinity",
         "image", "smaller image", "image of one in three", "image with a tag", "image without a tag",
         "one of two images", "image of an init container"],
)  # fmt: skip
def test_the_scores_are_kube_schedulers_and_the_best_node_is_chosen(
    pod: JsonObject,
    nodes: list[JsonObject],
    pods: list[JsonObject],
    scores: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = dict[str, int]()

    class Noted(Scorer):
        def scores(self, rooms: Sequence[rooms.NodeRoom], verdicts: Sequence[rooms.NodeVerdict]) -> list[int]:
            given = super().scores(rooms, verdicts)
            found.update(zip([room.name for room in rooms], given, strict=True))
            return given

    monkeypatch.setattr(scheduler, "Scorer", Noted)
    own, *there = (labelled(each, **each["metadata"].get("labels", {})) for each in (pod, *pods))
    chosen = place(own, nodes, there).node
    least = min(found.values())
    assert {name: score - least for name, score in found.items()} == scores, "more than the worst node"
    assert chosen == max(scores, key=lambda name: scores[name])


def test_a_node_gets_its_score_once_beside_others_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that fits one node, such as a DaemonSet's, costs no scores."""
    scored = list[str]()

    class Noted(Scorer):
        def verdict(self, room: rooms.NodeRoom) -> rooms.NodeVerdict:
            scored.append(room.name)
            return super().verdict(room)

    monkeypatch.setattr(scheduler, "Scorer", Noted)
    placer = scheduler.Placer.of([labelled(a_node(name), zone=name[0]) for name in ("a1", "b1", "b2", "b3")], [])
    assert [placer.place(a_pod("x", nodeSelector={"zone": "a"})).node, scored] == ["a1", []]
    selected = [placer.place(a_pod(name, nodeSelector={"zone": "b"})).node for name in ("p", "q", "r")]
    assert selected == ["b1", "b2", "b3"]
    assert scored == ["b1", "b2", "b3", "b1", "b2"], "all for the first pod, and then the one with a new pod"


@pytest.mark.parametrize(
    "wanted",
    [
        {"affinity": affinity("podAntiAffinity", app="web")},
        {"affinity": affinity("podAffinity", app="none")},
        {"affinity": affinity("podAntiAffinity", weight=1, app="none")},
        {"topologySpreadConstraints": spread(topologyKey=HOST)},
        {},
    ],
)
def test_rules_are_asked_once_about_pods_that_are_alike(wanted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    selector_of = pod_affinity.selector_of

    def noting(*rule: Any) -> pod_affinity.Matcher:
        matches = selector_of(*rule)

        def note(pod: rooms.PodDemand) -> bool:
            asked.append(pod.alike)
            return matches(pod)

        return note

    for package in (pod_affinity, topology_spread):
        monkeypatch.setattr(package, "selector_of", noting)

    def of(number: int) -> int:
        nodes = [a_node(f"n{at}", labels={HOST: f"n{at}"}) for at in range(number)]
        shy = affinity("podAntiAffinity", app="shy")
        pods = [labelled(a_pod(f"w{at}", on=f"n{at}", affinity=shy), app="web") for at in range(number)]
        pods += [labelled(a_pod(f"d{at}", on=f"n{at}", affinity=shy), app="db") for at in range(number)]
        asked.clear()
        place(labelled(a_pod(**wanted), app="new"), nodes, pods)
        return len(asked)

    assert 0 < of(2) == of(20)


def test_other_nodes_are_not_looked_at_for_a_pod_without_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler._Attempt, "_of_others", lambda *_: "looked at")
    others = [labelled(a_pod("w", on="a"), app="web")]
    assert place(a_pod(), [a_node("a"), a_node("b")], others).node == "b"
    shy = labelled(a_pod(affinity=affinity("podAntiAffinity", key="zone", app="web")))
    assert "looked at" in place(shy, [a_node("a", labels={"zone": "a"})], others).why


def test_unchanged_objects_are_not_read_again() -> None:
    fleet = rooms.NodeRooms()
    node, pods = a_node("a"), [a_pod(str(number), on="a", cpu="100m") for number in range(3)]
    fleet.set_nodes([node])
    assert fleet.outdated({"a": 1}) == ["a"]
    fleet.set_pods("a", pods, 1)
    assert not fleet.outdated({"a": 1})
    room = fleet.rooms["a"]
    before = list(room.demands)
    fleet.assume("a", a_pod("new", on="a", cpu="100m"), rooms.demand_of(a_pod("new", cpu="100m")))
    assert [room.used["cpu"] * 10, room.used["pods"]] == [4, 4]
    assert fleet.outdated({"a": 1}) == ["a"], "whether it was stored is not known"
    fleet.set_pods("a", pods[1:], 2)
    assert all(one is other for one, other in zip(room.demands, before[1:], strict=True))
    assert [room.used["cpu"] * 10, room.used["pods"]] == [2, 2]
    assert room.counted["cpu"] * 10 == 2
    fleet.set_pods("a", [a_pod("shy", on="a", affinity=affinity("podAntiAffinity", app="db"))])
    assert len(room.with_rules) == 1
    fleet.set_pods("a", [])
    assert not room.with_rules, "rules of a pod that has gone"
    assert room.lowest_priority == math.inf
    fleet.set_nodes([{**node, "status": {"allocatable": {"cpu": "many"}}}])
    assert not room.is_readable, "nonsense does not leave the former state"
    fleet.set_nodes([])
    assert not fleet.rooms
    fleet.set_nodes([node])
    fleet.set_pods("a", [])
    assert not fleet.outdated({}), "a node without pods"
    fleet.set_pods("a", pods, 3)
    fleet.set_nodes([node, a_node("b")])
    assert fleet.outdated({"a": 3}) == ["b"]
    fleet.set_nodes([])
    fleet.set_nodes([node])
    assert fleet.outdated({"a": 3}) == ["a"], "pods of a node that was deleted and made anew"


def test_pods_that_have_not_changed_are_not_looked_at_for_each_pod_that_is_placed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pods in their hundreds on one node would each cost the next one something."""
    looked_at = set[str]()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def look(*states: JsonObject) -> Any:
            looked_at.add(states[-1]["metadata"]["name"])
            return function(*states)

        return look

    for name in ("key_of", "has_ended", "takes_the_same"):
        monkeypatch.setattr(rooms, name, noting(getattr(rooms, name)))
    pods = [a_pod(str(number), on="a") for number in range(3)]
    room = rooms.NodeRoom(a_node("a"))
    room.set_pods(pods)
    looked_at.clear()
    changed = {**pods[1], "status": {"phase": "Running"}}
    room.set_pods([pods[0], changed, pods[2]])
    assert (looked_at, list(room.pods)) == ({"1"}, [pods[0], changed, pods[2]])


@pytest.mark.parametrize("seed", range(8))
def test_what_nodes_have_said_before_changes_no_placement(seed: int) -> None:
    """A node that has changed, or whose pods have, is examined again; one placer for each pod decides the same."""
    draw = random.Random(seed)  # noqa: S311 - reproducible on purpose
    fleet, nodes, pods = rooms.NodeRooms(), dict[str, JsonObject](), dict[str, JsonObject]()
    changes = dict[str, int]()
    for step in range(40):
        name = draw.choice("abcde")
        node = a_node(name, ready=draw.random() < 0.8, labels={"zone": draw.choice("xy")})
        node["spec"]["taints"] = draw.choice([[], [], [TAINT], [{**TAINT, "effect": "PreferNoSchedule"}]])
        node["status"]["images"] = draw.choice([[], [{"names": ["i:latest"], "sizeBytes": 500_000_000}]])
        nodes[name] = node
        if pods and draw.random() < 0.3:
            gone = pods.pop(draw.choice(list(pods)))
            changes[gone["spec"]["nodeName"]] = step
        fleet.set_nodes(list(nodes.values()))
        for outdated in fleet.outdated(changes):
            there = [pod for pod in pods.values() if pod["spec"]["nodeName"] == outdated]
            fleet.set_pods(outdated, there, changes.get(outdated, 0))
        rules = draw.choice([{}, {}, affinity("podAntiAffinity", key="zone", weight=5, app="db")])
        pod = labelled(a_pod(f"p{step}", cpu=draw.choice(["", "200m", "400m"]), port=draw.choice([0, 0, 80]),
                             affinity=rules, nodeSelector=draw.choice([{}, {}, {"zone": "x"}])), app="db")  # fmt: skip
        placement = Placer(fleet).place(pod)
        assert placement == place(pod, list(nodes.values()), list(pods.values()))
        if placement.node and draw.random() < 0.9:  # otherwise its write failed
            pods[pod["metadata"]["name"]] = {**pod, "spec": {**pod["spec"], "nodeName": placement.node}}
            changes[placement.node] = 100 + step


def test_a_placement_that_fails_keeps_no_room() -> None:
    """Of the pods that others make room for, which count only while a pod is placed."""
    nominated = {**a_pod("waits", cpu="600m", priority=5), "status": {"nominatedNodeName": "n"}}
    nominated["metadata"] = {**nominated["metadata"], "namespace": "default", "uid": "u"}

    def make(failing: Failing) -> Attempt:
        fleet = rooms.NodeRooms(failing.call(lambda _: None))
        fleet.set_nodes([a_node("n")])
        placer = Placer(fleet, [nominated])
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        room = fleet.rooms["n"]
        return Attempt(
            lambda: placer.place(a_pod("next", volumes=volumes)),
            left=lambda: (sorted(room._known), {name: amount for name, amount in room.used.items() if amount}),
        )

    assert fail_at_each_call(make, ValueError("of this test")) > 0
