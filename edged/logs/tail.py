"""Finds the beginning of the last lines of a log from its end, without reading the rest.

A line of the container counts once, even if the runtime has split it into parts.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from edged.logs.lines import LONGEST_HEAD, is_whole

BLOCK: Final = 64 * 1024
"""Bytes to read at a time, and to hold in memory."""


class Tail(NamedTuple):
    """The beginning of the last lines."""

    offset: int
    lines: int
    """Number of lines from there on: the wanted number, or all of a shorter file."""


def find_tail(descriptor: int, wanted: int, block: int = BLOCK) -> Tail:
    """Return the offset from which a file has the last `wanted` lines."""
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
    """Yield the lines of a file from the last to the first: offset and first bytes."""
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
