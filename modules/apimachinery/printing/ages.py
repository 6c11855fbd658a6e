"""Ages in kubectl's words, and times."""

from datetime import datetime
from time import gmtime, strftime

from modules.apimachinery.printing.fields import JsonObject, text_at

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age_of(obj: JsonObject, now: float) -> str:
    """Return the age of an object (HumanDuration). `now` in seconds since the epoch."""
    return ago(text_at(obj, "metadata.creationTimestamp"), now)


def ago(moment: str, now: float) -> str:
    """Return the time since an RFC 3339 time; `<unknown>` for any other text."""
    seconds = seconds_of(moment)
    return "<unknown>" if seconds is None else human_duration(max(0, int(now - seconds)))


def utc(seconds: float) -> str:
    """Return a time in seconds since the epoch as an RFC 3339 time in whole seconds."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(seconds))


def seconds_of(moment: str) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None for any other text."""
    try:
        parsed = datetime.fromisoformat(moment)
        return parsed.timestamp() if parsed.tzinfo else None
    except (ValueError, OverflowError):
        return None


def human_duration(seconds: int) -> str:
    """Return a duration in at most two units, the finer one left out as it grows (HumanDuration)."""
    minutes, hours, days = seconds // _MINUTE, seconds // _HOUR, seconds // _DAY
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % _MINUTE, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    years = seconds // _YEAR
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(big: int, unit: str, small: int, small_unit: str) -> str:
    return f"{big}{unit}{small}{small_unit}" if small else f"{big}{unit}"
