"""The sending side of a websocket link: the bytes of frames, and when a ping asks which of them have arrived. Pure."""

import struct
from collections import deque

from edgehub.deflate import Deflater
from edgehub.framing import Opcode, close_payload, frame

CHUNK = 64 * 1024
"""Bytes that `next_bytes` returns at most; a larger frame goes alone."""

PING_PAUSE = 0.1
"""Seconds between two pings for confirmations, while less than the next two are unconfirmed. A ping after each message
would triple the work of confirmations while many pods start."""
PING_MESSAGES = 32
"""Unconfirmed messages that are asked about at a time; an eighth of the window (`edgehub.outgoing`)."""
PING_BYTES = 16 * 1024
"""Unconfirmed bytes that are asked about at a time; as many as there may be of events."""

_SEQUENCE = struct.Struct("!Q")


class FrameWriter:
    """A queue of frames in the order of sending, which confirms them by pings.

    A successful write only means that the kernel has the bytes. So a ping follows unconfirmed frames: a peer reads in
    order, and its pong proves that it has read everything before the ping. This costs one small frame each way in every
    round trip with data, and relies only on the pong that every websocket sends (gorilla's while its reader reads).

    The first message after a pause gets its ping immediately. While a few small messages come one after another, as
    when pods start, there is a ping each `PING_PAUSE` only: each costs both sides more than a message. Times are
    monotonic seconds.
    """

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._pong: bytes | None = None
        self._sent = 0
        self._confirmed = 0
        self.open_ping: int | None = None
        """The unanswered ping, by the number of messages sent before it; None without one."""
        self._pinged_at = float("-inf")
        self._unconfirmed_bytes = 0
        """Bytes since the last ping."""
        self.deflater: Deflater | None = None
        """Compresses messages; None without compression."""

    def put(self, payload: bytes) -> None:
        """Append a message; any thread, unlike the other methods."""
        self._frames.append(payload)

    def answer_ping(self, payload: bytes) -> None:
        """Queue a pong before all frames. Only the newest ping is answered, which RFC 6455 §5.5.3 allows."""
        self._pong = payload

    def confirm(self, payload: bytes) -> int:
        """Take a pong; return how many more messages it confirms."""
        if self.open_ping is None or payload != _SEQUENCE.pack(self.open_ping):
            return 0
        arrived = self.open_ping - self._confirmed
        self._confirmed, self.open_ping = self.open_ping, None
        return arrived

    @property
    def ping_due(self) -> float | None:
        """When the next ping for unconfirmed messages leaves; None without them, and while a ping is unanswered."""
        if self.open_ping is not None or self._sent == self._confirmed:
            return None
        if self._sent - self._confirmed >= PING_MESSAGES or self._unconfirmed_bytes >= PING_BYTES:
            return float("-inf")
        return self._pinged_at + PING_PAUSE

    def ping(self, now: float) -> bytes:
        """Return a ping whose pong confirms all messages sent so far."""
        self.open_ping, self._pinged_at, self._unconfirmed_bytes = self._sent, now, 0
        return frame(Opcode.PING, _SEQUENCE.pack(self._sent))

    def next_bytes(self, now: float) -> bytes:
        """Return the next bytes to write; empty when nothing waits or is due."""
        parts: list[bytes] = []
        if self._pong is not None:
            parts.append(frame(Opcode.PONG, self._pong))
            self._pong = None
        size = 0
        while self._frames and (not size or size + len(self._frames[0]) <= CHUNK):
            payload = self._frames.popleft()
            size += len(payload)
            if self.deflater is None:
                parts.append(frame(Opcode.TEXT, payload))
            else:
                parts.append(frame(Opcode.TEXT, self.deflater.deflate(payload), compressed=True))
            self._sent += 1
        self._unconfirmed_bytes += size
        due = self.ping_due
        if due is not None and now >= due:
            parts.append(self.ping(now))
        return b"".join(parts)

    @staticmethod
    def close(code: int, reason: str = "") -> bytes:
        """Return a close frame."""
        return frame(Opcode.CLOSE, close_payload(code, reason))
