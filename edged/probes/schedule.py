"""When a probe is made (kubelet's prober worker). Pure; times are in seconds."""

from edged.probes.model import ProbeKind


def is_due(kind: ProbeKind, *, started: bool, terminating: bool) -> bool:
    """Return whether a probe of this kind is made now.

    Args:
        kind: its kind.
        started: the container's startup probe has passed, or does not exist. Until then the other probes are held back.
        terminating: the pod is to end. Then only readiness still matters, to its clients.
    """
    if kind is ProbeKind.READINESS:
        return started
    return not terminating and started is (kind is ProbeKind.LIVENESS)


def first_wait(delay: float, age: float) -> float:
    """Return the seconds until the first probe.

    Args:
        delay: `initialDelaySeconds`.
        age: seconds since the container's start, by the wall clock. A negative age means that the clock was set back;
            the container then counts as new.
    """
    return max(0.0, delay - max(0.0, age))


def spread(period: float, uptime: float, chance: float) -> float:
    """Return the seconds to add to the first wait, so that the probes of a node that has just started are spread over a
    period. It is 0 once the agent is older than one period.

    Args:
        period: `periodSeconds`.
        uptime: seconds since the agent started.
        chance: a random number from 0 to 1.
    """
    return chance * period if uptime < period else 0.0


def next_due(due: float, period: float, now: float) -> float:
    """Return the time of the next probe after the one at `due`. Missed periods are left out, as a Go ticker does."""
    missed = max(0, int((now - due) // period))
    return due + (missed + 1) * period
