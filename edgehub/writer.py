"""What leaves on one websocket, and how much of it is known to have arrived. Pure: it makes bytes, others send them.

A write that succeeds only says that the kernel has the bytes. So while something is unconfirmed, one ping is on its
way behind it; a peer reads in order, so the pong says that it has read everything sent before that ping. This costs one
small frame each way for every round trip in which something was sent, and needs nothing of the peer but the pong that
every websocket gives (gorilla's answers while its reader reads).
"""

import struct
from collections import deque

from edgehub.deflate import Deflater
from edgehub.framing import Opcode, close_payload, frame

CHUNK = 64 * 1024
"""Bytes that are made ready at once; a larger frame goes alone."""

_SEQUENCE = struct.Struct("!Q")


class FrameWriter:
    """Frames in the order of sending, with pings between and answers to the peer's pings before them."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._pong: bytes | None = None
        self._sent = 0
        self._confirmed = 0
        self._pinged: int | None = None
        self.deflater: Deflater | None = None
        """Compresses messages; None while that is not agreed on."""

    def put(self, payload: bytes) -> None:
        """Append a message; the one method that any thread may call."""
        self._frames.append(payload)

    def answer_ping(self, payload: bytes) -> None:
        """Let a pong leave next; only the newest ping is answered, which RFC 6455 §5.5.3 allows."""
        self._pong = payload

    def confirm(self, payload: bytes) -> int:
        """Take a pong; returns how many messages more are now known to have arrived."""
        if self._pinged is None or payload != _SEQUENCE.pack(self._pinged):
            return 0
        arrived = self._pinged - self._confirmed
        self._confirmed, self._pinged = self._pinged, None
        return arrived

    @property
    def ping_on_its_way(self) -> int | None:
        """The ping whose pong is awaited: how many messages were sent before it. None when none is."""
        return self._pinged

    def ping(self) -> bytes:
        """A ping that asks how far the peer has read."""
        self._pinged = self._sent
        return frame(Opcode.PING, _SEQUENCE.pack(self._sent))

    def next_bytes(self) -> bytes:
        """What is to be written next; empty when there is nothing."""
        parts: list[bytes] = []
        if self._pong is not None:
            parts.append(frame(Opcode.PONG, self._pong))
            self._pong = None
        size = 0
        while self._frames and (not size or size + len(self._frames[0]) <= CHUNK):
            payload = self._frames.popleft()
            size += len(payload)
            parts.append(self._framed(payload))
            self._sent += 1
        if self._pinged is None and self._sent > self._confirmed:
            parts.append(self.ping())
        return b"".join(parts)

    def _framed(self, payload: bytes) -> bytes:
        if self.deflater is None:
            return frame(Opcode.TEXT, payload)
        return frame(Opcode.TEXT, self.deflater.deflate(payload), compressed=True)

    @staticmethod
    def close(code: int, reason: str = "") -> bytes:
        """A close frame."""
        return frame(Opcode.CLOSE, close_payload(code, reason))
