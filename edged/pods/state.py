"""The state of a pod on this node, after kubelet's PodWorkerState."""

from enum import Enum


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
