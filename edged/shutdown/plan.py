"""Which pods end together when the machine shuts down, and how long they get. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from edged.api import Pod
from edged.pods.termination import grace_seconds
from edged.pods.verdict import Verdict

TERMINATED: Final = "Terminated"
"""Reason of a pod that ended with the machine (kubelet)."""
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
_CRITICAL: Final = 2_000_000_000
"""Priority from which on pods are components of the system (system-cluster-critical)."""


class Group(Struct, frozen=True, gc=False):
    """Pods of this priority or more, up to the next group's, and the seconds that they get."""

    priority: int
    seconds: int


class Step(NamedTuple):
    """Pods that are ended together."""

    pods: tuple[Pod, ...]
    seconds: int


def groups(total: int, critical: int, by_priority: Mapping[int, int] | None = None) -> tuple[Group, ...]:
    """The groups of a configuration, the lowest priority first; none when there is no time (kubelet's migrateConfig).

    Args:
        total: seconds in all (`shutdownGracePeriod`).
        critical: how many of them are critical pods' (`shutdownGracePeriodCriticalPods`).
        by_priority: seconds by priority, in the place of both (`shutdownGracePeriodByPodPriority`).
    """
    seconds = by_priority or ({0: total - critical, _CRITICAL: critical} if total > 0 else {})
    return tuple(Group(priority, seconds[priority]) for priority in sorted(seconds))


def plan(pods: Iterable[Pod], known: Sequence[Group]) -> list[Step]:
    """Who ends with whom, in this order; groups without pods are left out. A pod below the lowest priority ends with
    the first group (groupByPriority).
    """
    members: dict[int, list[Pod]] = {}
    for pod in pods:
        priority = pod.spec.priority or 0
        index = max((n for n, group in enumerate(known) if group.priority <= priority), default=0)
        members.setdefault(index, []).append(pod)
    return [Step(tuple(members[index]), known[index].seconds) for index in sorted(members)]


def verdict(pod: Pod, seconds: int) -> Verdict:
    """How a pod of a step ends: within its own grace period, or the step's when that is shorter."""
    return Verdict(TERMINATED, MESSAGE, min(seconds, grace_seconds(pod)), disruption=True)
