"""Passes a connection on to the container runtime's streaming server: bytes both ways, whatever they mean.

What is spoken inside (SPDY or WebSocket) is between client and runtime, so that each may learn new versions without us.
One thread serves both directions. No more is held than what one read gave in each of them: a side that does not take
its bytes is not read for. Each side may end its own direction; when both have, when one has and the other is silent for
`LINGER`, or when nothing at all was said for the idle time (`streamingConnectionIdleTimeout`), both are closed.
"""

import contextlib
import logging
import select
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from beehive import Clock
from edged.server.errors import RequestError
from edged.server.request import Request

_log = logging.getLogger(__name__)

LINGER: Final = 30.0
"""Seconds that one direction may be silent when the other has ended."""

CONNECT_SECONDS: Final = 5.0
_READ_BYTES: Final = 64 * 1024
_PASSED_ON: Final = ("connection", "upgrade", "x-stream-protocol-version", "user-agent", "content-length")
"""Headers that matter to a streaming server, beside those of WebSocket. The client's credentials are not among them."""


def connect(url: str) -> socket.socket:
    """A connection to a streaming server.

    Raises:
        RequestError: 502; it cannot be reached, or in no way that is known here.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or 80
    except ValueError:
        raise RequestError(502, "the runtime's streaming address cannot be read") from None
    if parts.scheme != "http" or not host:
        hint = "redirectContainerStreaming lets clients go there themselves"
        raise RequestError(502, "the runtime's streaming server is not plain HTTP", parts.scheme, hint)
    try:
        return socket.create_connection((host, port), CONNECT_SECONDS)
    except OSError as error:
        raise RequestError(
            502, "the runtime's streaming server does not answer", f"{host}:{port}", str(error)
        ) from error


def forwarded(request: Request, url: str) -> bytes:
    """The request as it goes to the streaming server, with what the client sent after it."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    passed = [each for each in request.headers if each[0] in _PASSED_ON or each[0].startswith("sec-websocket-")]
    lines += [f"{name}: {value}" for name, value in passed]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + request.rest


class _Direction:
    """One way through: from where, to where, and what was read and is not written yet."""

    def __init__(self, source: socket.socket, target: socket.socket, first: bytes = b"") -> None:
        self.source, self.target = source, target
        self._held = memoryview(first)
        self._ended = self.over = False

    @property
    def reads(self) -> bool:
        """Whether it waits for bytes."""
        return not self._held and not self._ended

    @property
    def writes(self) -> bool:
        """Whether it waits for room."""
        return bool(self._held)

    def read(self) -> None:
        """Take what has come."""
        with contextlib.suppress(BlockingIOError):
            data = self.source.recv(_READ_BYTES)
            self._held, self._ended = memoryview(data), not data

    def write(self) -> None:
        """Give what there is room for; pass an end on."""
        if self._held:
            with contextlib.suppress(BlockingIOError):
                self._held = self._held[self.target.send(self._held) :]
        if self._ended and not self._held and not self.over:
            self.over = True
            with contextlib.suppress(OSError):
                self.target.shutdown(socket.SHUT_WR)


def relay(client: socket.socket, server: socket.socket, first: bytes, clock: Clock, idle: float) -> None:
    """Pass bytes on until it is over; who called closes the sockets.

    Args:
        client: of ours.
        server: the runtime's.
        first: goes to the server before what the client sends.
        clock: for the idle time.
        idle: seconds after which a connection on which nothing is said is given up.
    """
    client.settimeout(0)
    server.settimeout(0)
    directions = (_Direction(client, server, first), _Direction(server, client))
    last = clock.monotonic()
    while not all(each.over for each in directions):
        patience = LINGER if any(each.over for each in directions) else idle
        left = last + patience - clock.monotonic()
        if left <= 0 or not _serve(directions, left):
            _log.debug("a stream to the runtime was given up: nothing was said for %g s", patience)
            return
        last = clock.monotonic()


def _serve(directions: tuple[_Direction, ...], seconds: float) -> bool:
    """Wait for something to do and do it; false when there was nothing. A broken connection raises OSError."""
    wanted: dict[int, int] = {}
    actions: list[tuple[int, int, Callable[[], None]]] = []
    for each in directions:
        for wants, one, event, action in (
            (each.reads, each.source, select.POLLIN, each.read),
            (each.writes, each.target, select.POLLOUT, each.write),
        ):
            if wants:
                wanted[one.fileno()] = wanted.get(one.fileno(), 0) | event
                actions.append((one.fileno(), event | select.POLLHUP | select.POLLERR, action))
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    ready = dict(poll.poll(seconds * 1000))
    for descriptor, events, action in actions:
        if ready.get(descriptor, 0) & events:
            action()
    for each in directions:
        each.write()
    return bool(ready)
