"""Kubernetes' way of writing moments, in the unit of the clock: seconds since the epoch."""

from edged.api import format_time, parse_time
from edged.api.times import SECOND, TimeError, seconds

_FIRST, _LAST = -62135596800, 253402300799
"""From the year 1 to the year 9999."""


def rfc3339(moment: float) -> str:
    """The moment as metav1.Time prints it; fractions are cut off, and what is beyond its years."""
    return format_time(seconds(int(min(max(moment, _FIRST), _LAST))))


def seconds_of(text: str) -> float | None:
    """Seconds since the epoch of an RFC 3339 moment; None when it is not one."""
    try:
        return parse_time(text) / SECOND
    except TimeError:
        return None
