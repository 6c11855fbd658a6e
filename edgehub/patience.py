"""What excuses a peer's silence: that our own question has not reached it yet. Pure.

A pong answers a ping that stands behind everything that was sent before it. Over a link of a few kilobytes a second one
larger message takes longer than any silence that is allowed; to take the peer for dead then, and to send the message
again over the next link, would never come to an end. But all the while its kernel acknowledges more, and ours says so.
So the time until the ping has been taken is no silence, as long as something is taken. Once it has been taken the
peer's program has the word: a kernel that goes on taking what comes later excuses nothing.
"""

from typing import NamedTuple


class Flow(NamedTuple):
    """What the kernel says of a connection; zeros where it says nothing."""

    taken: int = 0
    """Bytes that the peer's kernel has acknowledged."""

    queued: int = 0
    """Bytes that it has yet to."""

    age: float = 0.0
    """Seconds since the last acknowledgement."""


class Patience:
    """See the module's docstring. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._ping: int | None = None
        self._asked = 0.0
        self._ends: int | None = None
        self._taken = 0
        self.moved = 0.0
        """When something was taken last of what the ping waits for, or when it was sent."""

    @property
    def excused(self) -> float:
        """Seconds of the peer's silence that do not count."""
        return self.moved - self._asked

    def look(self, now: float, ping: int | None, flow: Flow, *, written: bool) -> None:
        """Take how far it is.

        Args:
            now: the time.
            ping: the ping that is on its way, by a number; None for none.
            flow: of the connection.
            written: whether the kernel has got the ping from us, and what was before it.
        """
        if ping != self._ping:
            self._ping, self._ends, self._taken = ping, None, flow.taken
            self._asked = self.moved = now
        if flow.taken > self._taken and (self._ends is None or self._taken < self._ends):
            self.moved = max(self.moved, now - flow.age)
        if self._ends is None and written:
            self._ends = flow.taken + flow.queued
        self._taken = flow.taken
