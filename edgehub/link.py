"""The contract of a link to the cloud.

`edgehub.module` takes a factory of links and opens no socket itself. `edgehub.websocket` implements the contract over
TCP, `modules.lab.doubles.memory_cloud` in memory, for tests and the simulation; both pass
`tests/edgehub/test_link_contract.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from edgehub.errors import LinkError


class LinkEvents(Protocol):
    """Callbacks of a link, called in order on the thread that runs it. While one blocks, the link reads nothing."""

    def opened(self) -> None:
        """Called once, before all others, when the link is up."""

    def received(self, frame: bytes) -> None:
        """Called with each complete message; UTF-8 JSON, if the peer is correct."""

    def skipped(self, head: bytes, size: int) -> None:
        """Called for a discarded message over the limit: its first bytes and its size in bytes."""

    def confirmed(self, frames: int) -> None:
        """Called when the peer has read the next `frames` sent frames, in the order of sending."""


class Link(ABC):
    """One connection to the cloud, from dialling to its end; used once.

    An actor (`LinkRunner`) calls `run`, and everything happens on its thread: dialling, reading, writing, pinging. So
    no part of a link can end, or be cleaned up, without the others.
    """

    @abstractmethod
    def run(self, events: LinkEvents) -> LinkError:
        """Dial, serve until the link ends, and return why. Blocks; called once; never raises for network failures."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Send a frame after all earlier ones. Any thread; never blocks.

        Failures are not reported: a frame that is unconfirmed when `run` returns may or may not have arrived.
        """

    def check(self) -> None:  # noqa: B027 - a link without a network has nothing to check
        """Ping the peer now, because the network has changed. Any thread; never blocks."""

    @abstractmethod
    def close(self) -> None:
        """End the link; earlier frames still leave if the peer reads them immediately. Any thread; idempotent."""


LinkFactory = Callable[[], Link]
