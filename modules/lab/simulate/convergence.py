"""Compares a node, its store and the cloud at the end of a run."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from edged.pods import labels
from modules.apimachinery.types import parse_time
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.differences import differences
from modules.lab.simulate.documents import JsonObject
from modules.lab.simulate.eviction_watch import EVICTED
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.status_watch import runs_as
from modules.lab.simulate.wire_watch import rows_in
from protos.cri.v1 import api_pb2 as pb

_ENDED = ("Succeeded", "Failed")
_EXPECTED_PHASE = {"OnFailure": "Succeeded", "Never": "Failed"}
_LEASE_SECONDS = 45.0
Find = Callable[[str, str, str], JsonObject | None]
_RUN_FOR_EVER = ("serve", "stubborn")


def disagreements(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Yield each disagreement as a line; nothing if node, store, runtime and cloud agree."""
    if not cloud.settled():
        yield "the cloud has not taken all that is wanted"
    if node.process is None or not cloud.is_running:
        yield "a process is not running"
        return
    if cloud.unacknowledged(node.name):
        yield f"{cloud.unacknowledged(node.name)} messages of the cloud are not acknowledged"
    if node.uploads.missing():
        yield f"uploads {node.uploads.missing()} were stored and have not reached the cloud"
    if node.publications.missing():
        yield f"{', '.join(node.publications.missing())} were acknowledged and have not reached the cloud"
    yield from _of_node(node, cloud)
    pods = cloud.pods_of(node.name)
    files = set(node.manifests.wanted.values())
    running = {runs_as(pod) for pod in pods.values() if runs_as(pod) == pod["metadata"]["uid"]} | files
    abandoned = _abandoned(node, cloud, pods)
    yield from _of_cloud(node, pods)
    yield from _of_runtime(node, running | abandoned)
    yield from _of_store(node, pods, abandoned)
    yield from of_references(rows_in(node.state), pods, cloud.find, knows_all=cloud.objects_lost_at < 0)
    yield from _of_files(node, cloud, pods, running | abandoned)
    yield from differences(node, cloud, pods)


def _abandoned(node: SimulatedNode, cloud: SimulatedCloud, pods: dict[str, JsonObject]) -> set[str]:
    """Return the uids of pods that the cloud has lost with its database and that were not applied again. They may stay:
    a node does not end pods because its cloud has forgotten them. A pod that was applied again replaces the old one of
    its name.
    """
    rows = {key: uid for key, (uid, _) in rows_in(node.state).items() if "/pod/" in key}
    wanted = {f"default/pod/{pod['metadata']['name']}" for pod in pods.values()}
    return {uid for key, uid in rows.items() if key not in wanted and uid in cloud.forgotten}


def _of_node(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Check that the node is registered, is ready, and renews its lease."""
    known = cloud.find("Node", "", node.name)
    if known is None:
        yield "the node is not registered"
        return
    conditions = {one["type"]: one["status"] for one in (known.get("status") or {}).get("conditions") or []}
    if conditions.get("Ready") != "True":
        yield f"the node is reported as Ready={conditions.get('Ready')}"
    lease = cloud.find("Lease", "kube-node-lease", node.name)
    renewed = parse_time(lease["spec"]["renewTime"]) / 1e9 if lease is not None else 0.0
    if node.process is not None and node.process.clock.now() - renewed > _LEASE_SECONDS:
        yield "the node's lease has run out"


def _of_cloud(node: SimulatedNode, pods: dict[str, JsonObject]) -> Iterator[str]:
    for pod in pods.values():
        name = pod["metadata"]["name"]
        if pod["metadata"].get("deletionTimestamp"):
            yield f"{name} is being deleted still"
            continue
        status = pod.get("status") or {}
        policy = pod["spec"]["restartPolicy"]
        phase = status.get("phase")
        if phase == "Failed" and status.get("reason") == EVICTED:
            continue
        if phase != _EXPECTED_PHASE.get(policy, "Running"):
            yield f"{name} is reported as {phase}"
        yield from _of_statuses(node, pod, status)


def _of_statuses(node: SimulatedNode, pod: JsonObject, status: dict[str, Any]) -> Iterator[str]:
    """Compare each reported container status with the newest container in the runtime."""
    name = pod["metadata"]["name"]
    reported = {one["name"]: one for one in status.get("containerStatuses") or []}
    newest = _newest(node, runs_as(pod))
    for container in pod["spec"]["containers"]:
        live, claimed = newest.get(container["name"]), reported.get(container["name"])
        if claimed is None:
            yield f"{name}/{container['name']} has no reported status"
            continue
        if live is None:
            if status.get("phase") not in _ENDED:
                yield f"{name}/{container['name']} is not in the runtime"
            continue
        yield from _of_one(f"{name}/{container['name']}", container, live, claimed)


def _of_one(what: str, container: JsonObject, live: pb.ContainerStatus, claimed: dict[str, Any]) -> Iterator[str]:
    runs = live.state == pb.CONTAINER_RUNNING
    if container["command"][0] in _RUN_FOR_EVER and not runs:
        yield f"{what} does not run"
    if runs != bool((claimed.get("state") or {}).get("running")):
        yield f"{what} runs: {runs}, but the cloud is told {claimed.get('state')}"
    if claimed.get("restartCount") != live.metadata.attempt:
        yield f"{what} was restarted {live.metadata.attempt} times, but the cloud is told {claimed.get('restartCount')}"
    if runs and not str(claimed.get("containerID", "")).endswith(live.id):
        yield f"{what} is {live.id}, but the cloud is told {claimed.get('containerID')}"
    if runs != bool(claimed.get("ready")):
        yield f"{what} runs: {runs}, but the cloud is told ready={claimed.get('ready')}"
    if runs and live.image.user_specified_image not in ("", container["image"]):
        yield f"{what} runs {live.image.user_specified_image}, wanted is {container['image']}"


def _newest(node: SimulatedNode, uid: str) -> dict[str, pb.ContainerStatus]:
    newest: dict[str, pb.ContainerStatus] = {}
    for container in node.machine.containers.values():
        if container.labels[labels.POD_UID] == uid:
            name = container.metadata.name
            if name not in newest or newest[name].metadata.attempt <= container.metadata.attempt:
                newest[name] = container
    return newest


def _of_runtime(node: SimulatedNode, pods: set[str]) -> Iterator[str]:
    ours = [one for one in node.machine.sandboxes.values() if one.id not in node.machine.watch.foreign]
    for sandbox in ours:
        if sandbox.metadata.uid not in pods:
            yield f"{sandbox.id} of {sandbox.metadata.name} ({sandbox.metadata.uid[:8]}) is left over"
    for foreign in sorted(node.machine.watch.foreign):
        if foreign not in node.machine.sandboxes and foreign not in node.machine.containers:
            yield f"{foreign}, which is not this node's, is gone"


def _of_store(node: SimulatedNode, pods: dict[str, JsonObject], abandoned: set[str]) -> Iterator[str]:
    rows = rows_in(node.state)
    stored = {key: row for key, row in rows.items() if "/pod/" in key}
    wanted = {f"default/pod/{pod['metadata']['name']}": uid for uid, pod in pods.items()}
    for key, (uid, _) in stored.items():
        if wanted.get(key) != uid and uid not in abandoned:
            yield f"row {key} ({uid[:8]}) is left over"
    for key in wanted:
        if key not in stored:
            yield f"row {key} is missing"
    patches = {key for key in rows if "/podpatch/" in key}
    names = {key.replace("/pod/", "/podpatch/") for key in stored}
    for key in sorted(patches - names):
        yield f"row {key} is left over"


def of_references(
    rows: dict[str, tuple[str, int]], pods: dict[str, JsonObject], find: Find, *, knows_all: bool = True
) -> Iterator[str]:
    """Check that a store has the configmaps and secrets of the cloud's pods in the versions that the cloud has.

    Args:
        rows: uid and version of each row.
        pods: the node's pods in the cloud.
        find: finds an object of the cloud by kind, namespace and name.
        knows_all: whether the cloud has never lost its objects: then it has deleted what it does not have.
    """
    running = [pod for pod in pods.values() if (pod.get("status") or {}).get("phase") not in _ENDED]
    volumes = [volume for pod in running for volume in pod["spec"].get("volumes") or []]
    for kind, name in sorted({source for volume in volumes if (source := _source(volume)) is not None}):
        key, live = f"default/{kind.lower()}/{name}", find(kind, "default", name)
        if live is None:
            if knows_all and key in rows:
                yield f"row {key} is left over"
            continue
        wanted = (live["metadata"]["uid"], int(live["metadata"]["resourceVersion"]))
        if rows.get(key) != wanted:
            yield f"row {key} is {rows.get(key)}, in the cloud it is {wanted}"


def _source(volume: dict[str, Any]) -> tuple[str, str] | None:
    """Return kind and name of the object in a volume; None for another volume."""
    if "configMap" in volume:
        return "ConfigMap", volume["configMap"]["name"]
    return ("Secret", volume["secret"]["secretName"]) if "secret" in volume else None


def _of_files(
    node: SimulatedNode, cloud: SimulatedCloud, pods: dict[str, JsonObject], expected: set[str]
) -> Iterator[str]:
    logs = node.root / "logs"
    for path in sorted(logs.iterdir()) if logs.is_dir() else ():
        uid = path.name.rpartition("_")[2]
        if uid not in expected:
            yield f"logs {path.name} are left over"
    root = node.pods_root / "pods"
    present = {path.name for path in root.iterdir()} if root.is_dir() else set()
    for uid in sorted(present - expected):
        yield f"directory of pod {uid[:8]} is left over"
    for uid, pod in pods.items():
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        for volume in pod["spec"].get("volumes") or []:
            yield from _of_volume(root / uid / "volumes", volume, cloud)


def _of_volume(volumes: Path, volume: dict[str, Any], cloud: SimulatedCloud) -> Iterator[str]:
    source = _source(volume)
    document = cloud.wanted.get(source) if source is not None else None
    if source is None or document is None:
        return
    kind, name = source
    text = (document.get("data") or document.get("stringData"))["key"]  # type: ignore[index]
    path = volumes / f"kubernetes.io~{kind.lower()}" / volume["name"] / "key"
    if not path.exists() or path.read_text() != text:
        yield f"{kind} {name} in a volume is not {text!r}"
