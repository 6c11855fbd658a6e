"""The messages that metamanager sends in reply to a message, and the commit before they leave."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import msgspec

from beehive import Clock, DeliveryMode, Group, Message, ModuleName, Source
from beehive.trace_context import NO_CAUSE, Cause, current_cause, own_context, resumed
from metamanager.errors import StoreError, StoreWriteError
from metamanager.rows import StoredPod
from metamanager.store import Store


class Reply(msgspec.Struct, frozen=True):
    """A message to send, with its receiver."""

    mode: DeliveryMode
    """SEND to a module, BROADCAST to a group, RESPONSE to the waiting sender of a request."""
    destination: str
    message: Message


def to_edged(message: Message) -> Reply:
    """Forward a message to edged."""
    return Reply(DeliveryMode.SEND, ModuleName.EDGED, message)


def unstored(message: Message) -> Reply:
    """Forward to edged the deletion of a pod, or its announcement, that could not be stored: with metamanager as
    source, and not the cloud, which will send it again.
    """
    return to_edged(message.with_route(source=ModuleName.METAMANAGER))


def to_mesh(message: Message) -> Reply:
    """Forward a message to edgemesh."""
    return Reply(DeliveryMode.BROADCAST, Group.MESH, message)


def to_twin(message: Message) -> Reply:
    """Forward a message to devicetwin, with the source and group of KubeEdge's metamanager."""
    return Reply(DeliveryMode.SEND, ModuleName.DEVICETWIN, message.with_route(source=Source.META, group=Group.TWIN))


def to_cloud(message: Message) -> Reply:
    """Forward a message to the cloud; a waiting sender gets the cloud's answer."""
    return Reply(DeliveryMode.BROADCAST, Group.HUB, message)


def ok_to_cloud(message: Message, clock: Clock) -> Reply:
    """Acknowledge a stored message to the cloud (docs/protocol.md, "Acknowledgements")."""
    return to_cloud(message.reply(clock))


def ok_to_cloud_as_meta(message: Message, clock: Clock) -> Reply:
    """Acknowledge a new device or model, with the source and group under which devicetwin has received it."""
    return to_cloud(message.reply(clock).with_route(source=Source.META, group=Group.TWIN))


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


class Outcome(NamedTuple):
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
    """Takes changes of the store that belong to no message of the inbox (`MetaManager`)."""

    def add_change(self, outcome: Outcome) -> None:
        """Commit a change that is in the store, and send its replies, after the messages that wait in the inbox."""

    def remove_pod(self, pod: StoredPod) -> None:
        """Handle a pod that the cloud no longer has as if the cloud had deleted it."""

    def change_failed(self, error: StoreError) -> None:
        """Take that the store cannot be read or changed; the work is repeated later."""


class Delivers(Protocol):
    """Sends replies (`MetaManager`)."""

    def deliver(self, reply: Reply) -> None:
        """Send a reply."""


class Reports(Protocol):
    """Reports whether the database takes changes (`StoreHealth`)."""

    def report(self, error: StoreError | None) -> None:
        """Take the result of a commit; None for success."""


class Batch:
    """Collects the outcomes of messages, commits their changes together, then sends their replies in order.

    So one fsync serves many messages, and no acknowledgement leaves before its object is on the disk. The module ends a
    batch when its inbox is empty, or after `Module.batch_limit` messages.

    Args:
        store: the database.
        module: sends the replies.
        health: learns of each commit whether it failed; then `failure_replies` are sent.
    """

    def __init__(self, store: Store, module: Delivers, health: Reports) -> None:
        self._store = store
        self._module = module
        self._health = health
        self._waiting: list[Outcome] = []
        self._causes: list[Cause] = []

    def add(self, outcome: Outcome) -> None:
        """Add an outcome. Its replies leave immediately if it has no change and no other outcome waits."""
        if self._waiting or outcome.changed:
            self._waiting.append(outcome)
            self._causes.append(current_cause())
        else:
            self._send(outcome)

    def flush(self) -> None:
        """Commit, then send all waiting replies."""
        if any(outcome.changed and not outcome.lost for outcome in self._waiting):
            self._commit()
        if any(outcome.lost for outcome in self._waiting):
            self._retry_deletions()
        waiting, self._waiting = self._waiting, []
        causes, self._causes = self._causes, []
        with resumed(NO_CAUSE):
            context = own_context()
            for outcome, cause in zip(waiting, causes, strict=True):
                context.span, context.trace = cause
                self._send(outcome)

    def lose(self, *, for_good: bool = False) -> None:
        """Roll back: the waiting changes are lost. `flush` repeats deletions, unless the loss is `for_good`."""
        self._store.rollback()
        self._waiting = [self._mark_lost(one, for_good=for_good) if one.changed else one for one in self._waiting]

    def _mark_lost(self, outcome: Outcome, *, for_good: bool) -> Outcome:
        if outcome.retry is None or for_good:
            return Outcome(outcome.failure_replies())
        return outcome._replace(lost=True)

    def _retry_deletions(self) -> None:
        """Repeat the lost deletions, which free room on the disk."""
        self._store.make_room()
        try:
            for outcome in self._waiting:
                if outcome.lost and outcome.retry is not None:
                    outcome.retry()
            self._store.commit()
        except StoreWriteError as error:
            self._store.rollback()
            self._waiting = [Outcome(one.failure_replies()) if one.lost else one for one in self._waiting]
            self._health.report(error)

    def _commit(self) -> None:
        try:
            self._store.commit()
        except StoreWriteError as error:
            self.lose()
            self._health.report(error)
        else:
            self._health.report(None)

    def _send(self, outcome: Outcome) -> None:
        for reply in outcome.replies:
            self._module.deliver(reply)
