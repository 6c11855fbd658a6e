"""The replies of a handler: a whole response, a stream, or a takeover of the connection."""

import socket
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

import msgspec

from beehive.http.request import Request


class Response(msgspec.Struct, frozen=True):
    """A whole response."""

    status: int
    content_type: str
    body: bytes
    location: str = ""
    """Target of a redirect; empty without one."""
    headers: tuple[tuple[str, str], ...] = ()
    """Further headers, such as `Warning`."""


class Peer(Protocol):
    """The client of a stream."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Wait, and return whether the client has disconnected or the server has stopped; both end the wait.

        Args:
            seconds: longest wait.
            wake: a file descriptor that also ends the wait when it becomes readable.
        """


class StreamHead(msgspec.Struct, frozen=True):
    """The head of a response in pieces."""

    status: int
    headers: tuple[tuple[str, str], ...]


class Stream(msgspec.Struct, frozen=True):
    """A response that is sent piece by piece, until the pieces end or the client goes. Its status is 200."""

    content_type: str
    pieces: Callable[[Peer], Generator[bytes, None, None]]
    done: Callable[[], object]
    """Releases the source of the pieces; always called."""
    steps: Callable[[Callable[[], None]], Iterator[bytes | float]] | None = None
    """The same for a client in this process, without a thread that waits. Its argument is a function to call when there
    is more. The client goes on then, and after each number of seconds that it yields among the pieces.
    """
    begin: Callable[[Peer], StreamHead | Response] | None = None
    """Waits for another head than that of status 200 with the content type; or returns a response in its place, which
    is sent instead. For clients with a connection.
    """


class Takeover(msgspec.Struct, frozen=True):
    """The connection, given to the handler; `Request.rest` has the bytes already read. It is closed afterwards."""

    carry_on: Callable[[socket.socket], None]
    done: Callable[[], object]
    """Releases the handler's resources; always called."""


Reply = Response | Stream | Takeover
Handler = Callable[[Request], Reply]


def text(status: int, body: str) -> Response:
    """Return a response of plain text."""
    return Response(status, "text/plain; charset=utf-8", body.encode())


def json(body: bytes) -> Response:
    """Return a response with status 200 in JSON, which a line break ends, as Go's encoder does it."""
    return Response(200, "application/json", body + b"\n")
