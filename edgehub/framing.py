"""Websocket frames (RFC 6455 §5) as a client reads and writes them. Pure: bytes in, events out.

The `websockets` package would cost an edgecore 1.0 MB of memory, but it closes the connection (code 1009) on a message
over the limit. KubeEdge's cloud sends an unacknowledged object again and again, so one large ConfigMap would keep the
node reconnecting for ever. `FrameReader` discards such a message while it arrives and keeps the link. The package also
limits a message to 4096 fragments (16 MiB with gorilla's buffer of 4096 bytes), and its threading client runs up to
three threads a link without a deadline for writing. The tests compare this file with the package.
"""

import os
import struct
from collections.abc import Iterator
from enum import IntEnum

import msgspec

from edgehub.deflate import inflate
from edgehub.errors import ProtocolError

HEAD_BYTES = 2048
"""Bytes kept of a discarded message: enough for its header and its route."""

_FINAL, _COMPRESSED, _RESERVED, _OPCODE, _MASKED, _LENGTH = 0x80, 0x40, 0x70, 0x0F, 0x80, 0x7F
_LONGEST_CONTROL = 125
_EMPTY_FRAGMENTS = 1024
"""Limit for one message. A flush makes one empty fragment; an endless series of them would pass for a live link."""
_SIXTEEN_BITS, _SIXTY_FOUR_BITS = 126, 127


class Opcode(IntEnum):
    """Opcode of a frame (RFC 6455 §5.2)."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


_OPCODES = {int(opcode): opcode for opcode in Opcode}
_WHOLE = (Opcode.TEXT, Opcode.BINARY)


class Received(msgspec.Struct, frozen=True):
    """A complete message, or a control frame."""

    opcode: Opcode
    payload: bytes


class Skipped(msgspec.Struct, frozen=True):
    """A message over the limit: its first bytes and its size in bytes."""

    head: bytes
    size: int


class _Header(msgspec.Struct, frozen=True):
    opcode: Opcode
    final: bool
    length: int
    size: int
    """Bytes of the header itself."""
    compressed: bool


class FrameReader:
    """A reader of messages from a server's byte stream.

    Args:
        limit: largest message in bytes; larger ones become `Skipped`.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.inflates = False
        """Whether compression was agreed on."""
        self._compressed = False
        self._buffer = bytearray()
        self._frame: _Header | None = None
        self._missing = 0
        self._control = bytearray()
        self._kind: Opcode | None = None
        self._message = bytearray()
        self._size = 0
        self._empty = 0

    def feed(self, data: bytes | memoryview) -> Iterator[Received | Skipped]:
        """Yield the messages and control frames that these bytes complete. Exhaust the iterator before the next call.

        Raises:
            ProtocolError: the bytes violate RFC 6455; the reader is unusable afterwards.
        """
        self._buffer += data
        position = 0
        while True:
            if self._frame is None:
                header = _header(self._buffer, position)
                if header is None:
                    break
                position += header.size
                end = position + header.length
                if header.opcode in _WHOLE and self._is_whole(header, end):
                    yield Received(header.opcode, bytes(self._buffer[position:end]))
                    position = end
                    continue
                self._begin(header)
            position += self._consume(position)
            if self._missing:
                break
            event = self._end()
            if event is not None:
                yield event
        del self._buffer[:position]

    def _is_whole(self, header: _Header, end: int) -> bool:
        """Return whether a frame is a message of its own and there to its end, as nearly all are."""
        plain = header.final and not header.compressed and self._kind is None
        return plain and end <= len(self._buffer) and header.length <= self._limit

    def _begin(self, header: _Header) -> None:
        if header.opcode < Opcode.CLOSE:
            if (header.opcode is Opcode.CONTINUATION) is (self._kind is None):
                raise ProtocolError("a fragment out of sequence")
            if header.compressed and (self._kind is not None or not self.inflates):
                raise ProtocolError("a message is compressed in a way that was not agreed on")
            self._compressed = self._compressed or header.compressed
            self._kind = self._kind or header.opcode
            self._size += header.length
            self._empty += not header.length
            if self._empty > _EMPTY_FRAGMENTS:
                raise ProtocolError(f"a message with more than {_EMPTY_FRAGMENTS} empty fragments")
            if self._size > self._limit:
                del self._message[HEAD_BYTES:]
        self._frame, self._missing = header, header.length

    def _consume(self, position: int) -> int:
        """Consume the available part of the frame's payload and return its length."""
        available = min(self._missing, len(self._buffer) - position)
        if self._frame is not None and self._frame.opcode >= Opcode.CLOSE:
            self._control += self._buffer[position : position + available]
        else:
            wanted = available if self._size <= self._limit else max(0, HEAD_BYTES - len(self._message))
            self._message += self._buffer[position : position + min(available, wanted)]
        self._missing -= available
        return available

    def _end(self) -> Received | Skipped | None:
        header, self._frame = self._frame, None
        if header is None:
            return None
        if header.opcode >= Opcode.CLOSE:
            control, self._control = self._control, bytearray()
            return Received(header.opcode, bytes(control))
        return self._message_end() if header.final else None

    def _message_end(self) -> Received | Skipped:
        kind, payload, size = self._kind or Opcode.TEXT, bytes(self._message), self._size
        compressed, self._compressed = self._compressed, False
        self._kind, self._message, self._size, self._empty = None, bytearray(), 0, 0
        if compressed:
            return self._inflated(kind, payload, size)
        return Received(kind, payload) if size <= self._limit else Skipped(payload, size)

    def _inflated(self, kind: Opcode, payload: bytes, size: int) -> Received | Skipped:
        """Decompress a message. The limit holds for its compressed and for its decompressed size."""
        if size > self._limit:
            return Skipped(inflate(payload, HEAD_BYTES) or b"", size)
        whole = inflate(payload, self._limit + 1)
        if whole is None:
            raise ProtocolError("a message that cannot be decompressed")
        return Received(kind, whole) if len(whole) <= self._limit else Skipped(whole[:HEAD_BYTES], len(whole))


def frame(opcode: Opcode, payload: bytes, *, compressed: bool = False) -> bytes:
    """Return one unfragmented client frame; `compressed` marks a deflated payload.

    The mask comes from the system's randomness, not from the clock's: it must be unpredictable, so that an attacker
    cannot choose the bytes on the wire (RFC 6455 §10.3).
    """
    size = len(payload)
    first = _FINAL | opcode | (_COMPRESSED if compressed else 0)
    if size < _SIXTEEN_BITS:
        head = struct.pack("!BB", first, _MASKED | size)
    elif size < 0x10000:
        head = struct.pack("!BBH", first, _MASKED | _SIXTEEN_BITS, size)
    else:
        head = struct.pack("!BBQ", first, _MASKED | _SIXTY_FOUR_BITS, size)
    key = os.urandom(4)
    return b"".join((head, key, _masked(payload, key)))


def close_payload(code: int, reason: str = "") -> bytes:
    """Return the payload of a close frame; a long reason is truncated."""
    return struct.pack("!H", code) + reason.encode()[: _LONGEST_CONTROL - 2]


def close_reason(payload: bytes) -> tuple[int, str]:
    """Return code and text of a close frame's payload; code 1005 for an empty one."""
    if len(payload) < 2:
        return 1005, ""
    code: int = struct.unpack_from("!H", payload)[0]
    return code, payload[2:].decode("utf-8", "replace")


def _header(buffer: bytearray, start: int) -> _Header | None:
    available = len(buffer) - start
    if available < 2:
        return None
    first, second = buffer[start], buffer[start + 1]
    opcode = _opcode(first, second)
    length, size = second & _LENGTH, 2
    if length == _SIXTEEN_BITS:
        size = 4
    elif length == _SIXTY_FOUR_BITS:
        size = 10
    if available < size:
        return None
    if size > 2:
        length = int.from_bytes(buffer[start + 2 : start + size], "big")
    if length >= 2**63:
        raise ProtocolError("a frame whose length has more than 63 bits")
    return _Header(opcode, bool(first & _FINAL), length, size, bool(first & _COMPRESSED))


def _opcode(first: int, second: int) -> Opcode:
    """Return the opcode of a frame; raise ProtocolError unless a server may send its first two bytes."""
    opcode = _OPCODES.get(first & _OPCODE)
    if opcode is None:
        raise ProtocolError(f"unknown opcode {first & _OPCODE:#x}")
    if first & _RESERVED and (first & _RESERVED != _COMPRESSED or opcode >= Opcode.CLOSE):
        raise ProtocolError("reserved bits are set; no extension was agreed on")
    if second & _MASKED:
        raise ProtocolError("a server must not mask its frames")
    if opcode >= Opcode.CLOSE and (not first & _FINAL or second & _LENGTH > _LONGEST_CONTROL):
        raise ProtocolError("a control frame that is fragmented or too long")
    return opcode


def _masked(payload: bytes, key: bytes) -> bytes:
    """Return the payload XORed with the key, as one operation on large integers (0.6 ms a MiB)."""
    size = len(payload)
    pattern = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload, "little") ^ int.from_bytes(pattern, "little")).to_bytes(size, "little")
