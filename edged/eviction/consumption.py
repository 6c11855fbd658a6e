"""What pods use, as far as evictions go by it: taken from kubelet's Summary, and recorded as a whole.

Calls of the container runtime that are made for it are nobody's doing of edged's, so that a replay, which is told the
outcome, need not make them.
"""

from collections.abc import Callable

from msgspec import Struct

from beehive.causes import own
from edged.cri.contract import ContainerRuntime
from edged.server.snapshots import ACTOR
from edged.stats.model import ContainerStats, FsStats, PodStats
from edged.stats.provider import StatsProvider


class Amount(Struct, frozen=True, gc=False):
    """Bytes and inodes of a disk."""

    size: int = 0
    inodes: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.size + other.size, self.inodes + other.inodes)


class ContainerUsage(Struct, frozen=True):
    """One container. `memory` are bytes of its working set; None is unknown."""

    name: str
    memory: int | None = None
    layer: Amount = Amount()
    """What it has written to its own root."""
    logs: Amount = Amount()


class PodUsage(Struct, frozen=True):
    """One pod."""

    uid: str
    memory: int | None = None
    processes: int | None = None
    containers: tuple[ContainerUsage, ...] = ()
    storage: Amount = Amount()
    """All that it takes of the node's disk (kubelet's ephemeral storage)."""

    @property
    def layers(self) -> Amount:
        """What all containers have written to their roots."""
        return sum((each.layer for each in self.containers), Amount())


def consumption(stats: StatsProvider) -> Callable[[ContainerRuntime, bool], tuple[PodUsage, ...]]:
    """Measures what pods use, if need be with files counted anew; the function raises CriError."""

    def measure(runtime: ContainerRuntime, anew: bool) -> tuple[PodUsage, ...]:
        turn = own()
        actor, turn.actor = turn.actor, ACTOR
        try:
            return tuple(pod_usage(pod) for pod in stats.summary(runtime, anew=anew).pods)
        finally:
            turn.actor = actor

    return measure


def pod_usage(stats: PodStats) -> PodUsage:
    """One pod's."""
    return PodUsage(
        uid=stats.pod_ref.uid,
        memory=stats.memory.working_set_bytes if stats.memory is not None else None,
        processes=stats.process_stats.process_count if stats.process_stats is not None else None,
        containers=tuple(_container(each) for each in stats.containers),
        storage=_amount(stats.ephemeral_storage),
    )


def _container(stats: ContainerStats) -> ContainerUsage:
    memory = stats.memory.working_set_bytes if stats.memory is not None else None
    return ContainerUsage(stats.name, memory, _amount(stats.rootfs), _amount(stats.logs))


def _amount(stats: FsStats | None) -> Amount:
    return Amount() if stats is None else Amount(stats.used_bytes or 0, stats.inodes_used or 0)
