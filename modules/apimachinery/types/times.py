"""Times, as Kubernetes and the container runtime write them.

Inside edged a time is an integer count of nanoseconds since the epoch, the unit of the CRI. On the wire it is RFC 3339
text: `metav1.Time` with seconds, `metav1.MicroTime` with six digits. Both keep the received text, so that a status that
is sent back differs only where it changed.
"""

from datetime import UTC, datetime, timedelta
from typing import NewType

from modules.apimachinery.attempts import UnreadableError

Nanoseconds = NewType("Nanoseconds", int)
"""A point in time (since the epoch) or a length of time, in nanoseconds."""

Time = NewType("Time", str)
"""RFC 3339 text with a resolution of one second, UTC: `2026-11-20T01:54:50Z` (Kubernetes' metav1.Time)."""

MicroTime = NewType("MicroTime", str)
"""RFC 3339 text with microseconds, UTC: `2026-11-20T01:59:50.018830Z` (Kubernetes' metav1.MicroTime)."""

SECOND = Nanoseconds(1_000_000_000)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeError(UnreadableError):
    """The text is not an RFC 3339 time."""


def seconds(count: float) -> Nanoseconds:
    """Return a duration in nanoseconds."""
    return Nanoseconds(round(count * SECOND))


def format_time(at: Nanoseconds) -> Time:
    """Format a time as metav1.Time; fractions of a second are cut off, as Go does."""
    return Time(_utc(at).strftime("%Y-%m-%dT%H:%M:%SZ"))


def format_micro_time(at: Nanoseconds) -> MicroTime:
    """Format a time as metav1.MicroTime: always with six digits after the point."""
    return MicroTime(_utc(at).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))


def parse_time(text: str) -> Nanoseconds:
    """Parse an RFC 3339 text, with or without a fraction, in any zone. Raises TimeError."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise TimeError("cannot read the time", repr(text), "wanted is RFC 3339: 2026-11-20T01:54:50Z") from error
    if parsed.tzinfo is None:
        raise TimeError("cannot read the time", repr(text), "a zone is missing: end it with Z")
    return Nanoseconds((parsed - _EPOCH) // timedelta(microseconds=1) * 1000)


def _utc(at: Nanoseconds) -> datetime:
    return _EPOCH + timedelta(microseconds=at // 1000)
