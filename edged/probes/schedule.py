"""When a probe is asked. Pure; times are monotonic seconds unless they say otherwise."""


def first_wait(delay: float, age: float) -> float:
    """Seconds until a probe may be asked for the first time.

    Args:
        delay: `initialDelaySeconds`.
        age: seconds since the container was started, by the wall clock. A negative one says that the clock was set
            back; the container then counts as new.
    """
    return max(0.0, delay - max(0.0, age))


def spread(period: float, uptime: float, chance: float) -> float:
    """Seconds that are added to the first wait, so that the probes of a node that has just come up do not all fall on
    the same moment: a part of the period while the agent is younger than one (kubelet's prober worker).

    Args:
        period: `periodSeconds`.
        uptime: seconds since the agent began.
        chance: from 0 to 1.
    """
    return chance * period if uptime < period else 0.0


def next_due(due: float, period: float, now: float) -> float:
    """When it is the next time, after one that was due at `due`: on the beat of the period. Beats that were missed
    meanwhile are left out, as a Go ticker leaves them out.
    """
    missed = max(0, int((now - due) // period))
    return due + (missed + 1) * period
