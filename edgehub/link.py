"""The contract of a link: one connection to the cloud, from its dialling to its end.

edgehub knows nothing of sockets: it is handed a factory of links. `edgehub.websocket` has the real one,
`edgehub.testing` one in memory, for tests and for the simulation; both pass the same contract tests
(`tests/edgehub/test_link_contract.py`).

A link lives once. It is run by an actor of edgehub (`Runner`), on whose thread everything of it happens: dialling,
reading, writing, pinging. So there is nothing to tear down apart from it, and nothing that could be torn down twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from edgehub.errors import LinkError


class LinkEvents(Protocol):
    """What a link tells; always on the thread that runs it, so in order. It may block: then the link reads no more."""

    def opened(self) -> None:
        """The link is up; once, before everything else."""

    def received(self, frame: bytes) -> None:
        """A whole message came, reassembled, as bytes of UTF-8 JSON (if the peer behaves)."""

    def skipped(self, head: bytes, size: int) -> None:
        """A message over the limit was thrown away as it came; `head` is its beginning, `size` its bytes."""

    def confirmed(self, frames: int) -> None:
        """The peer has read the next `frames` of what was sent, in the order of sending."""


class Link(ABC):
    """One connection to the cloud."""

    @abstractmethod
    def run(self, events: LinkEvents) -> LinkError:
        """Dial, serve until the end, and say why it ended. Blocks; is called once; does not raise for the network."""

    @abstractmethod
    def send(self, frame: bytes) -> None:
        """Let a frame leave after those before it. Any thread; never blocks.

        Nothing says that it failed: a frame that is not confirmed when `run` returns may or may not have arrived.
        """

    def check(self) -> None:  # noqa: B027 - a link that cannot be doubted need not do anything
        """Find out soon whether the peer is still there: the network has changed. Any thread; never blocks."""

    @abstractmethod
    def close(self) -> None:
        """End it; what was sent before still leaves, if the peer takes it at once. Any thread; idempotent."""


LinkFactory = Callable[[], Link]
