"""Why this node itself has ended a pod for good: eviction, a deadline, a refused admission, the node's shutdown.

The cloud did not ask for it, so the pod stays known: its containers are stopped, and once they have ended its status
says `Failed` with the reason (no earlier: kubelet's status manager holds a final phase back while containers run). It
is never started again; what is left of it goes when the cloud deletes it.
"""

from msgspec import Struct
from msgspec.structs import replace

from edged.api import Pod


class Verdict(Struct, frozen=True, gc=False):
    """What the status of a pod says that the node has ended."""

    reason: str
    """One word for programs, a kubelet's: `Evicted`, `DeadlineExceeded`, `OutOfcpu`."""
    message: str
    """The same for people."""
    grace: int | None = None
    """Seconds that its containers get to end by themselves; the pod's own grace period when there is none."""
    disruption: bool = False
    """Whether the condition `DisruptionTarget` says so too: a controller then does not count it as a failure."""
    refused: bool = False
    """Whether it never began here, so that there is nothing to say of its containers (kubelet's rejectPod)."""

    def applied_to(self, pod: Pod) -> Pod:
        """The pod as it is to be ended."""
        if self.grace is None:
            return pod
        return replace(pod, metadata=replace(pod.metadata, deletion_grace_period_seconds=self.grace))
