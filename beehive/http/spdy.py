"""The part of SPDY/3.1 that the streams of containers need, for clients and servers. Pure.

Kubernetes carries exec, attach and port-forward in SPDY streams. Each stream can be ended in one direction, which is
how a command learns the end of its input from runtimes whose WebSocket cannot do that (containerd before 2.0). This
module implements only streams that the client opens, data, ends, resets and pings. Header blocks of a server have no
meaning for a client and are not decompressed. There is no flow control: Kubernetes' servers have none.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from beehive.http.spdy_headers import HeaderBlockError, HeaderPacker, HeaderUnpacker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MOST_CONTROL_BYTES: Final = 64 * 1024
"""Longest control frame that is accepted, in bytes."""
LONGEST_DATA: Final = 32 * 1024
"""Most bytes in a data frame that is sent."""
MOST_UNSENT: Final = 1 << 20
"""Most bytes of answers to pings and the like that wait to be sent."""
MOST_STREAMS: Final = 10_000
"""Most streams that a client opens on one connection, since ids are never reused."""

_VERSION: Final = 0x8003
_FIN: Final = 0x01
_HEAD: Final = 8
_LEAST: Final = 4
"""Bytes of the shortest control frame, a ping."""
_BEFORE_HEADERS: Final = 10
"""Bytes of a SYN_STREAM before its header block."""
_CANCEL: Final = 5


class _Kind(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    GOAWAY = 7


class SpdyError(Exception):
    """The other side has violated the protocol."""


class StreamOpened(NamedTuple):
    """A client has opened a stream."""

    stream: int
    headers: dict[str, str]
    """Names in lower case."""
    ended: bool
    """Whether the client will send nothing on it."""


class StreamData(NamedTuple):
    """Bytes received on a stream; one frame may arrive in several pieces."""

    stream: int
    data: bytes


class StreamEnd(NamedTuple):
    """The other side sends no more on a stream."""

    stream: int
    reset: bool = False
    """Whether the stream was reset: then it accepts no more data either."""


class ConnectionEnd(NamedTuple):
    """The other side neither opens nor accepts further streams."""


SpdyEvent = StreamOpened | StreamData | StreamEnd | ConnectionEnd


class SpdyConnection:
    """The state of a connection: turns calls into bytes and bytes into events; holds no socket.

    Bytes to send are in `unsent`, from which the caller takes them.

    Args:
        is_server: accepts streams that the other side opens; a client refuses them.
    """

    def __init__(self, *, is_server: bool = False) -> None:
        self.unsent = bytearray()
        self._is_server = is_server
        self._received = bytearray()
        self._data: tuple[int, int, bool] | None = None
        """The data frame that is being received: its stream, the bytes still missing, and whether it ends the
        stream."""
        self._next = 1
        """Id of the client's next stream, on either side."""
        self._packer = HeaderPacker()
        self._unpacker = HeaderUnpacker() if is_server else None

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
        content = struct.pack(">IIH", stream, 0, 0) + self._packer.pack(headers)
        self._control(_Kind.SYN_STREAM, content, _FIN if ended else 0)
        return stream

    def accept(self, stream: int) -> None:
        """Accept a stream that a client has opened."""
        self._control(_Kind.SYN_REPLY, struct.pack(">I", stream) + self._packer.pack({}))

    def send(self, stream: int, data: bytes, *, last: bool = False) -> None:
        """Send bytes on a stream; `last` ends the stream, even without bytes."""
        pieces = [data[at : at + LONGEST_DATA] for at in range(0, len(data), LONGEST_DATA)] or [b""]
        for number, piece in enumerate(pieces, 1):
            flags = _FIN if last and number == len(pieces) else 0
            self.unsent += struct.pack(">II", stream, flags << 24 | len(piece)) + piece

    def reset(self, stream: int) -> None:
        """Reset a stream."""
        self._control(_Kind.RST_STREAM, struct.pack(">II", stream, _CANCEL))

    def receive(self, data: bytes) -> Iterator[SpdyEvent]:
        """Take received bytes, and yield the events in them.

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
        """Yield the received part of a data frame."""
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
            case _Kind.SYN_STREAM if self._is_server:
                yield self._opened(number, content, ended=bool(flags & _FIN))
            case _Kind.SYN_STREAM:
                self.reset(number)
            case _Kind.SYN_REPLY if flags & _FIN:
                yield StreamEnd(number)
            case _Kind.RST_STREAM:
                yield StreamEnd(number, reset=True)
            case _Kind.PING if bool(number % 2) is self._is_server:  # a client's have odd numbers; others are answers
                self._control(_Kind.PING, struct.pack(">I", number))
            case _Kind.GOAWAY:
                yield ConnectionEnd()

    def _opened(self, stream: int, content: bytes, *, ended: bool) -> StreamOpened:
        if self._unpacker is None or not stream % 2 or stream < self._next or len(content) < _BEFORE_HEADERS:
            raise SpdyError("a stream with a number that is not possible")
        self._next = stream + 2
        try:
            headers = self._unpacker.unpack(content[_BEFORE_HEADERS:])
        except HeaderBlockError as error:
            raise SpdyError(str(error)) from None
        return StreamOpened(stream, {name.lower(): value for name, value in headers.items()}, ended)

    def _control(self, kind: _Kind, content: bytes, flags: int = 0) -> None:
        self.unsent += struct.pack(">HHI", _VERSION, kind, flags << 24 | len(content)) + content
