"""Unpredictable ids: UUIDs from the operating system's randomness, made in batches.

A module that knows a message's id may answer it. Ids drawn from a Mersenne Twister can be computed after a few hundred
of them have been seen; these are drawn by the kernel. One system call serves 256 ids, so an id costs no more.
"""

import os
from collections import deque
from typing import Final

_AT_ONCE: Final = 256
_DIGITS: Final = 32
"""Hexadecimal digits of an id."""

_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The digit with two bits of variant 1 (RFC 9562 §5.4) and two random bits, by a random digit."""

_ready: deque[str] = deque()
"""Ids that were made and not given out yet; the ends of a deque are thread-safe."""

os.register_at_fork(after_in_child=_ready.clear)  # or parent and child would hand out the same ids


def unpredictable_id() -> str:
    """Return a UUID version 4 in lower case with hyphens."""
    try:
        return _ready.pop()
    except IndexError:
        return _refilled()


def _refilled() -> str:
    """Make a batch of ids and return one of them. Two threads that call it together make two batches."""
    digits = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
    ids = [_uuid(digits[at : at + _DIGITS]) for at in range(0, len(digits), _DIGITS)]
    _ready.extend(ids[1:])
    return ids[0]


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"
