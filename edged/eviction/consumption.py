"""Resource usage of pods for evictions, taken from kubelet's Summary and recorded as a whole."""

from collections.abc import Callable

from beehive.trace_context import own_context
from edged.cri.contract import SERVER_ACTOR, ContainerRuntime
from edged.eviction_api.usage import ContainerUsage, DiskConsumption, PodUsage
from edged.stats.model import ContainerStats, FsStats, PodStats
from edged.stats.provider import StatsProvider


def consumption(stats: StatsProvider) -> Callable[[ContainerRuntime, bool], tuple[PodUsage, ...]]:
    """Return a function that measures the usage of all pods, and counts their files again if asked; it raises CriError.

    In traces its calls of the runtime have the actor `SERVER_ACTOR`: a replay has the recorded result, and does not
    make them.
    """

    def measure(runtime: ContainerRuntime, anew: bool) -> tuple[PodUsage, ...]:
        context = own_context()
        actor, context.actor = context.actor, SERVER_ACTOR
        try:
            return tuple(pod_usage(pod) for pod in stats.summary(runtime, anew=anew).pods)
        finally:
            context.actor = actor

    return measure


def pod_usage(stats: PodStats) -> PodUsage:
    """Return the usage of one pod from its statistics."""
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


def _amount(stats: FsStats | None) -> DiskConsumption:
    return DiskConsumption() if stats is None else DiskConsumption(stats.used_bytes or 0, stats.inodes_used or 0)
