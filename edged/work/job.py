"""What a worker is asked to do with a pod, and what it says afterwards."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from edged.api import ContainerStateWaiting, Pod
from edged.pods.model import ContainerId, HookFacts, PodFacts, PodRef, ProbeFacts
from edged.pods.verdict import Verdict


class Task(Enum):
    """What one turn is for."""

    SYNC = "sync"
    """Make the pod run as it is wanted."""
    KILL = "kill"
    """End what runs, with its grace period; files and dead containers stay, for status and logs."""
    REMOVE = "remove"
    """End what runs and remove everything of the pod from the node."""


class Job(Struct, frozen=True, gc=False):
    """One turn of one pod. `pod` is None for what is removed without anybody knowing the pod any more."""

    task: Task
    ref: PodRef
    pod: Pod | None = None
    probes: ProbeFacts = ProbeFacts()
    """What was known by its probes when the job was given."""
    hooks: HookFacts = HookFacts()
    """What was known of its postStart hooks."""
    exchanged: frozenset[ContainerId] = frozenset()
    """Containers that earlier turns have ended to start others in their place."""


class Done(Struct, frozen=True):
    """What came of a job."""

    job: Job
    facts: PodFacts | None = None
    """What the runtime said after the last step; None when it could not be asked."""
    facts_at: float = 0.0
    """When reading them began, monotonic seconds."""
    troubles: Mapping[str, ContainerStateWaiting] = {}
    """Why containers could not be started, by name."""
    error: Exception | None = None
    """Why the job was not done to its end; it is to be tried again."""
    pending: bool = False
    """Whether something is under way whose end asks for the next turn, so that nobody need look before."""
    retry_after: float | None = None
    """Seconds until then, when the error itself says it; else the delay doubles from job to job."""
    exchanged: frozenset[ContainerId] = frozenset()
    """Containers that it was to end to start others in their place."""
    verdict: Verdict | None = None
    """Why the pod cannot run here at all, when that came out only now; the node ends it."""
    ended: bool = False
    """Whether everything that ran was ended for good; an error then is one of clearing up after it."""
