"""Lengths of time as kubectl's options take them."""

import re
import time
from typing import Final

from modules.cli.errors import UsageError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_WEEK: Final = 7 * 24 * 3600.0


def seconds_of(text: str) -> float:
    """Return the seconds in `90s`, `1m30s`, `2h` or `0`; a negative one stands for a week.

    Raises:
        UsageError: it has another form.
    """
    if text in ("0", "-0"):
        return 0.0
    bare = text.removeprefix("-")
    parts = _PART.findall(bare)
    if not parts or "".join(map("".join, parts)) != bare or len(bare) > 40:
        raise UsageError(f'invalid duration "{text}": 90s, 5m and 1h30m are some')
    return _WEEK if text.startswith("-") else sum(float(number) * _SECONDS[unit] for number, unit in parts)


def end_of(text: str) -> float:
    """Return the moment when a time limit from now ends, in seconds of `time.monotonic`."""
    return time.monotonic() + seconds_of(text)
