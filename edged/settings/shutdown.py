"""How long the node's shutdown waits for pods (kubelet's ShutdownGracePeriodByPodPriority)."""

from msgspec import Struct


class Group(Struct, frozen=True, gc=False):
    """The pods from this priority up to the next group's, and their seconds to terminate."""

    priority: int
    seconds: int
