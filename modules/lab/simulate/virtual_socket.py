"""A socket pair of the machine between two simulated threads, which wait for it in virtual time."""

import select
import socket
from typing import Final

from modules.lab.simulate.tunnel_wire import SimulatedPoll
from modules.lab.simulate.world import Process

_BYTES: Final = 64 * 1024


class VirtualSocket:
    """The part of a connected socket that clients and servers of HTTP need.

    Args:
        process: whose threads use it.
        connection: of the machine; it never blocks.
    """

    def __init__(self, process: Process, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        self._process = process
        self._connection = connection
        self._seconds: float | None = None
        self.fileno = connection.fileno
        self.close = connection.close

    def settimeout(self, seconds: float | None) -> None:
        """Let later calls raise TimeoutError after so many virtual seconds, and BlockingIOError with 0."""
        self._seconds = seconds

    def recv(self, size: int = _BYTES, /) -> bytes:
        """Return the next bytes, b"" at the end."""
        self._wait(select.POLLIN)
        return self._connection.recv(size)

    def sendall(self, data: bytes, /) -> None:
        """Send all bytes."""
        while data:
            self._wait(select.POLLOUT)
            data = data[self._connection.send(data) :]

    def _wait(self, event: int) -> None:
        if self._seconds == 0:
            return
        poll = SimulatedPoll(self._process)
        poll.register(self._connection, event)
        if not poll.poll(None if self._seconds is None else self._seconds * 1000):
            raise TimeoutError


class VirtualPeer:
    """The client of a stream (`Peer`).

    Args:
        process: that serves it.
        leaves_at: when it goes, in virtual seconds.
        connection: whose other end goes.
    """

    def __init__(self, process: Process, leaves_at: float, connection: VirtualSocket | None = None) -> None:
        self._process = process
        self._leaves_at = leaves_at
        self._connection = connection

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Wait for the client's end, or a descriptor."""
        poll = SimulatedPoll(self._process)
        own = -1 if self._connection is None else self._connection.fileno()
        for descriptor in (own, wake):
            if descriptor is not None and descriptor >= 0:
                poll.register(descriptor, select.POLLIN)
        now = self._process.clock.monotonic
        ready = dict(poll.poll(max(0.0, min(seconds, self._leaves_at - now())) * 1000))
        return own in ready or now() >= self._leaves_at
