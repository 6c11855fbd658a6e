"""KillOptions: why and how this node ends a pod that the cloud has not deleted."""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from edged.pods.model import PodUid
from modules.apimachinery.types import Pod

EVICTED = "Evicted"
"""Reason of evictions (kubelet's)."""


class KillOptions(Struct, frozen=True, gc=False):
    """Way in which this node ends a pod for good, after kubelet's KillPodOptions: on eviction, after a deadline, when
    it is not admitted, or when the machine shuts down.

    The cloud did not request the end, so the pod stays known: its containers are stopped, and once they have ended its
    status is `Failed` with the reason (not earlier: kubelet's status manager holds a final phase back while containers
    run). The pod is never started again, and is removed when the cloud deletes it.
    """

    reason: str
    """Reason in the status, one word of a kubelet's: `Evicted`, `DeadlineExceeded`, `OutOfcpu`."""
    message: str
    """Message in the status, for people."""
    grace_period: int | None = None
    """Grace period in seconds; None: the pod's own."""
    disruption: bool = False
    """Whether the pod gets the condition `DisruptionTarget`: controllers then do not count its end as a failure."""
    rejected: bool = False
    """Whether the pod never started here, so that its status has no containers (kubelet's rejectPod)."""

    def applied_to(self, pod: Pod) -> Pod:
        """Return the pod with this grace period."""
        if self.grace_period is None:
            return pod
        return replace(pod, metadata=replace(pod.metadata, deletion_grace_period_seconds=self.grace_period))


class KillCause(Enum):
    """The decision that ends a pod, recorded as an event."""

    EVICTION = "eviction"
    DEADLINE = "deadline"
    REJECTION = "rejection"
    """The node does not admit the pod (kubelet's rejectPod)."""
    PREEMPTION = "preemption"
    """A critical pod takes the room."""
    OTHER = "other"
    """No event: the part that decided has recorded its own."""


class KillPod(Struct, frozen=True, gc=False):
    """A request to end a pod for good (kubelet's killPodNow). The first one stands."""

    uid: PodUid
    options: KillOptions
    cause: KillCause = KillCause.OTHER
    shortens: bool = False
    """Whether a pod that is ending already gets no more time than the grace period of these options from now on (a
    kubelet's pod worker shortens it so)."""


def eviction(uid: PodUid, message: str, grace_period: int = 1, *, disruption: bool = False) -> KillPod:
    """Return the request to end a pod that uses more than it may, or whose resources the node needs (kubelet's
    evictPod).

    Args:
        uid: of the pod.
        message: the reason, for people.
        grace_period: seconds that its containers get.
        disruption: whether the pod gets the condition DisruptionTarget, see `KillOptions`.
    """
    options = KillOptions(EVICTED, message, grace_period, disruption=disruption)
    return KillPod(uid, options, KillCause.EVICTION)
