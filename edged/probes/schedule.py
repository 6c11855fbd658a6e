"""The times of probes. Pure; times are in monotonic seconds unless stated otherwise."""


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
    period (kubelet's prober worker). It is 0 once the agent is older than one period.

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
