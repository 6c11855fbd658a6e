"""The inbox of actors that are not modules, and its envelopes."""

from typing import Any

import pykka

from beehive.inbox import Inbox
from beehive.trace_context import TraceContext, current_context


class CausedEnvelope(pykka._envelope.Envelope[Any]):
    """Pykka's envelope with the trace context of the sender."""

    __slots__ = ("span", "trace")

    def __init__(self, envelope: pykka._envelope.Envelope[Any], context: TraceContext) -> None:
        super().__init__(envelope.message, envelope.reply_to)
        self.span = context.span
        self.trace = context.trace


class ActorInbox(Inbox):
    """The inbox of an actor that is not a module: it adds the sender's trace context to each message."""

    def put(self, item: Any) -> None:
        """Append a message, as `Inbox.put` does."""
        context = current_context()
        super().put(CausedEnvelope(item, context) if context.span else item)
