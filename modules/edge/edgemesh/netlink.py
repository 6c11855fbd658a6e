"""Netlink messages (netlink(7)): headers and attributes. Pure. Truncated ones and wrong lengths are skipped."""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

HEADER: Final = struct.Struct("=IHHII")
"""Length, type, flags, number, port."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_KIND_MASK: Final = 0x3FFF
_NESTED: Final = 0x8000


class NetlinkMessage(NamedTuple):
    """A message of a datagram."""

    type: int
    body: bytes


def messages(data: bytes) -> Iterator[NetlinkMessage]:
    """Yield the messages of a datagram."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, _, _, _ = HEADER.unpack_from(data, at)
        if length < HEADER.size or at + length > len(data):
            return
        yield NetlinkMessage(kind, data[at + HEADER.size : at + length])
        at += _aligned(length)


def attributes(data: bytes) -> dict[int, bytes]:
    """Return the attributes by their type."""
    found: dict[int, bytes] = {}
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            break
        found[kind & _KIND_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)
    return found


def message(kind: int, flags: int, body: bytes) -> bytes:
    """Return a message."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, 1, 0) + body


def attribute(kind: int, value: bytes, *, nested: bool = False) -> bytes:
    """Return an attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind | (_NESTED if nested else 0)) + value + b"\0" * (_aligned(length) - length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3
