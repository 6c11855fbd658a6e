"""The job of a pod worker, its result, and the queue of its pod."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from edged.pods.actions import PodActions
from edged.pods.kill_options import KillOptions
from edged.pods.model import ContainerId, HookFacts, PodFacts, PodRef, PodState, PodUid, ProbeFacts
from modules.apimachinery.types import ContainerStateWaiting, Pod

ObjectKey = tuple[str, str, str]
"""Resource type, namespace and name of an object."""


class DeliveredObject(Struct, frozen=True, gc=False):
    """A configmap or secret that a message has brought, as JSON. It is never shown."""

    content: bytes

    def __repr__(self) -> str:
        return f"DeliveredObject({len(self.content)} bytes)"


class Job(Struct, frozen=True, gc=False):
    """One sync of one pod. `pod` is None for an orphan, whose pod is unknown."""

    state: PodState
    ref: PodRef
    pod: Pod | None = None
    probes: ProbeFacts = ProbeFacts()
    """Results of its probes when the job was made."""
    hooks: HookFacts = HookFacts()
    """Results of its postStart hooks when the job was made."""
    replaced: frozenset[ContainerId] = frozenset()
    """Containers that earlier jobs have ended to start others in their place."""
    keeps_last: bool = False
    """Whether the last container of each name stays when the pod is removed: the store has the pod still."""
    plan: tuple[PodFacts, PodActions] | None = None
    """The actions of a sync, if they were computed when the pod was queued, and the facts behind them."""
    delivered: Mapping[ObjectKey, DeliveredObject] = {}
    """Configmaps and secrets of the pod that messages have brought since its last job."""
    is_on_hold: bool = False
    """Whether the pod is not to begin yet: it waits for a release by the owner of the node."""
    known: PodFacts | None = None
    """What the runtime has of the pod, if that need not be read; see `PodSyncRecord.known`."""


class Done(Struct, frozen=True):
    """The result of a job."""

    job: Job
    facts: PodFacts | None = None
    """Facts of the pod after the last step; None when the runtime did not answer."""
    facts_at: float = 0.0
    """When reading them began, in monotonic seconds."""
    waiting_reasons: Mapping[str, ContainerStateWaiting] = {}
    """Why containers could not be started, by name."""
    error: Exception | None = None
    """Why the job did not finish; it is tried again."""
    pending: bool = False
    """Whether something is under way whose end queues the pod again, so that it need not be synced before."""
    retry_at: float | None = None
    """When to try next, in monotonic seconds, if the error states it; else the delay doubles from job to job."""
    replaced: frozenset[ContainerId] = frozenset()
    """Containers that the job was to end to start others in their place."""
    kill_options: KillOptions | None = None
    """Why the pod cannot run here at all, if the job found that out; the node ends the pod."""
    terminated: bool = False
    """Whether everything that ran was stopped for good; an error then comes from the release of resources."""
    unchanged: bool = False
    """Whether the pod needed nothing: the job's actions were computed from these facts."""
    begun: float | None = None
    """When a worker took the job, in monotonic seconds; the worker fills it in."""


class Queue(Enum):
    """The queue that a pod is in, by the work that it needs."""

    ADDITION = "addition"
    DELETION = "deletion"
    REMOVAL = "removal"
    """The removal of a pod's files and cgroups when all of its containers have ended."""


def queue_of(state: PodState) -> Queue:
    """Return the queue of a pod in a state, whose containers are stopped if any run."""
    return Queue.REMOVAL if state is PodState.TERMINATED else Queue.DELETION


class Work(Struct, frozen=True, gc=False):
    """A pod that a worker takes next."""

    uid: PodUid
    queue: Queue
