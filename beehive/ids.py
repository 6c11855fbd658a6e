"""Ids that nobody can predict: UUIDs of the operating system's randomness, made many at a time.

A message's id says who may answer it. Ids of Mersenne Twister can be computed by whoever has seen some hundreds of
them; each of these is drawn by the kernel. One system call serves a few hundred ids: an id costs no more than before.
"""

import os
from collections import deque
from typing import Final

_AT_ONCE: Final = 256
_DIGITS: Final = 32
"""Hexadecimal digits of an id."""

_VARIANT: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""Of the digit that holds it, two bits say variant 1 (RFC 9562 §5.4) and two are random."""

_ready: deque[str] = deque()
"""Shared by all threads of the process: a deque's ends are safe to use from any of them."""

os.register_at_fork(after_in_child=_ready.clear)  # or parent and child would hand out the same ids


def unpredictable_id() -> str:
    """A UUID version 4 in lower case with hyphens."""
    try:
        return _ready.pop()
    except IndexError:
        return _refilled()


def _refilled() -> str:
    """One new id; the others of its batch wait for the next calls. Two threads that come here at once make two."""
    digits = os.urandom(_AT_ONCE * _DIGITS // 2).hex()
    ids = [_uuid(digits[at : at + _DIGITS]) for at in range(0, len(digits), _DIGITS)]
    _ready.extend(ids[1:])
    return ids[0]


def _uuid(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{_VARIANT[digits[16]]}{digits[17:20]}-{digits[20:]}"
