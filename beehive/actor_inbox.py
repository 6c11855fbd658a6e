"""The inbox of actors that are no modules: what they are told and asked carries its cause along.

Pykka's envelope has no room for it, so one with a cause stands in its place.
"""

from typing import Any

import pykka

from beehive.causes import Turn, current
from beehive.inbox import Inbox


class CausedEnvelope(pykka._envelope.Envelope[Any]):
    """What an actor was told or asked, and in the course of what."""

    __slots__ = ("span", "trace")

    def __init__(self, envelope: pykka._envelope.Envelope[Any], turn: Turn) -> None:
        super().__init__(envelope.message, envelope.reply_to)
        self.span = turn.span
        self.trace = turn.trace


class ActorInbox(Inbox):
    """The inbox of an actor that is no module: what comes in carries its cause."""

    def put(self, item: Any) -> None:
        """See `Inbox.put`."""
        turn = current()
        super().put(CausedEnvelope(item, turn) if turn.span else item)
