"""SPDY/3.1, the client's side of what a container runtime's streaming server needs. Pure.

Kubernetes carries exec, attach and port-forward in SPDY streams, each of which can be ended in one direction: the way
to tell a command the end of its input on runtimes whose WebSocket cannot (containerd before 2.0). Only what is needed
for that is here: streams that the client opens, data, ends and resets, pings. Header blocks of the server have no
meaning for it and are not decompressed. There is no flow control: Kubernetes' servers have none.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_CONTROL_BYTES: Final = 64 * 1024
"""Longest control frame that is taken."""
LONGEST_DATA: Final = 32 * 1024
"""Bytes of a data frame that is sent."""
MOST_UNSENT: Final = 1 << 20
"""Bytes of answers to pings and the like that wait to be sent."""
MOST_STREAMS: Final = 10_000
"""Streams of one connection; an id is never used again."""

_VERSION: Final = 0x8003
_FIN: Final = 0x01
_HEAD: Final = 8
_LEAST: Final = 4
"""Bytes of the shortest control frame, a ping."""


class _Kind(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


class SpdyError(Exception):
    """The other side breaks the protocol."""


class StreamData(NamedTuple):
    """Bytes of a stream; a frame may arrive in several."""

    stream: int
    data: bytes


class StreamEnd(NamedTuple):
    """The other side sends no more on a stream."""

    stream: int
    reset: bool = False
    """Whether the stream was broken off: it takes no more data either."""


class ConnectionEnd(NamedTuple):
    """The other side opens and takes no more streams."""


SpdyEvent = StreamData | StreamEnd | ConnectionEnd


class SpdyConnection:
    """The state of a connection: turns calls into bytes and bytes into events; holds no socket.

    Bytes to send are in `unsent`, from which the caller takes them.
    """

    def __init__(self) -> None:
        self.unsent = bytearray()
        self._received = bytearray()
        self._data: tuple[int, int, bool] | None = None
        """Of the data frame that is being received: stream, bytes to come, whether it is the stream's last."""
        self._next = 1
        # Without the dictionary of SPDY: zlib's header says so, and every decoder of zlib reads it.
        self._compressor = zlib.compressobj()

    def open_stream(self, headers: Mapping[str, str], *, ended: bool = False) -> int:
        """Open a stream and return its id.

        Args:
            headers: names in lower case.
            ended: whether nothing will be sent on it.

        Raises:
            SpdyError: the connection has had too many streams.
        """
        stream, self._next = self._next, self._next + 2
        if stream > 2 * MOST_STREAMS:
            raise SpdyError("too many streams on one connection")
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += _counted(name) + _counted(value)
        packed = self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        self._control(_Kind.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + packed, _FIN if ended else 0)
        return stream

    def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        """Send bytes on a stream; `last` ends it, also without bytes."""
        pieces = [data[at : at + LONGEST_DATA] for at in range(0, len(data), LONGEST_DATA)] or [b""]
        for number, piece in enumerate(pieces, 1):
            flags = _FIN if last and number == len(pieces) else 0
            self.unsent += struct.pack(">II", stream, flags << 24 | len(piece)) + piece

    def reset(self, stream: int) -> None:
        """Break a stream off."""
        self._control(_Kind.RST_STREAM, struct.pack(">II", stream, 5))

    def receive(self, data: bytes) -> Iterator[SpdyEvent]:
        """Take bytes, and yield what they say.

        Raises:
            SpdyError: they are not SPDY/3.1, or a frame is too long.
        """
        self._received += data
        while self._data is not None or len(self._received) >= _HEAD:
            if self._data is None:
                first, second = struct.unpack(">II", self._received[:_HEAD])
                flags, length = second >> 24, second & 0xFFFFFF
                if first >> 31:
                    if not (content := self._control_frame(first >> 16, length)):
                        return
                    yield from self._control_received(first & 0xFFFF, flags, content)
                    continue
                if not first % 2 or first >= self._next:
                    raise SpdyError("data of a stream that was not opened")
                del self._received[:_HEAD]
                self._data = (first, length, bool(flags & _FIN))
            stream, left, last = self._data
            if left and not self._received:
                return
            yield from self._data_received(stream, left, last=last)

    def _control_frame(self, version: int, length: int) -> bytes:
        """Take a control frame's content out of the received bytes; nothing while it is not complete."""
        if version != _VERSION:
            raise SpdyError("this is not SPDY/3.1")
        if not _LEAST <= length <= MOST_CONTROL_BYTES:
            raise SpdyError(f"a frame of {length} bytes")
        if len(self._received) < _HEAD + length:
            return b""
        content = bytes(self._received[_HEAD : _HEAD + length])
        del self._received[: _HEAD + length]
        return content

    def _data_received(self, stream: int, left: int, *, last: bool) -> Iterator[SpdyEvent]:
        """Yield what has come of a data frame."""
        piece = bytes(self._received[:left])
        del self._received[: len(piece)]
        left -= len(piece)
        self._data = (stream, left, last) if left else None
        if piece:
            yield StreamData(stream, piece)
        if last and not left:
            yield StreamEnd(stream)

    def _control_received(self, kind: int, flags: int, content: bytes) -> Iterator[SpdyEvent]:
        if len(self.unsent) > MOST_UNSENT:
            raise SpdyError("it asks for more answers than it takes")
        number = int.from_bytes(content[:4]) & 0x7FFFFFFF
        match kind:
            case _Kind.SYN_STREAM:
                self.reset(number)
            case _Kind.SYN_REPLY if flags & _FIN:
                yield StreamEnd(number)
            case _Kind.RST_STREAM:
                yield StreamEnd(number, reset=True)
            case _Kind.PING if not number % 2:
                self._control(_Kind.PING, struct.pack(">I", number))
            case _Kind.GOAWAY:
                yield ConnectionEnd()

    def _control(self, kind: _Kind, content: bytes, flags: int = 0) -> None:
        self.unsent += struct.pack(">HHI", _VERSION, kind, flags << 24 | len(content)) + content


def _counted(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">I", len(data)) + data
