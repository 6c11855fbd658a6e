"""Amounts in the words of `kubectl top`, and spans of time in two units at most."""

from typing import Final

from modules.apimachinery.printing.ages import human_duration

_GIGA: Final = 1 << 30
_MEGA: Final = 1 << 20
_NANO_PER_MILLI: Final = 1_000_000


def millicores(nano_cores: int | None) -> str:
    """Return processor time in thousandths of a core: `12m`; `-` when it is not known."""
    return "-" if nano_cores is None else f"{max(0, round(nano_cores / _NANO_PER_MILLI))}m"


def mebibytes(size: int | None) -> str:
    """Return bytes in Mi, and in Gi from 10 Gi on; `-` when they are not known."""
    if size is None:
        return "-"
    return f"{size / _GIGA:.1f}Gi" if size >= 10 * _GIGA else f"{round(size / _MEGA)}Mi"


def gibibytes(size: float) -> str:
    """Return bytes in Gi with one place, or in whole Gi from 100 Gi on, or in Mi below 1 Gi."""
    if size < _GIGA:
        return f"{round(size / _MEGA)}Mi"
    return f"{size / _GIGA:.0f}Gi" if size >= 100 * _GIGA else f"{size / _GIGA:.1f}Gi"


def kilobytes(size: int) -> str:
    """Return a number of bytes: `312 B`, `4.5 kB`, `1.2 MB`."""
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def duration(seconds: float) -> str:
    """Return a span of time in kubectl's words: `12s`, `3m4s`, `2d`."""
    return human_duration(max(0, int(seconds)))


def percent(part: float, whole: float) -> str:
    """Return a share in whole per cent; `?` of nothing."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else "?"


def bar(part: float, whole: float, width: int) -> str:
    """Return a bar of a width in characters; any usage above zero fills at least one of them."""
    share = min(1.0, max(0.0, part / whole)) if whole > 0 else 0.0
    full = max(round(width * share), 1 if share else 0)
    return "█" * full + "░" * (width - full)
