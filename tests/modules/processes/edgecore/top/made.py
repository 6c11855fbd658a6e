"""Looks at nodes that do not exist, and a node for the screen that answers without a socket."""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from edged.stats.model import CpuStats, MemoryStats, NodeStats, PodReference, PodStats, Summary
from modules.apimachinery.printing.fields import JsonObject
from modules.apimachinery.types.nodes import NodeCondition
from modules.apimachinery.types.times import Nanoseconds, Time, format_time
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.edgecore.top.look import NodeSnapshot, RootDisk, Unreachable
from modules.processes.edgecore.top.state import AgentState, HeldMessages, LinkReport, ModuleReport, WorkReport

NOW = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""
MODULES = ("metamanager", "edged", "websocket")
GIB = 1 << 30


def moment(ago: float) -> Time:
    """The time so many seconds before NOW."""
    return format_time(Nanoseconds(round((NOW - ago) * 1e9)))


def condition(kind: str, status: str, reason: str = "", message: str = "") -> NodeCondition:
    """A condition of the node."""
    return NodeCondition(type=kind, status=status, reason=reason, message=message)


READY = (
    condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    *(condition(kind, "False") for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")),
)


def state(**changes: Any) -> AgentState:
    """A node that is well, with changes."""
    given: dict[str, Any] = {
        "now": NOW,
        "node": "edge-1",
        "version": "0.1.0",
        "started_at": NOW - 11_520,
        "runtime": "embedded://0.1.0",
        "capacity": {"cpu": "4", "memory": "8148212Ki", "pods": "110"},
        "conditions": READY,
        "modules": {name: ModuleReport("ready") for name in MODULES},
        "link": LinkReport(enabled=True, server="cloud.example:10000", connected_at=NOW - 11_515),
        "held": {"state": HeldMessages(0, 0), "event": HeldMessages(0, 0)},
        "work": WorkReport(0, 0, {}),
    }
    return AgentState(**given | changes)


def pod(name: str, *statuses: JsonObject, namespace: str = "default", ago: float = 3600, **more: Any) -> JsonObject:
    """A pod; its containers are the statuses'."""
    found: JsonObject = {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "creationTimestamp": moment(ago),
        },
        "spec": {"containers": [{"name": status["name"], "image": "busybox"} for status in statuses]},
        "status": {"phase": "Running", "containerStatuses": list(statuses)},
    }  # fmt: skip
    for path, value in more.items():
        part, _, key = path.partition("_")
        found[part] = found[part] | {key: value}
    return found


def running(name: str = "app", *, restarts: int = 0, ago: float = 60, ready: bool = True) -> JsonObject:
    """The status of a container that runs."""
    last = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": moment(ago)}} if restarts else {}
    state_ = {"running": {"startedAt": moment(ago)}}
    return {
        "name": name, "ready": ready, "started": True, "restartCount": restarts, "state": state_, "lastState": last,
    }  # fmt: skip


def waiting(reason: str, message: str = "", *, name: str = "app", restarts: int = 0, ago: float = 9) -> JsonObject:
    """The status of a container that waits."""
    return running(name, restarts=restarts, ago=ago, ready=False) | {
        "state": {"waiting": {"reason": reason, "message": message}}, "started": False
    }  # fmt: skip


def ended(code: int = 0, *, name: str = "app") -> JsonObject:
    """The status of a container that has ended."""
    told = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": moment(30)}
    return running(name, ready=False) | {"state": {"terminated": told}, "started": False}


def usage(**pods: tuple[int, int]) -> Summary:
    """Use of the node, and of pods of the namespace default: thousandths of a core, and Mi of memory."""
    cpu = CpuStats(time=moment(0), usage_nano_cores=480_000_000)
    memory = MemoryStats(time=moment(0), working_set_bytes=3 * GIB)
    return Summary(
        node=NodeStats(node_name="edge-1", cpu=cpu, memory=memory),
        pods=tuple(
            PodStats(
                pod_ref=PodReference(name=name, namespace="default", uid=f"uid-default-{name}"),
                cpu=replace(cpu, usage_nano_cores=milli * 1_000_000),
                memory=replace(memory, working_set_bytes=mebibytes << 20),
            )
            for name, (milli, mebibytes) in pods.items()
        ),
    )


def look(*pods: JsonObject, stats: Mapping[str, tuple[int, int]] | None = None, **changes: Any) -> NodeSnapshot:
    """A look at a node with pods; `stats` has thousandths of a core and Mi of memory by their names."""
    return NodeSnapshot(state(**changes), pods, usage(**stats or {}), RootDisk(40 * GIB, 100 * GIB))


class MadeLog:
    """A log that has ended, or that is followed until it is closed."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces
        self.closed = False

    def pieces(self) -> Iterator[bytes]:
        """Yields the log."""
        yield from self._pieces

    def close(self) -> None:
        """Notes it."""
        self.closed = True


class MadeView:
    """A node for the screen (`NodeView`)."""

    def __init__(self) -> None:
        self.logs: dict[tuple[str, str, str], MadeLog] = {}
        self.explained: list[tuple[str, str]] = []
        self.told: list[JsonObject] = []
        self.refuses: NodeError | None = None

    def snapshot(self) -> NodeSnapshot | Unreachable:
        """A node without pods."""
        return look()

    def log(self, namespace: str, pod_name: str, container: str) -> MadeLog:
        """The log that was put there."""
        found = self.logs.get((namespace, pod_name, container))
        if found is None:
            raise NodeError(f"container {container} has no log", status=404)
        return found

    def explain(self, namespace: str, pod_name: str) -> str:
        """A story of one line."""
        if self.refuses is not None:
            raise self.refuses
        self.explained.append((namespace, pod_name))
        return f"pod {namespace}/{pod_name}: waits here\n"

    def events(self, namespace: str, pod_name: str) -> list[JsonObject]:
        """The events that were put there."""
        if self.refuses is not None:
            raise self.refuses
        return self.told
