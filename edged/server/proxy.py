"""Relays a connection to the container runtime's streaming server: bytes in both directions.

The relay knows neither SPDY nor WebSocket, so that client and runtime may use new versions. One thread serves both
directions and buffers at most one read of each: it does not read for a side that does not receive. Each side may end
its own direction. Both connections are closed when both directions have ended, when one has ended and the other is
silent for `LINGER`, or when both are silent for the idle time (`streamingConnectionIdleTimeout`).
"""

import contextlib
import logging
import select
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from beehive import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request

_log = logging.getLogger(__name__)

LINGER: Final = 30.0
"""Seconds that one direction may be silent after the other has ended."""

CONNECT_SECONDS: Final = 5.0
_READ_BYTES: Final = 64 * 1024
_PASSED_ON: Final = ("connection", "upgrade", "x-stream-protocol-version", "user-agent", "content-length")
"""Headers that are forwarded, beside WebSocket's; not the client's credentials."""


def connect(url: str) -> socket.socket:
    """Return a connection to a streaming server.

    Raises:
        HttpStatusError: 502; the server cannot be reached, or its URL is not plain HTTP.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        raise HttpStatusError(502, "the runtime's streaming address cannot be read") from None
    if parts.scheme != "http" or not host:
        hint = "redirectContainerStreaming lets clients go there themselves"
        raise HttpStatusError(502, "the runtime's streaming server is not plain HTTP", parts.scheme, hint)
    try:
        return socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        raise HttpStatusError(
            502, "the runtime's streaming server does not answer", f"{host}:{port}", str(error)
        ) from error


def forwarded_head(request: Request, url: str) -> bytes:
    """Return the request for the streaming server, with the bytes that the client sent after its own."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    passed = [each for each in request.headers if each[0] in _PASSED_ON or each[0].startswith("sec-websocket-")]
    lines += [f"{name}: {value}" for name, value in passed]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.rest


class _Direction:
    """One direction of the relay: source, target, and the bytes read but not yet written."""

    def __init__(self, source: socket.socket, target: socket.socket, first: bytes = b"") -> None:
        self.source, self.target = source, target
        self._held = memoryview(first)
        self._ended = self.over = False

    @property
    def reads(self) -> bool:
        """Whether it waits to read."""
        return not self._held and not self._ended

    @property
    def writes(self) -> bool:
        """Whether it waits to write."""
        return bool(self._held)

    def read(self) -> None:
        """Read once from the source."""
        with contextlib.suppress(BlockingIOError):
            data = self.source.recv(_READ_BYTES)
            self._held, self._ended = memoryview(data), not data

    def write(self) -> None:
        """Write as much as the target accepts; end the target's direction after the last byte."""
        if self._held:
            with contextlib.suppress(BlockingIOError):
                self._held = self._held[self.target.send(self._held) :]
        if self._ended and not self._held and not self.over:
            self.over = True
            with contextlib.suppress(OSError):
                self.target.shutdown(socket.SHUT_WR)


def relay(client: socket.socket, server: socket.socket, first: bytes, clock: Clock, idle: float) -> None:
    """Relay bytes until both directions end or are silent; the caller closes the sockets.

    Args:
        client: connection from the client.
        server: connection to the runtime.
        first: bytes that the server receives before the client's.
        clock: for the idle time.
        idle: seconds of silence after which the connection is given up.
    """
    client.settimeout(0)
    server.settimeout(0)
    directions = (_Direction(client, server, first), _Direction(server, client))
    last = clock.monotonic()
    while not all(each.over for each in directions):
        longest = LINGER if any(each.over for each in directions) else idle
        left = last + longest - clock.monotonic()
        if left <= 0 or not _serve(directions, left):
            _log.debug("a stream to the runtime was given up: nothing was said for %g s", longest)
            return
        last = clock.monotonic()


def _serve(directions: tuple[_Direction, ...], seconds: float) -> bool:
    """Wait for a readable or writable socket and move bytes; return False after a timeout. Raise OSError."""
    events_of: dict[int, int] = {}
    actions: list[tuple[int, int, Callable[[], None]]] = []
    for each in directions:
        for waits, one, event, action in (
            (each.reads, each.source, select.POLLIN, each.read),
            (each.writes, each.target, select.POLLOUT, each.write),
        ):
            if waits:
                events_of[one.fileno()] = events_of.get(one.fileno(), 0) | event
                actions.append((one.fileno(), event | select.POLLHUP | select.POLLERR, action))
    poll = select.poll()
    for descriptor, events in events_of.items():
        poll.register(descriptor, events)
    ready = dict(poll.poll(seconds * 1000))
    for descriptor, events, action in actions:
        if ready.get(descriptor, 0) & events:
            action()
    for each in directions:
        each.write()
    return bool(ready)
