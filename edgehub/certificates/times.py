"""Times as text, for errors about certificates. Pure."""

from datetime import UTC, datetime

_FIRST, _LAST = 0.0, 253402300799.0


def format_time(seconds: float) -> str:
    """Format a Unix time as `2026-11-20 01:54:27 UTC`."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_duration(seconds: float) -> str:
    """Format a duration in seconds roughly: `3 days`, `2 hours`, `40 s`."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
