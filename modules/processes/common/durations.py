"""Durations and sizes in the notation of Kubernetes configuration files.

Durations are Go's (`time.ParseDuration`): `1m0s`, `100ms`, `1h30m`; they become seconds as a float, as the clock
counts. Sizes are whole quantities of Kubernetes: `16Mi`, `64k`, `1048576`; they become bytes as an int. Both are
written in the one form of Go, so that a file of ours and one of KubeEdge can be compared line by line.
"""

import argparse
import math
import re
from decimal import Decimal
from typing import Final

from modules.apimachinery.go_durations import UNIT_NANOSECONDS
from modules.apimachinery.types.quantity import whole_value

_TERM: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)

_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_SIZE: Final = re.compile(r"[0-9]{1,18}(?:[KMGTPE]i|[kMGTPE])?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a Go duration such as `1m0s` or `0`. Raises ValueError for any other text, and for
    signs.
    """
    if text == "0":
        return 0.0
    nanoseconds = Decimal(0)
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise ValueError(text)
        nanoseconds += Decimal(term[1]) * UNIT_NANOSECONDS[term[2]]
        position = term.end()
    if not text:
        raise ValueError(text)
    return int(nanoseconds) / 1e9


def seconds_option(text: str) -> float:
    """Return the seconds of an option's duration: a Go duration such as `90s` or `24h`, or a number of seconds.

    Raises:
        argparse.ArgumentTypeError: it is neither.
    """
    try:
        return float(text) if _NUMBER.fullmatch(text) else parse_duration(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"a duration is wanted, as in 90s, 1h30m or 24h: {text}") from None


def whole_seconds_option(text: str) -> int:
    """Return the seconds of an option's duration, rounded up (see `seconds_option`)."""
    return math.ceil(seconds_option(text))


def format_duration(seconds: float) -> str:
    """Return Go's form of a duration in seconds (`time.Duration.String`): `0s`, `100ms`, `1m0s`, `4h0m0s`."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds == 0:
        return "0s"
    for unit in ("s", "ms", "µs", "ns"):
        if nanoseconds >= UNIT_NANOSECONDS[unit]:
            break
    if unit != "s":
        return _decimal(nanoseconds, UNIT_NANOSECONDS[unit]) + unit
    minutes, rest = divmod(nanoseconds, UNIT_NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, UNIT_NANOSECONDS["s"]) + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def parse_size(text: str) -> int:
    """Return the bytes of a whole Kubernetes quantity such as `16Mi`. Raises ValueError for any other text."""
    if _SIZE.fullmatch(text) is None:
        raise ValueError(text)
    return whole_value(text)


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
