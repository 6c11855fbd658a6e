"""The contracts of the two ends of a tunnel; the process hands in edgehub's websocket and the node's own server."""

import socket
from collections.abc import Callable
from typing import Protocol

from beehive.errors import BeehiveError


class TunnelEvents(Protocol):
    """The events of a link, on the thread that runs it. While a call blocks, the link reads nothing."""

    def opened(self) -> None:
        """Called once, before all others, when the link is up."""

    def received(self, frame: bytes) -> None:
        """Called with each message."""

    def skipped(self, head: bytes, size: int) -> None:
        """Called for a message that is too long: its first bytes and its size in bytes."""

    def confirmed(self, frames: int) -> None:
        """Called when the cloud has read the next `frames` messages, in the order of sending."""


class TunnelLink(Protocol):
    """One connection to the cloud, from dialling to its end; used once (`edgehub.link.Link`)."""

    def run(self, events: TunnelEvents) -> BeehiveError:
        """Dial, serve until the link ends, and return why."""

    def send(self, frame: bytes) -> None:
        """Send a message after all earlier ones. Any thread; never blocks."""

    def close(self) -> None:
        """End the link. Any thread."""


MakeLink = Callable[[], TunnelLink]
"""Makes a link for one attempt; it reads the node's certificate again."""

DialNode = Callable[[], socket.socket]
"""Connects to the node's own server, without waiting. Raises OSError."""
