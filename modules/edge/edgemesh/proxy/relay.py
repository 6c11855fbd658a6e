"""One TCP connection through the proxy: bytes go from socket to socket inside the kernel (splice(2))."""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from modules.edge.edgemesh.tables import Address

CONNECT_SECONDS: Final = 2.0
"""Time for one endpoint; then the next one is tried."""
MOST_TRIES: Final = 3
DESCRIPTORS: Final = 6
"""Of a connection: two sockets, and two pipes."""
A_TURN: Final = 16
"""Chunks that one direction moves before other connections have their turn."""
_CHUNK: Final = 64 * 1024
_KEEP_ALIVE: Final = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))
"""A side that has lost its power sends nothing, and would keep its place for ever."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""`struct linger`: unsent bytes are discarded."""


def reset(channel: socket.socket) -> None:
    """Close a connection by a reset, so that its client takes it as refused, and not as one without an answer."""
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    channel.close()


def _prepare(channel: socket.socket) -> None:
    """Have a socket send small pieces at once, as each side means them, and notice that its other side is gone."""
    channel.settimeout(0)
    channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE:
        channel.setsockopt(socket.IPPROTO_TCP, option, value)


class WatchedSockets(Protocol):
    """The sockets of all connections, with the one poll that watches them."""

    def watch_relay(self, relay: Relay, channel: socket.socket) -> None:
        """Watch a socket of a connection for edges. Raises OSError."""

    def forget_socket(self, channel: socket.socket) -> None:
        """Stop watching a socket before it is closed."""


class Relay:
    """A client's connection, and the one to an endpoint. The proxy's thread calls everything here.

    Args:
        client: the accepted connection.
        endpoints: in the order of the attempts.
        watched: watches each try's socket for edges.
        connected: called with the endpoint that has answered.
    """

    def __init__(
        self,
        client: socket.socket,
        endpoints: Sequence[Address],
        watched: WatchedSockets,
        connected: Callable[[Address], None],
    ) -> None:
        self._client = client
        self._endpoints = deque(endpoints[:MOST_TRIES])
        self._watched = watched
        self._connected = connected
        self._server: socket.socket | None = None
        self._directions: tuple[_Direction, ...] = ()
        self.deadline = 0.0
        """Until when the present endpoint has to answer."""
        self.is_open = True

    @property
    def is_connected(self) -> bool:
        """Whether an endpoint has answered."""
        return bool(self._directions)

    def begin(self, now: float) -> None:
        """Connect to the first endpoint; `now` is in monotonic seconds."""
        try:
            _prepare(self._client)
            self._watched.watch_relay(self, self._client)
            self._try_next(now)
        except OSError:
            self.break_off()

    def event(self, now: float) -> bool:
        """Go on after an event of one of its sockets; return whether there is more to do now."""
        if not self.is_open:
            return False
        try:
            if not self._directions:
                self._finish_connecting(now)
            return self._pump() if self._directions else False
        except OSError:
            self.break_off()
            return False

    def expire(self, now: float) -> None:
        """Try the next endpoint if the present one does not answer."""
        if self.is_open and not self._directions and now >= self.deadline:
            try:
                self._try_next(now)
            except OSError:
                self.break_off()

    def close(self) -> None:
        """End both connections."""
        self.is_open = False
        for channel in (self._client, self._server):
            if channel is not None:
                self._watched.forget_socket(channel)
                channel.close()
        for each in self._directions:
            each.close()
        self._directions = ()

    def break_off(self) -> None:
        """End both connections by a reset: a side must not take what it has got for all there was."""
        for channel in (self._client, self._server):
            if channel is not None:
                with suppress(OSError):
                    channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
        self.close()

    def _try_next(self, now: float) -> None:
        while True:
            if self._server is not None:
                self._watched.forget_socket(self._server)
                self._server.close()
                self._server = None
            if not self._endpoints:
                self.break_off()
                return
            address = self._endpoints.popleft()
            family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
            self._server = server = socket.socket(family, socket.SOCK_STREAM)
            _prepare(server)
            if server.connect_ex(address) in (0, errno.EINPROGRESS):
                self.deadline = now + CONNECT_SECONDS
                self._watched.watch_relay(self, server)
                return

    def _finish_connecting(self, now: float) -> None:
        server = self._server
        if server is None:
            return
        if server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._try_next(now)
            return
        try:
            address = server.getpeername()
        except OSError:  # not connected yet
            return
        if server.getsockname() == address:  # nothing listens at this port of this machine, but the socket itself
            self._try_next(now)
            return
        self._directions = (_Direction(self._client, server),)
        self._directions += (_Direction(server, self._client),)
        self._connected((address[0], address[1]))

    def _pump(self) -> bool:
        has_more = [each.move() for each in self._directions]
        if all(each.is_over for each in self._directions):
            self.close()
            return False
        return any(has_more)


class _Direction:
    """The bytes from one socket to the other; its end is passed on, so that each side may end by itself."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self._source, self._target = source, target
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._inside = 0
        """Bytes in the pipe."""
        self._has_ended = False
        self.is_over = False

    def move(self) -> bool:
        """Move what can be moved; return whether there may be more. Raises OSError."""
        for _ in range(A_TURN):
            moved = self._fill() + self._drain()
            if self._has_ended and not self._inside and not self.is_over:
                self.is_over = True
                self._target.shutdown(socket.SHUT_WR)
            if not moved:
                return False
        return True

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._read)
        os.close(self._write)

    def _fill(self) -> int:
        if self._has_ended or self._inside >= _CHUNK:
            return 0
        try:
            size = os.splice(self._source.fileno(), self._write, _CHUNK, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return 0
        self._has_ended = not size
        self._inside += size
        return size

    def _drain(self) -> int:
        if not self._inside:
            return 0
        try:
            size = os.splice(self._read, self._target.fileno(), self._inside, flags=os.SPLICE_F_NONBLOCK)
        except BlockingIOError:
            return 0
        self._inside -= size
        return size
