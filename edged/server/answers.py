"""What a handler may give: a whole answer, one that is made while it is sent, or the connection itself."""

import socket
from collections.abc import Callable, Generator
from typing import NamedTuple, Protocol

from edged.server.request import Request


class Answer(NamedTuple):
    """An answer that is there at once."""

    status: int
    content_type: str
    body: bytes
    location: str = ""
    """Of a redirect."""


class Peer(Protocol):
    """Who asked, as one who makes an answer slowly sees them."""

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """Wait that long, less when they go meanwhile or the server ends: then it is true. Less too when something can
        be read from the file descriptor `wake`.
        """


class Stream(NamedTuple):
    """An answer that is sent in pieces as they come; it ends with the pieces, or when who asked goes."""

    content_type: str
    pieces: Callable[[Peer], Generator[bytes, None, None]]
    done: Callable[[], object]
    """Lets go of what the pieces are made of; called in any case."""


class Takeover(NamedTuple):
    """The connection is handed over, with what has been read of it (`Request.rest`). It is closed afterwards."""

    carry_on: Callable[[socket.socket], None]
    done: Callable[[], object]
    """Lets go of what that needs; called in any case."""


Reply = Answer | Stream | Takeover
Handler = Callable[[Request], Reply]


def text(status: int, body: str) -> Answer:
    """An answer of plain text."""
    return Answer(status, "text/plain; charset=utf-8", body.encode())


def json(body: bytes) -> Answer:
    """A good answer in JSON."""
    return Answer(200, "application/json", body)
