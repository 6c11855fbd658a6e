"""cloudcore at a cluster: memory with 10,000 pods on 200 nodes, start, writes to the edge, statuses from it, idleness.

Three processes: the cluster (a cloudcore's embedded API server over HTTPS, in Python, so slower than a kube-apiserver),
cloudcore, and this one, which is people and node n1. KubeEdge's values were measured with its own
kube-apiserver (docs/performance.md).
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

from beehive.message import Message
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import processor_seconds
from tests.end_to_end.test_cluster import CloudOfCluster
from tests.modules.cloud.objects import node, pod
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, edge_at

PODS: Final = 10_000
NODES: Final = 200
_WRITES: Final = 100
_BATCH: Final = 500
_MISSING: Final = 50
_ROUNDS: Final = 40
"""Statuses of each pod."""
_SETTLED_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 30.0


def measure() -> list[Row]:
    """Return the rows; it takes some minutes."""
    with TemporaryDirectory(prefix="bench-") as directory:
        cloud = CloudOfCluster(Path(directory))
        cloud.cluster_options = ["--node-limit", "1000"]  # a namespace has room for the pods of that many
        cloud.start()
        try:
            return list(_rows(cloud))
        finally:
            cloud.kill()


def _rows(cloud: CloudOfCluster) -> Iterator[Row]:
    with _edge(cloud) as edge:
        edge.ask("null/node/n1", "insert", node())
    yield Row("memory (PSS), no pods", _pss(cloud.core_pid), Unit.MEGABYTES, None, "72 MB RSS", (Goal(60.0),))
    with _edge(cloud) as edge:
        frames, answers = _writes(cloud, edge)
    unit, floor, floor_95 = Unit.MILLISECONDS, median(answers), _percentile_95(answers)
    yield Row("a pod written → its frame at the edge", median(frames), unit, floor, "8.6 ms", (Goal(8.0),))
    slowest = _percentile_95(frames)
    yield Row("… the 95th percentile", slowest, unit, floor_95, "21 ms", (Goal(20.0),))
    cloud.apply(*(_edge_node(number) for number in range(NODES)))
    for first in range(0, PODS, _BATCH):
        cloud.apply(*(_pod(number) for number in range(first, first + _BATCH)))
    cloud.kill_core()
    begin = time.monotonic()
    cloud.start_core()
    with _edge(cloud) as edge:
        edge.ask("null/node/n1", "insert", node())
        seconds = time.monotonic() - begin
        memory = _pss(cloud.core_pid)
        status = _statuses(cloud, edge, _pods_of(edge))
        idle = _idle(cloud)
    missing = _missing(cloud)
    yield Row(f"start with {PODS:,} pods → first answer", seconds, Unit.SECONDS, None, "8 s", (Goal(2.0),))
    yield Row(f"memory (PSS), {PODS:,} pods", memory, Unit.MEGABYTES, None, "286–313 MB RSS", (Goal(120.0),))
    what = f"a node reconnects: the last of {_MISSING} pods that it lacks"
    yield Row(what, missing, Unit.SECONDS, None, "4.6 s", (Goal(0.3),))
    yield Row("processor time for a pod status", status, Unit.MILLISECONDS, None, "", (Goal(0.25),))
    yield Row("idle, share of one core, one node connected", idle, Unit.PERCENT, None, "3.5 %", (Goal(0.5),))


def _writes(cloud: CloudOfCluster, edge: Edge) -> tuple[list[float], list[float]]:
    """Return the milliseconds until each pod's frame arrives, and until its write is answered."""
    frames, answers = [], []
    for number in range(_WRITES):
        begin = time.monotonic()
        cloud.apply(pod(f"written-{number}", nodeName="n1"))
        answers.append((time.monotonic() - begin) * 1000)
        while True:
            message = edge.next()
            edge.acknowledge(message)
            if message.route.resource == f"default/pod/written-{number}":
                break
        frames.append((time.monotonic() - begin) * 1000)
    return frames, answers


def _percentile_95(values: list[float]) -> float:
    return quantiles(values, n=20)[-1]


def _pods_of(edge: Edge) -> dict[str, str]:
    """Return the uids of the node's pods by name; all are acknowledged."""
    uids: dict[str, str] = {}
    while len(uids) < PODS // NODES:
        message = edge.next()
        edge.acknowledge(message)
        if "/pod/p" in message.route.resource:
            metadata = message.content_as(dict)["metadata"]
            uids[metadata["name"]] = metadata["uid"]
    return uids


def _missing(cloud: CloudOfCluster) -> float:
    """Return the seconds from a node's connection to the frame of the last pod that was bound to it meanwhile."""
    wanted = {f"missing-{number}" for number in range(_MISSING)}
    cloud.apply(*(pod(name, nodeName="n1") for name in sorted(wanted)))
    time.sleep(_SETTLED_SECONDS)
    begin = time.monotonic()
    with _edge(cloud) as edge:
        while wanted:
            message = edge.next()
            edge.acknowledge(message)
            wanted.discard(message.route.resource.rpartition("/")[2])
        return time.monotonic() - begin


def _statuses(cloud: CloudOfCluster, edge: Edge, pods: dict[str, str]) -> float:
    """Return cloudcore's processor time for a status in milliseconds, when a node reports those of all its pods."""
    _report(edge, pods, 0)
    before = processor_seconds(cloud.core_pid)
    for number in range(1, _ROUNDS + 1):
        _report(edge, pods, number)
    return (processor_seconds(cloud.core_pid) - before) / (_ROUNDS * len(pods)) * 1000


def _report(edge: Edge, pods: dict[str, str], number: int) -> None:
    waiting = set()
    for name, uid in pods.items():
        status = {"phase": "Running", "message": str(number), "podIP": "10.0.0.1", "hostIP": "10.0.0.2"}
        patch = json.dumps({"metadata": {"uid": uid}, "status": status})
        message = Message.new(
            CLOCK, source="edged", group="meta", resource=f"default/podpatch/{name}", operation="patch", content=patch
        )
        edge.send(message)
        waiting.add(message.id)
    while waiting:
        message = edge.receive()
        if message.parent_id:
            waiting.discard(message.parent_id)
        else:
            edge.acknowledge(message)


def _idle(cloud: CloudOfCluster) -> float:
    """Return cloudcore's share of a core, in percent, while nothing happens."""
    time.sleep(_SETTLED_SECONDS)
    before = processor_seconds(cloud.core_pid)
    time.sleep(_IDLE_SECONDS)
    return (processor_seconds(cloud.core_pid) - before) / _IDLE_SECONDS * 100


def _edge_node(number: int) -> dict[str, Any]:
    """A node of KubeEdge's, whose pods cloudcore keeps whole."""
    return {"apiVersion": "v1", "kind": "Node", **node(f"n{number}", **{"node-role.kubernetes.io/edge": ""})}


def _pod(number: int) -> dict[str, Any]:
    """A pod of some 2 kB."""
    environment = [{"name": f"V{each}", "value": "x" * 40} for each in range(20)]
    containers = [{"name": "main", "image": "busybox:1.35", "env": environment}]
    return pod(f"p{number}", nodeName=f"n{number % NODES}", containers=containers)


@contextmanager
def _edge(cloud: CloudOfCluster) -> Iterator[Edge]:
    host, _, port = cloud.address.rpartition(":")
    with edge_at(host, int(port)) as edge:
        yield edge


def _pss(process: int) -> float:
    """Return the memory of a process in MB."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("Pss:"))
