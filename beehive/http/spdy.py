"""The part of SPDY/3.1 that the streams of containers need, for clients and servers. Pure.

Kubernetes carries exec, attach and port-forward in SPDY streams. Each stream can be ended in one direction, which is
how a command learns the end of its input from runtimes whose WebSocket cannot do that (containerd before 2.0). This
module implements only streams that the client opens, data, ends, resets and pings. Header blocks of a server have no
meaning for a client and are not decompressed. There is no flow control: Kubernetes' servers do without.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

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

MOST_BYTES: Final = 64 * 1024
"""Most bytes of a header block when it is unpacked."""
_MOST_HEADERS: Final = 64
_WORDS: Final = (
    "options", "head", "post", "put", "delete", "trace", "accept", "accept-charset", "accept-encoding",
    "accept-language", "accept-ranges", "age", "allow", "authorization", "cache-control", "connection", "content-base",
    "content-encoding", "content-language", "content-length", "content-location", "content-md5", "content-range",
    "content-type", "date", "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since",
    "if-none-match", "if-range", "if-unmodified-since", "last-modified", "location", "max-forwards", "pragma",
    "proxy-authenticate", "proxy-authorization", "range", "referer", "retry-after", "server", "te", "trailer",
    "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning", "www-authenticate", "method", "get",
    "status", "200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin",
)  # fmt: skip
_REST: Final = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


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

    The caller takes bytes to send from `unsent`.

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


class HeaderBlockError(Exception):
    """A header block cannot be read."""


def counted(text: str) -> bytes:
    """Return a text, preceded by its length."""
    data = text.encode()
    return struct.pack(">I", len(data)) + data


DICTIONARY: Final = b"".join(map(counted, _WORDS)) + _REST.encode()
"""The initial dictionary of decompression (SPDY/3 specification §2.6.10.1)."""


class HeaderPacker:
    """A writer of header blocks without dictionary. zlib's own header names this, and every zlib decoder reads them."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj()

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """Return the block of these headers, whose names are in lower case."""
        block = struct.pack(">I", len(headers))
        block += b"".join(counted(name) + counted(value) for name, value in headers.items())
        return self._compressor.compress(block) + self._compressor.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """A reader of header blocks, in the order of their frames."""

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(zdict=DICTIONARY)

    def unpack(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block.

        Raises:
            HeaderBlockError: it is damaged, or unpacks to more than `MOST_BYTES`; no later block can be read.
        """
        try:
            text = self._decompressor.decompress(block, MOST_BYTES + 1)
        except zlib.error as error:
            raise HeaderBlockError(str(error)) from None
        if len(text) > MOST_BYTES or self._decompressor.unconsumed_tail or self._decompressor.eof:
            raise HeaderBlockError(f"a header block of more than {MOST_BYTES} bytes, or the end of all")
        return _headers(text)


def _headers(text: bytes) -> dict[str, str]:
    count, place = _number(text, 0)
    if count > _MOST_HEADERS:
        raise HeaderBlockError(f"{count} headers")
    found: dict[str, str] = {}
    for _ in range(count):
        name, place = _text(text, place)
        found[name], place = _text(text, place)
    if place != len(text):
        raise HeaderBlockError("a header block with something behind its headers")
    return found


def _number(text: bytes, place: int) -> tuple[int, int]:
    if len(text) < place + 4:
        raise HeaderBlockError("a header block that ends early")
    return int.from_bytes(text[place : place + 4]), place + 4


def _text(text: bytes, place: int) -> tuple[str, int]:
    length, begin = _number(text, place)
    if len(text) < begin + length:
        raise HeaderBlockError("a header block that ends early")
    return text[begin : begin + length].decode("utf-8", "replace"), begin + length
