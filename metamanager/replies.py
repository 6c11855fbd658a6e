"""The messages that metamanager sends in reply to a message."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from beehive import Clock, DeliveryMode, Group, Message, ModuleName, Source
from metamanager.errors import StoreError
from metamanager.rows import StoredObject
from metamanager.rules import Destination


class Reply(msgspec.Struct, frozen=True):
    """A message to send, with its receiver."""

    mode: DeliveryMode
    """SEND to a module, BROADCAST to a group, RESPONSE to the waiting sender of a request."""
    destination: str
    message: Message


def forward(message: Message, to: Destination) -> Reply:
    """Forward a message to the receiver that its plan names, in the form that this one expects."""
    if to.as_meta:
        message = message.with_route(source=Source.META, group=Group.TWIN)
    if not to.may_answer and message.header.sync:
        message = message.with_header(sync=False)
    return Reply(to.mode, to.name, message)


def to_edged(message: Message) -> Reply:
    """Forward a message to edged."""
    return Reply(DeliveryMode.SEND, ModuleName.EDGED, message)


def unstored(message: Message) -> Reply:
    """Forward to edged the deletion of a pod, or its announcement, that could not be stored: with metamanager as
    source, and not the cloud, which will send it again.
    """
    return to_edged(message.with_route(source=ModuleName.METAMANAGER))


def to_cloud(message: Message) -> Reply:
    """Forward a message to the cloud; a waiting sender gets the cloud's answer."""
    return Reply(DeliveryMode.BROADCAST, Group.HUB, message)


def answer(request: Message, reply: Message) -> Reply:
    """Answer a request: to its waiting sender, else to edged's inbox."""
    if request.header.sync:
        return Reply(DeliveryMode.RESPONSE, "", reply)
    return Reply(DeliveryMode.SEND, ModuleName.EDGED, reply)


def stored(request: Message, values: list[str], clock: Clock) -> Reply:
    """Answer from the store: a list of objects as strings, with metamanager as source (docs/protocol.md, "Forms of
    answers").
    """
    return answer(request, request.reply(clock, values, source=ModuleName.METAMANAGER))


def refusal(request: Message, text: str, clock: Clock) -> Reply:
    """Answer with an error: to the waiting sender, to edged for its requests, else to the cloud (docs/protocol.md,
    "Forms of answers").
    """
    error = request.error(clock, text, source=ModuleName.METAMANAGER, group=request.route.group)
    if request.header.sync or request.route.source == ModuleName.EDGED:
        return answer(request, error)
    return to_cloud(error)


class Outcome(msgspec.Struct, frozen=True):
    """The result of handling one message."""

    replies: Sequence[Reply]
    changed: bool = False
    """Whether the store was changed: the replies then wait for the commit."""
    failure_replies: Callable[[], Sequence[Reply]] = tuple
    """Returns the replies to send instead if the commit fails."""
    retry: Callable[[], object] | None = None
    """Repeats a deletion, with the room reserved for it."""
    lost: bool = False
    """Whether the deletion has to be repeated."""


class StoreChanges(Protocol):
    """A receiver of changes of the store that belong to no message of the inbox (`MetaManager`)."""

    def add_change(self, outcome: Outcome) -> None:
        """Commit a change that is in the store, and send its replies, after the messages that wait in the inbox."""

    def remove_object(self, stored: StoredObject) -> None:
        """Handle an object that the cloud no longer has as if the cloud had deleted it."""

    def change_failed(self, error: StoreError) -> None:
        """Take that the store cannot be read or changed; the work is repeated later."""
