"""The deadline for a peer's pong, extended while a slow link still transmits the ping. Pure."""

from typing import NamedTuple


class Flow(NamedTuple):
    """State of a connection as the kernel reports it (TCP_INFO, TIOCOUTQ); zeros where it reports nothing."""

    acknowledged: int = 0
    """Bytes acknowledged by the peer's kernel."""

    unacknowledged: int = 0
    """Bytes in the send queue that the peer's kernel has not acknowledged."""

    age: float = 0.0
    """Seconds since the last acknowledgement."""


class PingDeadline:
    """The read deadline, extended by the time that the ping needs to reach the peer. Times are monotonic seconds.

    A ping stands behind everything sent before it. Over a link of a few kilobytes a second, one large message takes
    longer than the read deadline allows. A link that declared the peer dead then would send the message again on the
    next connection, without end. Meanwhile the peer's kernel acknowledges more and more bytes. So the deadline moves on
    as long as bytes up to the ping's end are acknowledged. Once the ping itself is acknowledged, the peer's program has
    to answer: later acknowledgements extend nothing.
    """

    def __init__(self) -> None:
        self._ping: int | None = None
        self.pinged_at = 0.0
        """When the ping was sent."""
        self._ping_end: int | None = None
        self._acknowledged = 0
        self.last_progress = 0.0
        """When the kernel took the ping, or last acknowledged bytes up to its end."""

    @property
    def extension(self) -> float:
        """Seconds that the deadline moves."""
        return self.last_progress - self.pinged_at

    def update(self, now: float, ping: int | None, flow: Flow, *, written: bool) -> None:
        """Take the connection's state.

        Args:
            now: the time.
            ping: number of the unanswered ping; None without one.
            flow: state of the connection.
            written: whether the ping, and everything before it, is in the kernel's buffer.
        """
        if ping != self._ping:
            self._ping, self._ping_end, self._acknowledged = ping, None, flow.acknowledged
            self.pinged_at = self.last_progress = now
        if flow.acknowledged > self._acknowledged and (self._ping_end is None or self._acknowledged < self._ping_end):
            self.last_progress = max(self.last_progress, now - flow.age)
        if self._ping_end is None and written:
            self.last_progress = max(self.last_progress, now)
            self._ping_end = flow.acknowledged + flow.unacknowledged
        self._acknowledged = flow.acknowledged
