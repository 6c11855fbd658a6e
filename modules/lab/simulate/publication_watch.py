"""Invariant of the messages that applications publish for the cloud at a node's MQTT broker."""

from collections.abc import Iterable
from typing import Final

from beehive import ContentError, FrameError, decode
from modules.lab.simulate.world import World

TOPIC: Final = "simulated/publication"


class PublicationWatch:
    """The check that a message is in the outbox's file when it is acknowledged to the broker, which then forgets it,
    and that each acknowledged one reaches the cloud.

    Args:
        world: collects violations.
        node: node of the broker.
    """

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self._made = 0
        self._stored: set[str] = set()
        self._arrived: set[str] = set()
        self._acknowledged: set[str] = set()

    def next(self) -> str:
        """Return the content of one more message."""
        self._made += 1
        return f"publication {self._made}"

    def stored(self, frames: Iterable[bytes]) -> None:
        """Note that the outbox has stored frames."""
        self._stored.update(filter(None, map(_text_of, frames)))

    def arrived(self, frame: bytes) -> None:
        """Note a frame that the cloud's process has taken."""
        text = _text_of(frame)
        if text:
            self._arrived.add(text)

    def acknowledged(self, text: str) -> None:
        """Check a message that the node acknowledges to the broker."""
        self._acknowledged.add(text)
        if text not in self._stored and text not in self._arrived:
            invariant = "a message is stored before it is acknowledged"
            self._world.violated(invariant, f"{self._node}: {text} is not in the outbox")

    def missing(self) -> list[str]:
        """Return the acknowledged messages that have not reached the cloud."""
        return sorted(self._acknowledged - self._arrived)


def _text_of(frame: bytes) -> str:
    """Return the content of a publication; an empty text for any other frame."""
    try:
        message = decode(frame)
        return message.content_as(str) if message.route.resource == TOPIC else ""
    except (FrameError, ContentError):
        return ""
