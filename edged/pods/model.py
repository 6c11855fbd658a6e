"""The facts that the container runtime reports about a pod, free of the CRI's wire types.

Decisions take these structs, so tests can write facts by hand, and the origin of the facts (relisting, runtime events,
or a call just made) does not matter.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NewType

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from edged.cri.contract import ContainerId, SandboxId
from modules.apimachinery.types import Nanoseconds

__all__ = [
    "ContainerFacts",
    "ContainerId",
    "HookFacts",
    "PodFacts",
    "PodRef",
    "PodState",
    "PodUid",
    "ProbeFacts",
    "RunState",
    "SandboxFacts",
    "SandboxId",
    "WorkFigures",
    "with_replaced",
]

PodUid = NewType("PodUid", str)
"""The identity of a pod: another pod of the same name has another uid."""


class PodState(Enum):
    """The work that a pod worker does for a pod."""

    SYNC = "sync"
    """Make the pod run as its spec wants (kubelet's SyncPod)."""
    TERMINATING = "terminating"
    """Stop the containers within their grace period. Files and dead containers stay, for status and logs (kubelet's
    TerminatingPod)."""
    TERMINATED = "terminated"
    """Remove everything of the pod from the node, after stopping what still runs (kubelet's TerminatedPod, which begins
    only when nothing runs)."""


class RunState(Enum):
    """The state of a container as the CRI has it."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class PodRef(Struct, frozen=True, gc=False):
    """The pod that a sandbox or a container belongs to."""

    uid: PodUid
    namespace: str
    name: str

    def __str__(self) -> str:
        """`namespace/name`, as logs and errors have it."""
        return f"{self.namespace}/{self.name}"

    @property
    def with_uid(self) -> str:
        """`name_namespace(uid)`, as a kubelet writes pods in statuses and events."""
        return f"{self.name}_{self.namespace}({self.uid})"

    def log_fields(self) -> dict[str, str]:
        """Return the fields of a line of the log in JSON."""
        return {"pod": str(self), "uid": self.uid}


class SandboxFacts(Struct, frozen=True, gc=False):
    """One sandbox of a pod. `ips` is None when the runtime reports no network status."""

    id: SandboxId
    attempt: int
    ready: bool
    created_at: Nanoseconds
    host_network: bool = False
    ips: tuple[str, ...] | None = None


class ContainerFacts(Struct, frozen=True, gc=False):
    """One container, running or not. Times are 0 when unknown; `attempt` counts restarts from 0.

    `message_path` and `log_path` are files of the node that may hold its termination message; "" means there is no such
    file.
    """

    id: ContainerId
    sandbox_id: SandboxId
    name: str
    attempt: int
    state: RunState
    created_at: Nanoseconds
    started_at: Nanoseconds = Nanoseconds(0)
    finished_at: Nanoseconds = Nanoseconds(0)
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    hash: str = ""
    image: str = ""
    image_ref: str = ""
    message_path: str = ""
    message_policy: str = ""
    log_path: str = ""
    replaced: bool = field(default=False, name="exchanged")
    """Whether this agent has ended it to start another one in its place, because its definition changed. Its exit then
    does not count for the pod. Recorded traces call the field `exchanged`.
    """

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self.state is RunState.RUNNING

    @property
    def succeeded(self) -> bool:
        """Whether it ended with exit code 0."""
        return self.state is RunState.EXITED and self.exit_code == 0


class PodFacts(Struct, frozen=True, gc=False):
    """All sandboxes and containers of one pod, each newest first (build it with `pod_facts`)."""

    ref: PodRef
    sandboxes: tuple[SandboxFacts, ...] = ()
    containers: tuple[ContainerFacts, ...] = ()

    @property
    def sandbox(self) -> SandboxFacts | None:
        """The newest sandbox, the only one where containers may run."""
        return self.sandboxes[0] if self.sandboxes else None

    def newest(self, name: str) -> ContainerFacts | None:
        """Return the newest container of that name in any sandbox."""
        for container in self.containers:
            if container.name == name:
                return container
        return None

    def newest_here(self, name: str) -> ContainerFacts | None:
        """Return the newest container of that name in the newest sandbox."""
        here = self.sandbox.id if self.sandbox else None
        return next((c for c in self.containers if c.name == name and c.sandbox_id == here), None)

    @property
    def anything_running(self) -> bool:
        """Whether a container runs or a sandbox is ready."""
        return any(c.running for c in self.containers) or any(s.ready for s in self.sandboxes)


def with_replaced(facts: PodFacts, ids: frozenset[ContainerId]) -> PodFacts:
    """Return the facts, with the containers of these ids marked as replaced."""
    if not ids:
        return facts
    containers = tuple(replace(c, replaced=True) if c.id in ids else c for c in facts.containers)
    return replace(facts, containers=containers)


class ProbeFacts(Struct, frozen=True, gc=False):
    """The latest result of each kind of probe for a container; absent until its threshold is first reached."""

    liveness: Mapping[ContainerId, bool] = field(default_factory=dict)
    readiness: Mapping[ContainerId, bool] = field(default_factory=dict)
    startup: Mapping[ContainerId, bool] = field(default_factory=dict)


class HookFacts(Struct, frozen=True, gc=False):
    """The postStart hooks of a pod's present containers."""

    running: frozenset[ContainerId] = frozenset()
    """Containers whose hook still runs."""
    failed: Mapping[ContainerId, str] = field(default_factory=dict)
    """Containers to kill because their hook failed, with the error."""

    def holds(self, container: ContainerId) -> bool:
        """Return whether this container counts as not started because of its hook, although it runs."""
        return container in self.running or container in self.failed


class WorkFigures(msgspec.Struct, frozen=True):
    """The queues of the pod workers at one moment. Never changed."""

    waiting: int
    """Pods that wait for a worker."""
    working: int
    """Pods that a worker has."""
    due: Mapping[PodUid, float]
    """Pods that are synced at a later time, with this time in monotonic seconds."""
    failed: frozenset[PodUid]
    """Pods whose last sync failed and that are synced again after a growing delay."""
