"""Where the last lines of a log begin, found from its end: what is before them is never read.

Lines are those of the container: the parts of one that is longer than the runtime's buffer count once.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from edged.logs.lines import LONGEST_HEAD, is_whole

BLOCK: Final = 64 * 1024
"""Bytes that are read at a time; all that is kept in memory."""


class Tail(NamedTuple):
    """Where to begin."""

    offset: int
    lines: int
    """How many there are from there on: as many as wanted, or all that the file has."""


def find_tail(descriptor: int, wanted: int, block: int = BLOCK) -> Tail:
    """The place in a file from which on it has the last `wanted` lines."""
    begin = size = os.fstat(descriptor).st_size
    if wanted <= 0:
        return Tail(size, 0)
    found = 0
    for start, head in _backwards(descriptor, size, block):
        if is_whole(head) or found == 0:
            if found == wanted:
                return Tail(begin, found)
            found += 1
        begin = start
    return Tail(0, found)


def _backwards(descriptor: int, size: int, block: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file from the last to the first: where each begins, and its first bytes."""
    position, after = size, b""
    while position > 0:
        step = min(block, position)
        position -= step
        data = os.pread(descriptor, step, position)
        window, at = data + after, len(data)
        while (newline := data.rfind(b"\n", 0, at)) >= 0:
            start = newline + 1
            if position + start < size:
                yield position + start, window[start : start + LONGEST_HEAD]
            at = newline
        after = window[:LONGEST_HEAD]
    if size:
        yield 0, after
