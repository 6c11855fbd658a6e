"""Times as Kubernetes writes them, in seconds since the epoch."""

from modules.apimachinery.types import format_time, parse_time
from modules.apimachinery.types.times import SECOND, TimeError, seconds

_FIRST, _LAST = -62135596800, 253402300799
"""From the year 1 to the year 9999."""


def format_rfc3339(moment: float) -> str:
    """Return a time as metav1.Time prints it, in whole seconds, limited to the years 1 to 9999."""
    return format_time(seconds(int(min(max(moment, _FIRST), _LAST))))


def parse_rfc3339(text: str) -> float | None:
    """Return the seconds since the epoch of an RFC 3339 time, or None for another text."""
    try:
        return parse_time(text) / SECOND
    except TimeError:
        return None
