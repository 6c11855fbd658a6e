"""What the container runtime says about a pod, free of the CRI's wire types.

Decisions are made on these structs, so that they can be tested with facts written by hand and do not depend
on how the facts were gathered (relisting, runtime events, or a call just made).
"""

from collections.abc import Mapping
from enum import Enum
from typing import NewType

from msgspec import Struct, field
from msgspec.structs import replace

from edged.api import Nanoseconds
from edged.cri.contract import ContainerId, SandboxId

__all__ = [
    "ContainerFacts",
    "ContainerId",
    "HookFacts",
    "PodFacts",
    "PodRef",
    "PodUid",
    "ProbeFacts",
    "RunState",
    "SandboxFacts",
    "SandboxId",
]

PodUid = NewType("PodUid", str)
"""The identity of a pod: another pod of the same name has another uid."""


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
        """`name_namespace(uid)`, as Kubernetes writes pods in messages."""
        return f"{self.name}_{self.namespace}({self.uid})"


class SandboxFacts(Struct, frozen=True, gc=False):
    """One sandbox of a pod. `ips` is None when the runtime says nothing about the network."""

    id: SandboxId
    attempt: int
    ready: bool
    created_at: Nanoseconds
    host_network: bool = False
    ips: tuple[str, ...] | None = None


class ContainerFacts(Struct, frozen=True, gc=False):
    """One container, dead or alive. Times are 0 when they have not come; `attempt` counts restarts from 0.

    `message_path` and `log_path` are files of the node where its last words stand; "" when there are none.
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
    exchanged: bool = False
    """Whether this agent has ended it to start another in its place, because the pod wants it otherwise now. How it
    ended says nothing of the pod then.
    """

    @property
    def running(self) -> bool:
        """Whether its process lives."""
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
        """The newest sandbox: the only one in which containers may run."""
        return self.sandboxes[0] if self.sandboxes else None

    def newest(self, name: str) -> ContainerFacts | None:
        """The newest container of that name in any sandbox."""
        return next((container for container in self.containers if container.name == name), None)

    def newest_here(self, name: str) -> ContainerFacts | None:
        """The newest container of that name in the newest sandbox."""
        here = self.sandbox.id if self.sandbox else None
        return next((c for c in self.containers if c.name == name and c.sandbox_id == here), None)

    @property
    def anything_running(self) -> bool:
        """Whether a container lives or a sandbox is up."""
        return any(c.running for c in self.containers) or any(s.ready for s in self.sandboxes)


def with_exchanged(facts: PodFacts, ids: frozenset[ContainerId]) -> PodFacts:
    """The facts, with the containers marked that were ended to be exchanged."""
    if not ids:
        return facts
    containers = tuple(replace(c, exchanged=True) if c.id in ids else c for c in facts.containers)
    return replace(facts, containers=containers)


class ProbeFacts(Struct, frozen=True, gc=False):
    """The latest verdict of each kind of probe for a container; a missing one has not been reached yet."""

    liveness: Mapping[ContainerId, bool] = field(default_factory=dict)
    readiness: Mapping[ContainerId, bool] = field(default_factory=dict)
    startup: Mapping[ContainerId, bool] = field(default_factory=dict)


class HookFacts(Struct, frozen=True, gc=False):
    """The postStart hooks of a pod's containers that count now."""

    running: frozenset[ContainerId] = frozenset()
    """Those of these containers are not through yet."""
    failed: Mapping[ContainerId, str] = field(default_factory=dict)
    """Those of these have failed, and how; their containers are to be killed."""

    def holds(self, container: ContainerId) -> bool:
        """Whether this container has not started because of its hook, although it runs."""
        return container in self.running or container in self.failed
