"""Times in words, for errors about certificates. Pure."""

from datetime import UTC, datetime

_FIRST, _LAST = 0.0, 253402300799.0


def shown(seconds: float) -> str:
    """A Unix time as `2026-11-20 01:54:27 UTC`."""
    return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def lasting(seconds: float) -> str:
    """A duration, roughly: `3 days`, `2 hours`, `40 s`."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
