"""A parser of DER (X.690) for the fields of a certificate. Pure; it verifies nothing.

The agent reads its certificate at least every hour, and so needs no cryptographic library for it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

SEQUENCE: Final = 0x30
UTC_TIME: Final = 0x17
GENERALIZED_TIME: Final = 0x18

_LONGEST_LENGTH: Final = 4


class Element(NamedTuple):
    """One DER value."""

    tag: int
    body: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield consecutive values.

    Raises:
        ValueError: the data is not DER.
    """
    at = 0
    while at < len(data):
        element, at = _element(data, at)
        yield element


def only(data: bytes, tag: int) -> bytes:
    """Return the body of the first value; raise ValueError if it has another tag."""
    element, _ = _element(data, 0)
    if element.tag != tag:
        raise ValueError(f"tag {element.tag:#x} in place of {tag:#x}")
    return element.body


def _element(data: bytes, at: int) -> tuple[Element, int]:
    if len(data) < at + 2:
        raise ValueError("ends in the middle of a value")
    tag, length, start = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise ValueError("a tag of several bytes")
    if length & 0x80:
        size = length & 0x7F
        if not 0 < size <= _LONGEST_LENGTH or len(data) < start + size:
            raise ValueError("a length that cannot be")
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    if len(data) < start + length:
        raise ValueError("ends in the middle of a value")
    return Element(tag, data[start : start + length]), start + length
