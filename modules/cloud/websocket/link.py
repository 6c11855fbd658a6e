"""The border between cloudhub and a transport: the link to one node, and its events."""

from typing import Final, Protocol, runtime_checkable

import msgspec

from beehive.message import Message

REPLACED: Final = 4001
"""Close code, of those for private use (RFC 6455 §7.4.2)."""


OVERLOADED: Final = 1013
"""Close code "try again later", of IANA's registry of WebSocket close codes."""


class Link(Protocol):
    """A connection to one node, made by `WebsocketServer`, or of lists in tests and simulations. Thread-safe."""

    @property
    def is_behind(self) -> bool:
        """Whether sent messages still wait, because the node reads slowly."""

    @property
    def is_held_back(self) -> bool:
        """Whether messages of the node wait, here or in a socket that is not read."""

    def send(self, frame: bytes) -> None:
        """Queue one message; never blocks.

        Raises:
            OSError: the connection is closed, or too many messages wait.
        """

    def handled(self, size: int) -> None:
        """Count one received message of `size` bytes as handled; never blocks."""

    def close(self) -> None:
        """Close the connection immediately; never blocks, never raises, may be called again."""


@runtime_checkable
class EndingLink(Protocol):
    """A link over a protocol that can tell the node why it is closed."""

    def end(self, code: int = 1001, reason: str = "cloudcore is stopping") -> None:
        """Close the connection after sending the waiting messages; never blocks, never raises, may be called again.

        Args:
            code: of the close frame (RFC 6455 §7.4).
            reason: in it.
        """


def close_now(link: Link) -> None:
    """Close a link immediately."""
    link.close()


def end(link: Link) -> None:
    """End a link, and tell the node that this cloudcore is stopping, if the link can."""
    if isinstance(link, EndingLink):
        link.end()
    else:
        link.close()


def replaced(link: Link) -> None:
    """End a link because the node has connected again, and tell it so: it may be another machine with its name."""
    if isinstance(link, EndingLink):
        link.end(REPLACED, "another connection with the name of this node has taken its place")
    else:
        link.close()


def overloaded(link: Link) -> None:
    """End a link because too many messages of the node wait, and tell it so."""
    if isinstance(link, EndingLink):
        link.end(OVERLOADED, "too many messages of this node wait for the controllers: connect again later")
    else:
        link.close()


class LinkOpened(msgspec.Struct, frozen=True):
    """A node has connected."""

    node: str
    link: Link
    address: str = ""
    """From where."""
    certificate_ends: float = 0.0
    """When its certificate ends, in seconds since 1970; 0 without TLS."""


class LinkClosed(msgspec.Struct, frozen=True):
    """A connection has ended, closed by either side."""

    node: str
    link: Link


class FrameReceived(msgspec.Struct, frozen=True):
    """A node has sent a message."""

    node: str
    link: Link
    message: Message
    size: int = 0
    """Bytes of its frame."""
    error: str = ""
    """Why the message is refused; it comes without its content then."""


LinkEvent = LinkOpened | LinkClosed | FrameReceived
