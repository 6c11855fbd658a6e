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
    terms = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if terms == "0":
        return ""
    total, at = Decimal(0), 0
    while at < len(terms):
        found = _TERM.match(terms, at)
        if found is None or found[1] in ("", ".") or len(found[1]) > _LONGEST_NUMBER:
            break
        if not found[2]:
            return f"time: missing unit in duration {_quoted(text)}"
        if found[2] not in UNIT_NANOSECONDS:
            return f"time: unknown unit {_quoted(found[2])} in duration {_quoted(text)}"
        total, at = total + Decimal(found[1]) * UNIT_NANOSECONDS[found[2]], found.end()
    is_whole = bool(terms) and at == len(terms) and total <= _MOST
    return "" if is_whole else f"time: invalid duration {_quoted(text)}"


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
