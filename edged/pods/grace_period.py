"""The grace period of a pod's containers: the time between SIGTERM and SIGKILL."""

from edged.api import Pod

DEFAULT_GRACE_SECONDS = 30
SHORTEST_STOP_SECONDS = 2
"""Shortest timeout of StopContainer, also for a forced deletion (kubelet's minimumGracePeriodInSeconds)."""

_LONGEST_GRACE_SECONDS = 2**31 - 1


def grace_seconds(pod: Pod, override: int | None = None) -> int:
    """Return the pod's grace period in seconds (kubelet's calculateEffectiveGracePeriod and setTerminationGracePeriod).

    The first of these counts: `override` (a probe's own period), the deletion's, the pod's, 30. The result is at least
    1 and at most 68 years: gRPC takes a deadline beyond its calendar for an expired one.
    """
    candidates = (
        override,
        pod.metadata.deletion_grace_period_seconds,
        pod.spec.termination_grace_period_seconds,
        DEFAULT_GRACE_SECONDS,
    )
    wanted = next(candidate for candidate in candidates if candidate is not None)
    return min(max(wanted, 1), _LONGEST_GRACE_SECONDS)
