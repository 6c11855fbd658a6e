"""Go's `time.ParseDuration`: the units of a duration such as `1m30s`, and the refusals that an API server passes on to
clients.
"""

import re
from decimal import Decimal
from typing import Final

UNIT_NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"([0-9]*(?:\.[0-9]*)?)([^.0-9]*)")
_SHOWN: Final = 40
_LONGEST_NUMBER: Final = 40
_MOST: Final = 2**63 - 1
"""Nanoseconds of the longest duration."""


def duration_error(text: str) -> str:
    """Return Go's words for a text that is no duration; "" for one that is, with a sign or without."""
    try:
        read_duration(text)
    except ValueError as error:
        return str(error)
    return ""


def read_duration(text: str) -> int:
    """Return the nanoseconds of a duration. Raises ValueError with Go's words."""
    is_negative = text.startswith("-")
    terms = text.removeprefix("-") if is_negative else text.removeprefix("+")
    if terms == "0":
        return 0
    total, at = Decimal(0), 0
    while at < len(terms):
        found = _TERM.match(terms, at)
        if found is None or found[1] in ("", ".") or len(found[1]) > _LONGEST_NUMBER:
            break
        if not found[2]:
            raise ValueError(f"time: missing unit in duration {_quoted(text)}")
        if found[2] not in UNIT_NANOSECONDS:
            raise ValueError(f"time: unknown unit {_quoted(found[2])} in duration {_quoted(text)}")
        total, at = total + Decimal(found[1]) * UNIT_NANOSECONDS[found[2]], found.end()
    if not terms or at < len(terms) or total > _MOST:
        raise ValueError(f"time: invalid duration {_quoted(text)}")
    return -int(total) if is_negative else int(total)


def _quoted(text: str) -> str:
    """Return a text in quotation marks as Go writes it; of a long one its beginning."""
    shown = text[:_SHOWN].encode()
    return (
        '"'
        + "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else _escaped(byte) for byte in shown)
        + '"'
    )


def _escaped(byte: int) -> str:
    return f"\\{chr(byte)}" if byte in b'"\\' else f"\\x{byte:02x}"
