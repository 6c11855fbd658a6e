"""What users do: each walk names the pages that describe it, and its commands are counted while it is walked."""

from __future__ import annotations

import platform
import shutil
import socket
import sys
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import yaml
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from tests.modules.processes.edgecore.upgrade.releases import KEY, make_bundle
from tests.packaging.bundle import public_key
from tests.walks.errors import WalkError
from tests.walks.screens import Fact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.walks.world import World

IMAGE: Final = "docker.io/library/busybox:1.36"
OTHER_IMAGE: Final = "docker.io/library/busybox:1.37"
_TLS_ONLY: Final = {"plain": "bundles and certificates are for nodes with TLS"}
_LEASE_SECONDS: Final = 50.0
"""Within which a node whose Lease is not renewed becomes NotReady (40 s), and the controller has looked."""
_LONG: Final = 20.0


@dataclass(frozen=True)
class Walk:
    """What a user does with an installation.

    Args:
        do: does it, and yields what it has seen beside the screens that each row is looked at by. Raises WalkError.
        pages: that describe it.
        commands: of both programs that it runs, whatever the row.
        needs: of the cloud: `bundles`, `api`.
        not_with: reasons by levels that it cannot be walked with.
        programs: of the machine.
    """

    do: Callable[[World], Iterator[Fact]]
    pages: tuple[str, ...]
    commands: tuple[str, ...]
    needs: frozenset[str] = frozenset()
    not_with: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[str, ...] = ()


def pod(name: str, script: str = "sleep 1000000", node: str = "", image: str = IMAGE, **spec: Any) -> dict[str, Any]:
    """Return a pod with one container, which runs a script of sh."""
    container = {
        "name": "app",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", f"trap 'exit 0' TERM; ({script}) & wait $!"],
    }
    where = {"nodeName": node} if node else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **where, **spec},
    }


def start(world: World, made: dict[str, Any]) -> str:
    """Apply a pod and wait until it is Ready; return its name."""
    name = str(made["metadata"]["name"])
    world.apply(made)
    world.must(world.cloudcore("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=300s"))
    return name


def _first_minutes(world: World) -> Iterator[Fact]:
    name = start(world, pod("first", "echo hello; sleep 1000000", "n1"))
    settings = yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}})
    world.until(lambda: "hello" in world.cloudcore("logs", name).out, "the cloud has the pod's log")
    world.must(world.cloudcore("exec", name, "--", "sh", "-c", "echo in $((40 + 2))"), "in 42")
    world.until(lambda: name in world.cloudcore("top", "pods").out, "usage of the pod is measured")
    for line in (
        "get pods -o wide", "events", f"describe pod {name}", f"why pod/{name}", "explain pod", "cluster-info",
        "api-resources", "api-versions", f"label pod {name} a=b", f"annotate pod {name} a=b",
        f'patch pod {name} -p {{"metadata":{{"labels":{{"c":"d"}}}}}}', "version",
        "create configmap c --from-literal=a=a",
    ):  # fmt: skip
        world.must(world.cloudcore(*line.split()))
    world.must(world.cloudcore("replace", "-f", "-", given=settings))
    world.must(world.cloudcore("diff", "-f", "-", given=settings))
    world.must(world.cloudcore("prepull", OTHER_IMAGE, "--all"))
    for line in (
        "get pods", "pods", f"logs {name}", f"describe pod {name}", "events", f"why pod/{name}", "top pods",
        "containers", f"inspect {name}", "images list", "version", "api-resources", "api-versions",
        "annotate node n1 e=f",
        'patch node n1 -p {"metadata":{"labels":{"g":"h"}}}', f"wait --for=condition=Ready pod/{name}",
    ):  # fmt: skip
        world.must(world.edgecore(*line.split()))
    label = "jsonpath={.metadata.labels.g}"
    yield Fact("label g of node n1", "what the user has set", "h")
    yield Fact("label g of node n1", "cloudcore get", world.cloudcore("get", "node", "n1", "-o", label).out)
    is_there = world.comes(lambda: world.edgecore("get", "node", "n1", "-o", label).out == "h", _LONG)
    yield Fact("label g of node n1", "edgecore get", "h" if is_there else "none")
    world.must(world.cloudcore("delete", "pod", name))
    world.until(lambda: name not in world.edgecore("get", "pods").out, "the node has forgotten the pod")


def _load(world: World) -> Iterator[Fact]:
    words = f"--nodes 3 --pods 2 --every 5s --cloud {world.address} --http-server {world.certificates}".split()
    load = world.begin("cloudcore", "load", *words)
    world.until(lambda: len(_stand_ins(world)) == 3 or not load.runs, "the stand-ins are nodes")
    world.live(_LEASE_SECONDS)
    question = "stand-ins of a load: all are Ready"
    yield Fact(question, "cloudcore get", _yes(all(each.split()[1] == "Ready" for each in _stand_ins(world))))
    yield Fact(
        question, "cloudcore load, which goes on and says no other", _yes(load.runs and "NotReady" not in load.text())
    )
    load.end()
    world.until(lambda: not _stand_ins(world), "the load has removed its nodes")


def _stand_ins(world: World) -> list[str]:
    lines = world.cloudcore("get", "nodes", "--no-headers").out.splitlines()
    return [each for each in lines if each.split()[0] not in world.names]


def _upgrade(world: World) -> Iterator[Fact]:
    version = "0.8.0" if world.row.version == "release" else "0.8.0.dev3+g0123456789"
    made = make_bundle(world.directory / "made", version)
    name = f"edgecore-{version}-cp{sys.version_info.major}{sys.version_info.minor}-{platform.machine()}.bundle"
    (world.bundles / name).write_bytes(made.read_bytes())
    world.change_node(0, {"upgrade.sources": ["cloudcore"], "upgrade.trustedKeys": [public_key(KEY)]})
    yield Fact(f"the bundle of {version} is there", "the directory of cloudcore run --bundles", "yes")
    done = world.edgecore(
        "upgrade", version, "--only-check", "--installation", str(world.nodes[0].root / "installation")
    )
    is_missing = "no such bundle" in done.err or "no source has" in done.err
    yield Fact(
        f"the bundle of {version} is there",
        f"edgecore upgrade: {done.err.strip()[-200:]}" if is_missing else "edgecore upgrade",
        _yes(not is_missing),
    )
    if done.status and not is_missing and "no room" not in done.err:
        raise WalkError(str(done))
    world.must(world.cloudcore("upgrade", "status"))
    world.edgecore("versions")
    world.edgecore("job")


def _devices(world: World) -> Iterator[Fact]:
    world.change_node(0, {"modules.eventBus.enable": True, "modules.eventBus.mqttMode": 0})
    node = world.nodes[0]
    world.apply(
        {"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "DeviceModel", "metadata": {"name": "thermo"},
         "spec": {"protocol": "mqtt", "properties": [{"name": "target", "type": "FLOAT", "accessMode": "ReadWrite"}]}},
        {"apiVersion": "devices.kubeedge.io/v1beta1", "kind": "Device", "metadata": {"name": "hall"},
         "spec": {"deviceModelRef": {"name": "thermo"}, "nodeName": node.name, "protocol": {"protocolName": "mqtt"},
                  "properties": [{"name": "target", "desired": {"value": "60"}}]}},
    )  # fmt: skip
    world.until(lambda: "hall" in world.edgecore("devices", "list").out, "the node has the device")
    world.must(world.edgecore("devices", "get", "default/hall"))
    world.must(world.cloudcore("get", "devices"), "hall")
    answers = world.comes(lambda: _speaks_mqtt(node.mqtt_port), _LONG)
    yield Fact("the broker of n1 serves", "MQTT at mqttServerInternal", _yes(answers))
    yield Fact("the broker of n1 serves", "the node's file, which enables it", "yes")
    if answers:
        with _Visitor(node.mqtt_port) as client:
            client.publish(
                "$hw/events/device/default/hall/twin/update",
                b'{"event_id":"1","twin":{"target":{"actual":{"value":"60.0"}}}}',
                1,
            ).wait_for_publish(_LONG)
        world.until(
            lambda: "60" in world.edgecore("devices", "get", "default/hall").out, "the node has the reported value"
        )
        world.must(world.cloudcore("devices", "history", "default/hall"))


def _speaks_mqtt(port: int) -> bool:
    with suppress(OSError, WalkError), _Visitor(port):
        return True
    return False


class _Visitor:
    """A client of a broker; raises WalkError if it is not let in."""

    def __init__(self, port: int) -> None:
        self._client = Client(CallbackAPIVersion.VERSION2)
        self._port = port

    def __enter__(self) -> Client:
        self._client.connect("127.0.0.1", self._port)
        self._client.loop_start()
        for _ in range(50):
            if self._client.is_connected():
                return self._client
            time.sleep(0.1)
        self.__exit__()
        raise WalkError("the broker does not answer")

    def __exit__(self, *_error: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _names(world: World) -> Iterator[Fact]:
    name = start(world, pod("asks", node="n1"))
    question = f"a name that the machine's name server knows, asked from a pod with the files of {world.row.files}"
    found = world.cloudcore("exec", name, "--", "busybox", "nslookup", "walks.example")
    servers = world.cloudcore("exec", name, "--", "cat", "/etc/resolv.conf").out
    yield Fact(question, f"nslookup in the pod ({' '.join(servers.split())})", _yes("192.0.2.77" in found.out))
    warned = [
        each
        for each in world.edgecore("doctor", "--json").json or []
        if each["level"] != "ok" and "name server" in each["text"]
    ]
    yield Fact(question, "edgecore doctor", _yes(not warned))
    if world.row.mesh == "mesh":
        world.apply(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "asks"},
             "spec": {"selector": {"app": "asks"}, "ports": [{"port": 80}]}},
        )  # fmt: skip
        world.until(lambda: "asks" in world.edgecore("services").out, "the node has the Service")
        world.must(world.edgecore("resolve", "asks"))
    else:
        yield Fact("n1 serves Services", "the node's file", "no")
        for command in (("services",), ("resolve", "asks")):
            yield Fact("n1 serves Services", f"edgecore {command[0]}", _yes(world.edgecore(*command).status == 0))


def _streams(world: World) -> Iterator[Fact]:
    """Clients of port-forward leave while the pod sends: by cloudcore's command, by the node's, and by kubectl's."""
    port = world.free_port()
    name = start(world, pod("sends", f"busybox nc -ll -p {port} -e yes", "n1"))
    question, before = "bytes of the pod reach a client of port-forward", world.busy()
    ports = [world.free_port() for _ in range(3)]
    words = [("port-forward", f"pod/{name}", f"{local}:{port}") for local in ports]
    forwards = [world.begin("cloudcore", *words[0]), world.begin("edgecore", *words[1])]
    if world.row.objects == "embedded" and shutil.which("kubectl"):
        forwards.append(world.begin_kubectl(*words[2]))
    yield Fact(question, "the pod, which sends", "yes")
    for forward, local in zip(forwards, ports):  # noqa: B905 - kubectl may not be there
        world.until(lambda forward=forward: "Forwarding" in forward.text(), f"{forward.name} listens")
        yield Fact(question, f"the first client of {forward.name}", _yes(_receives(local, 1 << 20)))
    shares: dict[str, float] = {}

    def rests() -> bool:
        shares.update(world.busy())
        return all(share < before[program] + 0.05 for program, share in shares.items())

    time.sleep(3.0)
    world.comes(rests, _LONG)  # on a slow machine it takes a while, and a fault stays
    for program, share in shares.items():
        about = f"{program} has nothing to do after clients of port-forward have left"
        is_idle = share < before[program] + 0.05
        yield Fact(about, "what the user has done", "yes")
        yield Fact(about, "processor time" if is_idle else f"processor time, {share:.0%} of a core", _yes(is_idle))
    for forward, local in zip(forwards, ports):  # noqa: B905
        yield Fact(question, f"the next client of {forward.name}", _yes(_receives(local, 1)))
        forward.end()
    followed = world.begin("cloudcore", "logs", "-f", name)
    world.must(world.cloudcore("exec", name, "--", "true"))
    followed.end()
    for program, run in (("cloudcore", world.cloudcore), ("edgecore", world.edgecore)):
        copied = world.home / f"passwd-{program}"
        world.must(run("cp", f"{name}:/etc/passwd", str(copied)))
        line = copied.read_text().splitlines()[0]
        yield Fact("the first line of a file that was copied from a pod", f"{program} cp", line)
    read = world.must(world.edgecore("exec", name, "--", "head", "-n", "1", "/etc/passwd"))
    yield Fact("the first line of a file that was copied from a pod", "edgecore exec", read.out.strip())


def _receives(port: int, wanted: int) -> bool:
    """Whether a client of a port gets so many bytes; it leaves then."""
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), _LONG)) as client:
        client.settimeout(_LONG)
        while wanted > 0 and (data := client.recv(65536)):
            wanted -= len(data)
    return wanted <= 0


def _workloads(world: World) -> Iterator[Fact]:
    template = pod("web")
    world.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
         "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}},
                  "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]}}},
    )  # fmt: skip
    status = ("rollout", "status", "deployment/web", "--timeout=300s")
    world.must(world.cloudcore(*status))
    world.must(world.cloudcore("set", "image", "deployment/web", f"app={OTHER_IMAGE}"))
    world.must(world.cloudcore(*status))
    world.must(world.cloudcore("scale", "deployment/web", "--replicas=3"))
    world.must(world.cloudcore(*status))
    world.until(lambda: len(_of_web(world)) == 3, "three pods of the workload run")
    counted = world.cloudcore("get", "deployment", "web", "-o", "jsonpath={.status.readyReplicas}").out
    yield Fact("Deployment web: ready pods", "its status", counted)
    yield Fact("Deployment web: ready pods", "cloudcore get pods", str(len(_of_web(world))))
    yield Fact("Deployment web: ready pods", "what the user has set", "3")
    world.must(world.cloudcore("rollout", "undo", "deployment/web"))
    world.must(world.cloudcore(*status))
    world.must(world.cloudcore("cordon", "n1"))
    world.must(world.cloudcore("get", "nodes"), "SchedulingDisabled")
    world.must(world.cloudcore("uncordon", "n1"))
    world.must(world.cloudcore("taint", "nodes", "n1", "a=b:NoSchedule"))
    world.must(world.cloudcore("taint", "nodes", "n1", "a:NoSchedule-"))
    world.must(world.cloudcore("drain", "n1", "--force", "--ignore-daemonsets", "--timeout=60s"))
    world.must(world.cloudcore("uncordon", "n1"))
    world.until(lambda: len(_of_web(world)) == 3, "three pods of the workload run after the drain")


def _of_web(world: World) -> list[str]:
    lines = world.cloudcore("get", "pods", "-l", "app=web", "--no-headers").out.splitlines()
    return [each for each in lines if each.split()[1:3] == ["1/1", "Running"]]


def _without_cloud(world: World) -> Iterator[Fact]:
    name = start(world, pod("stays", node="n1"))
    world.must(world.cloudcore("backup", str(world.home / "cloud.tar.gz")))
    world.must(world.edgecore("backup", str(world.home / "node.tar.gz")))
    assert world.cloud is not None
    world.cloud.end()
    time.sleep(2.0)
    world.must(world.edgecore("get", "pods"), name)
    world.must(world.edgecore("exec", name, "--", "true"))
    world.must(world.edgecore("store", "list"), name)
    world.restart_node()
    world.until(lambda: "1/1" in world.edgecore("get", "pods").out, "the node has its pod without a cloud")
    yield Fact(f"pod {name}: restarts without a cloud", "what the user has done", "0")
    counted = world.edgecore("get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].restartCount}").out
    yield Fact(f"pod {name}: restarts without a cloud", "edgecore get", counted)
    world.restart_cloud()
    world.wait_for_nodes()


def _broken_pods(world: World) -> Iterator[Fact]:
    world.apply(
        pod("no-map", node="n1", volumes=[{"name": "v", "configMap": {"name": "nowhere"}}]),
        pod("ends", "exit 3", "n1"),
        {**pod("done", "true", "n1", restartPolicy="Never")},
    )
    world.until(
        lambda: "CrashLoopBackOff" in world.cloudcore("get", "pod", "ends").out, "the pod that ends is backed off", 90.0
    )
    world.until(
        lambda: world.cloudcore("get", "pod", "done", "-o", "jsonpath={.status.phase}").out == "Succeeded",
        "the pod has ended well",
    )
    world.until(  # a node gathers Events for a second before it sends them
        lambda: "FailedMount" in world.cloudcore("events", "--for", "pod/no-map").out, "the cloud has the Event"
    )
    for program, ask in (("cloudcore", world.cloudcore), ("edgecore", world.edgecore)):
        yield Fact(
            "why the pod no-map does not run", f"{program} why", _names_it(ask("why", "pod/no-map").out, "nowhere")
        )
        yield Fact(
            "why the pod no-map does not run",
            f"{program} events",
            _names_it(ask("events", "--for", "pod/no-map").out, "nowhere"),
        )
        yield Fact(
            "why the pod no-map does not run",
            f"{program} describe",
            _names_it(ask("describe", "pod", "no-map").out, "nowhere"),
        )
        yield Fact("why the pod ends does not run", f"{program} why", _names_it(ask("why", "pod/ends").out, "3"))
        yield Fact(
            "why the pod ends does not run", f"{program} describe", _names_it(ask("describe", "pod", "ends").out, "3")
        )
        world.must(ask("support-bundle", "-o", str(world.home / f"support-{program}.tar.gz")))


def _names_it(text: str, part: str) -> str:
    return f"it names {part}" if part in text else f"it does not name {part}"


def _lock_out(world: World) -> Iterator[Fact]:
    world.must(world.cloudcore("token", "list"))
    world.must(world.cloudcore("revoke", "node", "n1", "--reason", "a walk"))
    world.must(world.cloudcore("revoked"), "n1")
    world.until(lambda: "edgehub_connected 0" in world.edgecore("metrics").out, "the node is locked out")
    told = world.edgecore("doctor", "--json").json or []
    yield Fact("node n1 may connect", "cloudcore revoked", "no")
    yield Fact(
        "node n1 may connect",
        "edgecore doctor, link",
        _yes(all(each["level"] == "ok" for each in told if each["check"] == "link")),
    )
    world.must(world.cloudcore("allow", "node", "n1"))
    world.wait_for_nodes()
    world.until(lambda: "edgehub_connected 1" in world.edgecore("metrics").out, "the node is let in again")
    world.must(world.cloudcore("changes"))


def _kubernetes_api(world: World) -> Iterator[Fact]:
    port = world.free_port()
    world.change_node(
        0, {"modules.metaManager.metaServer.enable": True, "modules.metaManager.metaServer.server": f"127.0.0.1:{port}"}
    )
    name = start(world, pod("seen", node="n1"))
    asked = world.kubectl("--server", f"http://127.0.0.1:{port}", "get", "pods", "-A", "-o", "name")
    yield Fact("pod seen at the node's API", "kubectl", _yes(f"pod/{name}" in asked.out))
    yield Fact("pod seen at the node's API", "cloudcore get", "yes")
    if world.row.objects == "embedded":
        nodes = world.kubectl(*world.cloud_api(), "get", "nodes", "-o", "name").out.split()
        yield Fact("nodes at the cloud's API", "kubectl", " ".join(sorted(nodes)))
        yield Fact(
            "nodes at the cloud's API",
            "cloudcore get",
            " ".join(sorted(world.cloudcore("get", "nodes", "-o", "name").out.split())),
        )


def _on_the_node(world: World) -> Iterator[Fact]:
    name = start(world, pod("traced", node="n1"))
    trace = str(world.home / "node.trace")
    world.must(world.edgecore("config", "check"))
    done = world.must(world.edgecore("trace", "dump"))
    files = [each for each in done.out.split() if each.startswith("/")]
    told = world.edgecore("trace", "explain", *(files[:1] or [trace]), "pod", f"default/{name}")
    yield Fact(f"pod {name}: runs", "edgecore trace explain", _yes(told.status == 0 and "run" in told.out))
    yield Fact(f"pod {name}: runs", "cloudcore wait", "yes")
    world.must(world.edgecore("store", "list"), name)
    world.must(world.edgecore("label", "node", "n1", "walk=yes"))
    world.until(lambda: "walk=yes" in world.cloudcore("get", "nodes", "--show-labels").out, "the label is in the cloud")
    world.must(world.edgecore("unit"))
    world.must(world.cloudcore("unit"))
    world.must(world.edgecore("delete", "pod", name, "--timeout=60s"))
    world.until(lambda: name not in world.cloudcore("get", "pods").out, "the pod is gone in the cloud, too")


def _commands(cloud: str, node: str) -> tuple[str, ...]:
    """Return commands of cloudcore and of edgecore, by their first words."""
    return (*(f"cloudcore {each}" for each in cloud.split()), *(f"edgecore {each}" for each in node.split()))


def _yes(value: object) -> str:
    return "yes" if value else "no"


WALKS: Final[Mapping[str, Walk]] = {
    "first-minutes": Walk(
        _first_minutes,
        ("first-five-minutes", "run-a-pod", "on-the-node", "kubectl", "node", "runtimes"),
        _commands(
            "wait logs exec top events explain cluster-info api-resources api-versions label annotate patch version "
            "create replace diff prepull delete",
            "pods logs describe events top containers inspect images api-resources api-versions annotate patch wait",
        ),
    ),
    "load": Walk(_load, ("cloudcore", "performance"), _commands("load", "")),
    "upgrade": Walk(
        _upgrade, ("upgrades", "install"), _commands("upgrade", "upgrade versions job"), frozenset({"bundles"}),
        not_with=_TLS_ONLY,
    ),
    "devices": Walk(
        _devices, ("devices", "devices-in-the-cloud"), _commands("devices", "devices"), programs=("mosquitto",)
    ),
    "names": Walk(
        _names, ("edgemesh", "oci-runtime"), _commands("exec", "services resolve"),
        not_with={"processes": "plain processes have the machine's own resolv.conf"},
    ),
    "streams": Walk(
        _streams, ("streams",), _commands("port-forward cp logs exec", "exec cp port-forward"), frozenset({"api"})
    ),
    "workloads": Walk(_workloads, ("workloads",), _commands("rollout set scale cordon uncordon taint drain", "")),
    "without-cloud": Walk(_without_cloud, ("without-a-cloud",), _commands("backup", "backup exec store")),
    "broken-pods": Walk(
        _broken_pods, ("why-a-pod-does-not-run", "doctor", "prometheus"), _commands("support-bundle events",
        "support-bundle events"),
    ),
    "lock-out": Walk(
        _lock_out, ("authorization", "join-a-node", "security"), _commands("token revoke revoked allow changes", ""),
        not_with=_TLS_ONLY,
    ),
    "kubernetes-api": Walk(
        _kubernetes_api, ("metaserver", "cloud-api"), (), frozenset({"api"}), programs=("kubectl",)
    ),
    "node-tools": Walk(
        _on_the_node, ("tracing", "configuration"), _commands("unit", "config trace store label unit delete")
    ),
}  # fmt: skip
"""By the name of their level."""
