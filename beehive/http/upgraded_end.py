"""The end that an upgraded connection's protocol has. Pure.

A server that is killed, and a relay that closes a unix socket, end a connection as politely as a command that has said
all, and kubectl takes the end of SPDY without a status for the command's success. So whoever passes such a connection
on reads the heads of its frames, and resets it if the last one is missing.
"""

from typing import Final, Protocol

import msgspec

_MOST_HEAD: Final = 64 * 1024
"""Bytes of an answer's head."""
_MOST_STREAMS: Final = 10_000
"""Streams of SPDY that have begun and not ended, at a time."""
_SWITCHED: Final = b"101"


class _Frame(msgspec.Struct, frozen=True):
    head: int
    """Bytes of its head."""
    content: int
    """Bytes after it."""


class _Frames(Protocol):
    """The frames of a protocol."""

    @property
    def is_last(self) -> bool:
        """Whether none is missing after the latest one."""

    def begin(self, data: memoryview) -> _Frame | None:
        """Return the frame that begins here, or None while its head is not complete. Raise ValueError."""


class _Spdy:
    """A server's frames of SPDY/3.1: the last is GOAWAY, or ends the last stream that has carried something."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._is_gone = self._has_ended = False

    @property
    def is_last(self) -> bool:
        return self._is_gone or (self._has_ended and not self._open)

    def begin(self, data: memoryview) -> _Frame | None:
        if len(data) < 8:
            return None
        flags, size = data[4], int.from_bytes(data[5:8])
        if not data[0] >> 7:
            self._carry(int.from_bytes(data[:4]), ends=bool(flags & 1), size=size)
            return _Frame(8, size)
        if size < 4:
            raise ValueError("a control frame without content")
        if len(data) < 12:
            return None
        kind, number = int.from_bytes(data[2:4]), int.from_bytes(data[8:12]) & 0x7FFFFFFF
        if kind == 3 or (kind == 2 and flags & 1):  # RST_STREAM, SYN_REPLY
            self._carry(number, ends=True)
        self._is_gone |= kind == 7
        return _Frame(12, size - 4)

    def _carry(self, stream: int, *, ends: bool, size: int = 0) -> None:
        if ends:
            self._has_ended = True
            self._open.discard(stream)
        elif size:
            self._open.add(stream)
        if len(self._open) > _MOST_STREAMS:
            raise ValueError("too many streams")


class _WebSocket:
    """The last frame is the one that closes (RFC 6455 §5.5.1)."""

    is_last = False

    def begin(self, data: memoryview) -> _Frame | None:
        if len(data) < 2:
            return None
        size = data[1] & 0x7F
        extended = {126: 2, 127: 8}.get(size, 0)
        head = 2 + extended + (4 if data[1] >> 7 else 0)
        if len(data) < head:
            return None
        self.is_last |= data[0] & 0x0F == 8
        return _Frame(head, int.from_bytes(data[2 : 2 + extended]) if extended else size)


class UpgradedEnd:
    """A reader of a server's bytes, to tell an end from a cut. Other protocols than SPDY and WebSocket, and answers
    without an upgrade, are taken for whole.

    Args:
        protocol: the header `Upgrade`; None: the answer's head comes first.
    """

    def __init__(self, protocol: str | None = None) -> None:
        self._begun = b""
        """The begun head of an answer or a frame."""
        self._left = 0
        """Bytes of the present frame that have not come."""
        self._awaits_answer = protocol is None
        self._is_broken = False
        self._frames = _frames_of(protocol or "")

    @property
    def is_whole(self) -> bool:
        """Whether the connection may end here."""
        if self._awaits_answer or self._is_broken:
            return False
        return self._frames is None or (self._frames.is_last and not self._left and not self._begun)

    def receive(self, data: bytes) -> None:
        """Read the next bytes."""
        if self._awaits_answer and not self._is_broken:
            data = self._answered(data)
        if self._frames is None or self._is_broken or not data:
            return
        if self._left >= len(data):
            self._left -= len(data)
            return
        try:
            self._read(self._frames, memoryview(self._begun + data[self._left :]))
        except ValueError:
            self._is_broken = True

    def _read(self, frames: _Frames, data: memoryview) -> None:
        at = 0
        while at < len(data) and (frame := frames.begin(data[at:])) is not None:
            at += frame.head + frame.content
        self._begun = bytes(data[at:])
        self._left = max(0, at - len(data))

    def _answered(self, data: bytes) -> bytes:
        """Read the head of the answer; return the bytes after it."""
        self._begun += data
        head, end, rest = self._begun.partition(b"\r\n\r\n")
        if not end:
            self._is_broken = len(head) > _MOST_HEAD
            return b""
        self._awaits_answer, self._begun = False, b""
        first, *fields = head.split(b"\r\n")
        if first.split(b" ")[1:2] == [_SWITCHED]:
            named = [
                value for name, _, value in (each.partition(b":") for each in fields) if name.lower() == b"upgrade"
            ]
            self._frames = _frames_of(b"".join(named).decode("latin-1"))
        return rest


def _frames_of(protocol: str) -> _Frames | None:
    match protocol.strip().lower():
        case "spdy/3.1":
            return _Spdy()
        case "websocket":
            return _WebSocket()
    return None
