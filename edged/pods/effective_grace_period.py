"""The effective grace period of a pod's containers: how long the time between SIGTERM and SIGKILL is."""

from edged.pods.unhealthy import KillReason
from modules.apimachinery.types import Container, Pod

DEFAULT_GRACE_SECONDS = 30
SHORTEST_STOP_SECONDS = 2
"""Shortest timeout of StopContainer, also for a forced deletion (kubelet's minimumGracePeriodInSeconds)."""

_LONGEST_GRACE_SECONDS = 2**31 - 1


def grace_seconds(pod: Pod, container: Container | None = None, reason: KillReason | None = None) -> int:
    """Return the grace period in seconds (kubelet's calculateEffectiveGracePeriod and setTerminationGracePeriod).

    The first of these counts: the deletion's, that of the probe that kills the container, the pod's, 30. The result is
    at least 1 and at most 68 years: gRPC takes a deadline beyond its calendar for an expired one.

    Args:
        pod: the pod.
        container: the one that ends, if only one does.
        reason: why it ends.
    """
    candidates = (
        pod.metadata.deletion_grace_period_seconds,
        _of_probe(container, reason),
        pod.spec.termination_grace_period_seconds,
        DEFAULT_GRACE_SECONDS,
    )
    wanted = next(candidate for candidate in candidates if candidate is not None)
    return min(max(wanted, 1), _LONGEST_GRACE_SECONDS)


def _of_probe(container: Container | None, reason: KillReason | None) -> int | None:
    if container is None or reason is None:
        return None
    probes = {KillReason.LIVENESS_PROBE: container.liveness_probe, KillReason.STARTUP_PROBE: container.startup_probe}
    probe = probes.get(reason)
    return None if probe is None else probe.termination_grace_period_seconds
