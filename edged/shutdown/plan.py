"""Groups of pods that are terminated one after another when the machine shuts down. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from edged.pods.effective_grace_period import grace_seconds
from edged.pods.kill_options import KillOptions
from edged.settings import Group
from modules.apimachinery.types import Pod

TERMINATED: Final = "Terminated"
"""Reason in the status of a pod that was terminated by the shutdown (kubelet)."""
MESSAGE: Final = "Pod was terminated in response to imminent node shutdown."
_CRITICAL: Final = 2_000_000_000
"""Least priority of critical pods (system-cluster-critical)."""


class Step(msgspec.Struct, frozen=True):
    """Pods that are terminated together."""

    pods: tuple[Pod, ...]
    seconds: int


def groups(total: int, critical: int, by_priority: Mapping[int, int] | None = None) -> tuple[Group, ...]:
    """Return the groups of a configuration, the lowest priority first; empty without time (kubelet's migrateConfig).

    Args:
        total: seconds in all (`shutdownGracePeriod`).
        critical: seconds of them for critical pods (`shutdownGracePeriodCriticalPods`).
        by_priority: seconds by priority, instead of both (`shutdownGracePeriodByPodPriority`).
    """
    seconds = by_priority or ({0: total - critical, _CRITICAL: critical} if total > 0 else {})
    return tuple(Group(priority, seconds[priority]) for priority in sorted(seconds))


def plan(pods: Iterable[Pod], known: Sequence[Group]) -> list[Step]:
    """Return the steps in order, without steps that have no pods.

    A pod below the lowest priority belongs to the first group (kubelet's groupByPriority).
    """
    members: dict[int, list[Pod]] = {}
    for pod in pods:
        priority = pod.spec.priority or 0
        index = max((n for n, group in enumerate(known) if group.priority <= priority), default=0)
        members.setdefault(index, []).append(pod)
    return [Step(tuple(members[index]), known[index].seconds) for index in sorted(members)]


def kill_options(pod: Pod, seconds: int) -> KillOptions:
    """Return options to kill a pod of a step: its own grace period, or the step's seconds when they are fewer."""
    return KillOptions(TERMINATED, MESSAGE, min(seconds, grace_seconds(pod)), disruption=True)
