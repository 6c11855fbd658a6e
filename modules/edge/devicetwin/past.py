"""The history of a property: its last values, bounded by number, age and size. Pure.

The history is kept as lines of `milliseconds JSON`, which take a tenth of the memory of objects. The JSON of a reported
value is a string, and an expected value's a list of the value and its writer.
"""

from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json

MOST: Final = 20
"""Values of one property."""

MAX_AGE: Final = 24 * 3600 * 1000
"""Milliseconds; older values are never returned, and are dropped when a new value is added."""

MAX_SIZE: Final = 2048
"""Characters of the history of one property."""


class PastValue(NamedTuple):
    """An earlier value of a property."""

    at: int
    """Milliseconds since the Unix epoch."""
    value: str
    by: str = ""
    """The writer of an expected value; empty for a reported value."""


def extended(past: str, value: str, timestamp: int, by: str = "") -> str:
    """Return the history with one more value, without values beyond its bounds.

    A value that is larger than the whole history is left out.
    """
    added = f"{timestamp} {msgspec.json.encode([value, by] if by else value).decode()}"
    lines = [*_lines(past), *([added] if len(added) < MAX_SIZE else ())]
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line) + 1
        if len(kept) == MOST or size > MAX_SIZE or timestamp - _time(line) > MAX_AGE:
            break
        kept.append(line)
    return "".join(f"{line}\n" for line in reversed(kept))


def last_time(past: str) -> int:
    """Return when the last value was added, 0 without one."""
    return _time(past[past.rfind("\n", 0, -1) + 1 :]) if past else 0


def entries(past: str, now: int) -> list[PastValue]:
    """Return the values, oldest first, without values too old at `now` (milliseconds)."""
    found = (_entry(line) for line in _lines(past) if now - _time(line) <= MAX_AGE)
    return [one for one in found if one is not None]


def _entry(line: str) -> PastValue | None:
    try:
        found = decode_json(line.partition(" ")[2], str | tuple[str, str])
    except (msgspec.DecodeError, UnicodeError):
        return None
    return PastValue(_time(line), found) if isinstance(found, str) else PastValue(_time(line), *found)


def _lines(past: str) -> list[str]:
    """Return the lines; a value may contain characters that `splitlines` would split at."""
    return past.split("\n")[:-1]


def _time(line: str) -> int:
    """Return the time of a line; 0, which is too old, for one that is damaged."""
    try:
        return int(line.partition(" ")[0])
    except ValueError:
        return 0
