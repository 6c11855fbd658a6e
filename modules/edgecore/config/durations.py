"""Durations and byte sizes in the notation of Kubernetes configuration files.

Durations are Go's (`time.ParseDuration`): `1m0s`, `100ms`, `1h30m`. Inside the program they are seconds as
a float, as the clock counts. Sizes are the whole-number part of Kubernetes' quantities: `16Mi`, `64k`,
`1048576`; inside they are bytes as an int. Both are printed in the one form that Go prints, so that a file
written by us and one written by KubeEdge compare equal line by line.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_UNIT_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|μs|ms|s|m|h)", re.ASCII)

_SIZE: Final = re.compile(r"([0-9]{1,18})(Ki|Mi|Gi|Ti|k|M|G|T)?", re.ASCII)
_SIZE_FACTORS: Final = {
    "Ti": 1 << 40,
    "Gi": 1 << 30,
    "Mi": 1 << 20,
    "Ki": 1 << 10,
    "T": 10**12,
    "G": 10**9,
    "M": 10**6,
    "k": 10**3,
}


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as `1m0s` or `0`; ValueError for anything else, signs included."""
    if text == "0":
        return 0.0
    nanoseconds = Decimal(0)
    position = 0
    while position < len(text):
        term = _TERM.match(text, position)
        if term is None:
            raise ValueError(text)
        nanoseconds += Decimal(term[1]) * _UNIT_NANOSECONDS[term[2]]
        position = term.end()
    if not text:
        raise ValueError(text)
    return int(nanoseconds) / 1e9


def format_duration(seconds: float) -> str:
    """Go's own form of a duration (`time.Duration.String`): `0s`, `100ms`, `1m0s`, `4h0m0s`."""
    nanoseconds = round(seconds * 1e9)
    if nanoseconds == 0:
        return "0s"
    for unit in ("s", "ms", "µs", "ns"):
        if nanoseconds >= _UNIT_NANOSECONDS[unit]:
            break
    if unit != "s":
        return _decimal(nanoseconds, _UNIT_NANOSECONDS[unit]) + unit
    minutes, rest = divmod(nanoseconds, _UNIT_NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    text = _decimal(rest, _UNIT_NANOSECONDS["s"]) + "s"
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def parse_size(text: str) -> int:
    """Bytes of a whole Kubernetes quantity such as `16Mi`; ValueError for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * (_SIZE_FACTORS[match[2]] if match[2] else 1)


def format_size(size: int) -> str:
    """The shortest exact form in binary units: 16777216 is `16Mi`, 1000 stays `1000`."""
    for suffix in ("Ti", "Gi", "Mi", "Ki"):
        if size and size % _SIZE_FACTORS[suffix] == 0:
            return f"{size // _SIZE_FACTORS[suffix]}{suffix}"
    return str(size)


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    digits = f"{fraction:0{len(str(unit)) - 1}d}".rstrip("0") if fraction else ""
    return f"{whole}.{digits}" if digits else str(whole)
