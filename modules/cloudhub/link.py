"""A connection to a node, as cloudhub's actors see it: the seam between them and a transport.

`server` makes links of websockets; tests and simulations make them of lists.
"""

from typing import Protocol

import msgspec

from beehive.message import Message


class Link(Protocol):
    """One connection. All of it may be used from any thread."""

    @property
    def is_behind(self) -> bool:
        """Whether something of what was sent has not left yet, because the peer is slow to take it."""

    def send(self, frame: bytes) -> None:
        """Takes one message to be written; never blocks.

        Raises:
            OSError: the connection is gone, or too much waits to be written already.
        """

    def handled(self, size: int) -> None:
        """One of the messages that came over it, of so many bytes, has been handled; never blocks."""

    def close(self) -> None:
        """Ends the connection at once; never blocks, never raises, may be called again."""


class LinkOpened(msgspec.Struct, frozen=True):
    """A node has connected."""

    node: str
    link: Link


class LinkClosed(msgspec.Struct, frozen=True):
    """A connection has ended, by whichever side."""

    node: str
    link: Link


class FrameCame(msgspec.Struct, frozen=True):
    """A node has sent a message."""

    node: str
    link: Link
    message: Message
    size: int = 0
    """Bytes of its frame."""


LinkEvent = LinkOpened | LinkClosed | FrameCame
