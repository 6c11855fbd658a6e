"""One stream of a node's tunnel: a log, a command, a port forwarding."""

from collections import deque
from contextlib import AbstractContextManager
from typing import Final, Protocol

from beehive.wakeup import Wakeup
from modules.cloud.cloudstream.queue_memory import QueueMemory
from modules.streams.credit import FIRST_CREDIT, FRAME_COST, ReceiveWindow, SendCredit

_TAKEN_BYTES: Final = 64 * 1024
"""Bytes that a client is given at a time, unless one frame has more."""
_READ_BYTES: Final = 32 * 1024
"""Bytes that a client is read at a time."""
PATIENCE: Final = 1.0
"""A stream that holds up the other streams of its node for so many seconds is removed. They add up, so that a
client that reads slowly does not slow down the others for long.
"""
PATIENCE_PART: Final = 0.1
"""These seconds decrease by this part of the time that passes."""
PATIENCE_ALONE: Final = 5.0
"""Seconds without a byte taken after which a stream that holds up no other is removed."""


class StreamTunnel(Protocol):
    """The tunnel of a stream, as the stream uses it."""

    @property
    def lock(self) -> AbstractContextManager[bool]:
        """Guards all streams of the tunnel."""

    @property
    def memory(self) -> QueueMemory:
        """For the bytes that wait for clients."""

    @property
    def has_credit(self) -> bool:
        """Whether the node grants and takes credit."""

    @property
    def has_room(self) -> bool:
        """Whether the node reads fast enough for further bytes."""

    def __len__(self) -> int:
        """Return the number of its streams."""

    def send(self, number: int, data: bytes) -> None:
        """Send bytes of a stream. Raise OSError when the tunnel is about to end."""

    def grant(self, number: int, size: int) -> None:
        """Let the node send this many more bytes of a stream. Under the lock."""

    def forget(self, number: int, *, tell: bool) -> None:
        """Remove a stream; `tell` the node of it. Under the lock."""

    def handled(self, size: int) -> None:
        """Count a message as handled. Under the lock."""


class TunnelStream:
    """A stream as its client sees it. Thread-safe: the tunnel server's thread puts, the client's thread takes.

    A node that takes credit sends no more than it was granted, so a client that stops holds up nothing and keeps its
    stream. Any other node has no flow control: a full stream holds up its tunnel, and is removed for it.

    Args:
        number: of the stream.
        tunnel: of the node; its lock guards the stream, too.
        now: monotonic seconds.
    """

    def __init__(self, number: int, tunnel: StreamTunnel, now: float) -> None:
        self.number = number
        self._tunnel = tunnel
        self._queue: deque[tuple[bytes, int]] = deque()
        """Data, and the bytes that the tunnel counts as unhandled until it is taken."""
        self._bytes = 0
        """Bytes of the queue, frames included."""
        self._credit = SendCredit() if tunnel.has_credit else None
        self._window = ReceiveWindow() if tunnel.has_credit else None
        self._counted = 0
        """Bytes that the memory of all streams counts for this one."""
        self._wakeup = Wakeup()
        self._is_closed = False
        self._is_ended = False
        self.failure = ""
        """Why the stream has ended before its time; "" while it goes on, and after its proper end."""
        self._taken_at = now
        self._full_since: float | None = None
        self._held_up = 0.0
        """Seconds that it has held up others, at the time `_held_up_at`."""
        self._held_up_at = now
        self._awaits_room = False

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take, an end, or room to send."""
        return self._wakeup.fileno()

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended and all its data is taken."""
        return self._is_ended and not self._queue

    @property
    def room(self) -> int:
        """Bytes that the node takes now; if 0, the descriptor becomes readable when it takes more."""
        if not self._room():
            self._awaits_room = True
        return self._room()  # the node may have read just before

    @property
    def has_overrun(self) -> bool:
        """Whether the node has sent more than it was granted."""
        return self._window is not None and self._window.is_overrun

    def receive(self, now: float) -> bytes:
        """Return received data, b"" when none waits.

        Args:
            now: monotonic seconds.
        """
        with self._tunnel.lock:
            parts: list[bytes] = []
            size = 0
            while self._queue and size < _TAKEN_BYTES:
                data, unhandled = self._queue.popleft()
                parts.append(data)
                size += _size_of(data)
                if unhandled:
                    self._tunnel.handled(unhandled)
            if size:
                self._bytes -= size
                self._taken_at = now
                self._grant()
            if self._full_since is not None and self._bytes <= max(0, self._tunnel.memory.of_stream - _TAKEN_BYTES):
                self._held_up, self._held_up_at = self._held_up_until(now), now
                self._full_since = None
            if not self._queue and not self._is_ended and not self._is_closed:
                self._wakeup.clear()
            return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Send bytes to the node, nothing when the stream has ended; never blocks.

        Raises:
            OSError: the tunnel is about to end.
        """
        self._tunnel.send(self.number, data)

    def close(self) -> None:
        """End the stream, if the node has not: send the node one frame about it, and ignore its later frames."""
        with self._tunnel.lock:
            if self._is_closed:
                return
            self._tunnel.forget(self.number, tell=not self._is_ended)
            self._release()
            self._queue.clear()
            self._bytes = 0
            self._is_closed = self._is_ended = True
            self._count()
            self._wakeup.close()

    def put(self, data: bytes, size: int, now: float) -> None:
        """Queue received data, nothing for a frame without any; for the tunnel, which holds its lock.

        Args:
            data: of the frame.
            size: bytes of the frame; the tunnel counts them as handled when the client takes more.
            now: monotonic seconds.
        """
        if not data:
            self._tunnel.handled(size)
            return
        is_full = self._window is None and self._bytes >= self._tunnel.memory.of_stream
        if is_full and self._full_since is None:
            self._full_since = now
        if not self._queue:
            self._taken_at = now
        self._queue.append((data, size if is_full else 0))
        self._bytes += _size_of(data)
        if self._window is not None:
            self._window.received(len(data))
        self._count()
        if not is_full:
            self._tunnel.handled(size)
        self._wakeup.wake()

    def end(self, failure: str = "") -> None:
        """End the stream from the node's side; for the tunnel, which holds its lock.

        Args:
            failure: why, if it is not the proper end.
        """
        if self._is_ended:
            return
        self._is_ended, self.failure = True, failure
        self._count()
        self._release()
        self._wakeup.wake()

    def is_stalled(self, now: float, *, alone: bool) -> bool:
        """Return whether the client takes too little; for the tunnel, which holds its lock."""
        if self._full_since is None:
            return False
        return now - self._taken_at > PATIENCE_ALONE if alone else self._held_up_until(now) > PATIENCE

    def granted(self, size: int) -> None:
        """Let the client send this many more bytes; for the tunnel, which holds its lock."""
        if self._credit is not None:
            self._credit.add(size)
        self.drained()

    def sent(self, size: int) -> None:
        """Count a frame for the node with this many bytes of data; for the tunnel, which holds its lock."""
        if self._credit is not None:
            self._credit.spend(size)

    def drained(self) -> None:
        """Let a client that waits for room go on; for the tunnel, which holds its lock."""
        if self._awaits_room:
            self._awaits_room = False
            self._wakeup.wake()

    def _room(self) -> int:
        if not self._tunnel.has_room:
            return 0
        return _READ_BYTES if self._credit is None else min(_READ_BYTES, self._credit.room)

    def _grant(self) -> None:
        """Let the node send as much as the client has taken. Under the tunnel's lock."""
        if self._window is not None and not self._is_ended:
            size = self._window.grant(self._bytes, self._tunnel.memory.of_stream)
            if size:
                self._tunnel.grant(self.number, size)
        self._count()

    def _count(self) -> None:
        """Count the bytes that wait or are granted; the first credit, which each stream has, is not counted."""
        of_credit = 0 if self._window is None or self._is_ended else self._window.outstanding - FIRST_CREDIT
        counted = max(0, self._bytes + of_credit)
        self._tunnel.memory.add(counted - self._counted)
        self._counted = counted

    def _held_up_until(self, now: float) -> float:
        """Return the seconds that it has held up others; time as the only stream does not count."""
        before = max(0.0, self._held_up - PATIENCE_PART * (now - self._held_up_at))
        if self._full_since is None or len(self._tunnel) == 1:
            return before
        return before + now - max(self._full_since, self._held_up_at)

    def _release(self) -> None:
        """Let the tunnel go on: nothing more of this stream comes."""
        for size in [size for _, size in self._queue if size]:
            self._tunnel.handled(size)
        self._queue = deque((data, 0) for data, _ in self._queue)
        self._full_since = None


def _size_of(data: bytes) -> int:
    return len(data) + FRAME_COST
