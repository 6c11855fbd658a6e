"""How long a pod's containers get between the request to end and the kill."""

from edged.api import Pod

DEFAULT_GRACE_SECONDS = 30
SHORTEST_STOP_SECONDS = 2
"""What StopContainer is given at least, also of a deletion by force (kubelet's minimumGracePeriodInSeconds)."""

_LONGEST_GRACE_SECONDS = 2**31 - 1


def grace_seconds(pod: Pod, override: int | None = None) -> int:
    """The pod's grace period in seconds: an override, else what its deletion says, else its own, else 30; at
    least 1, and no more than 68 years: gRPC takes a deadline behind its calendar for one that has passed.

    The override is what a probe asks for its own container. (kubelet's calculateEffectiveGracePeriod and
    setTerminationGracePeriod.)
    """
    candidates = (
        override,
        pod.metadata.deletion_grace_period_seconds,
        pod.spec.termination_grace_period_seconds,
        DEFAULT_GRACE_SECONDS,
    )
    wanted = next(candidate for candidate in candidates if candidate is not None)
    return min(max(wanted, 1), _LONGEST_GRACE_SECONDS)
