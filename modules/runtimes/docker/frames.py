"""The streams of a container as Docker sends them: frames with headers of eight bytes, or a terminal's bytes."""

import struct
from collections.abc import Iterator
from typing import Final

STREAMS: Final = {1: "stdout", 2: "stderr"}
HEADER: Final = 8
_LARGEST: Final = 16 * 1024 * 1024
"""Largest frame in bytes; Docker's have a little more than 16 KiB."""
_LONGEST_PIECE: Final = 32 * 1024
"""Bytes of a terminal's line that are passed on together."""


class FrameError(ValueError):
    """The received bytes are not a stream of Docker's."""


class FrameReader:
    """A reader of frames from received bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def frames(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield stream and content of each frame that is complete. Raises FrameError."""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= HEADER:
            number, size = struct.unpack_from(">B3xI", self._buffer, at)
            if number not in STREAMS or size > _LARGEST:
                raise FrameError(f"a frame of Docker's has stream {number} and {size} bytes")
            if len(self._buffer) - at - HEADER < size:
                break
            yield STREAMS[number], bytes(self._buffer[at + HEADER : at + HEADER + size])
            at += HEADER + size
        del self._buffer[:at]


class LineReader:
    """A reader of lines, all of stdout, from a terminal's output. A line begins with its time.

    A container may write a line without end, which comes in pieces; each but the first begins with the line's time
    again.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._time = b""
        """Of a line whose first piece was passed on, with a blank."""

    def frames(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """Yield the lines that are complete, with their ends, and pieces of longer ones, without."""
        self._buffer += data
        at = 0
        while True:
            end = self._buffer.find(b"\n", at, at + _LONGEST_PIECE)
            if end < 0 and len(self._buffer) - at < _LONGEST_PIECE:
                break
            stop = end + 1 if end >= 0 else at + _LONGEST_PIECE
            piece = self._time + self._buffer[at:stop]
            self._time = b"" if end >= 0 else bytes(piece[: piece.find(b" ") + 1])
            yield "stdout", bytes(piece)
            at = stop
        del self._buffer[:at]
