"""What one node has yet to acknowledge, and what it has acknowledged: reliable delivery as a state machine
without effects.

KubeEdge keeps this in a queue and in ObjectSync resources, sends one message at a time and stops at the first
that is not acknowledged. Here a window of messages is under way at once, so one object that an edge cannot
store holds up no other. What is kept of KubeEdge: only the newest version of an object is ever pending; a
message is sent again, with the same id, until its acknowledgement comes; an object is not sent in a version
that the node has acknowledged; what a node missed while it was away it gets when it is back. What is not: a node that
lost its store gets its objects again when it registers, which for KubeEdge stay acknowledged for ever (spec/04 §7).
"""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from beehive.message import Message
from beehive.names import Operation
from beehive.resource import Resource, Side
from modules.cloudhub.acknowledgement import plain_content

WINDOW = 64
"""Messages to one node that may be under way without an acknowledgement."""


class Offer(StrEnum):
    """What became of a message that was offered for delivery."""

    QUEUED = "queued"
    KNOWN = "the node has this version or a newer one is on its way"
    NO_VERSION = "no resourceversion in the header"


class Subject(msgspec.Struct, frozen=True):
    """Which object a message is about, and in which version."""

    key: str
    """The uid; for an object without one, the resource."""
    resource: str
    version: int
    is_delete: bool


class Delivery(msgspec.Struct):
    """A message that waits for its acknowledgement."""

    message: Message
    subject: Subject
    sent_at: float | None = None
    """Monotonic seconds of the last transmission over the present link; None: not yet."""
    times_sent: int = 0


class NodeDeliveries:
    """The deliveries to one node. They outlive its connections.

    Args:
        resend_after: seconds without an acknowledgement after which a message is sent again.
        window: see `WINDOW`.
    """

    def __init__(self, resend_after: float, window: int = WINDOW) -> None:
        self._resend_after = resend_after
        self._window = window
        self._pending: dict[str, Delivery] = {}
        self._sent: dict[str, Subject] = {}
        self._acknowledged: dict[str, int] = {}
        self._acknowledged_before: set[str] = set()
        """Of the acknowledged: what was so already when the present link was made."""

    def __len__(self) -> int:
        return len(self._pending)

    def offer(self, message: Message) -> Offer:
        """Queues a message, unless the node has, or will have, what it says (spec/04 §5.1)."""
        subject = subject_of(message)
        if message.route.operation == Operation.RESPONSE:
            self._queue(f"answer {message.id}", message, subject)
            return Offer.QUEUED
        if not subject.is_delete:
            if subject.version < 0:
                return Offer.NO_VERSION
            if self._is_known(subject):
                return Offer.KNOWN
        self._drop_deletions_of_namesakes(subject)
        self._queue(subject.key, message, subject)
        return Offer.QUEUED

    def acknowledge(self, message_id: str) -> bool:
        """Takes an acknowledgement; False when it is for nothing that was sent, or for the second time."""
        subject = self._sent.pop(message_id, None)
        if subject is None:
            return False
        if subject.is_delete:
            self._acknowledged.pop(subject.key, None)
        elif subject.version >= 0:
            self._acknowledged[subject.key] = max(subject.version, self._acknowledged.get(subject.key, -1))
            self._acknowledged_before.discard(subject.key)
        for key in (subject.key, f"answer {message_id}"):
            delivery = self._pending.get(key)
            if delivery is not None and delivery.message.id == message_id:
                del self._pending[key]
                self._forget_older(subject)
        return True

    def due(self, now: float) -> Iterator[Message]:
        """The messages to send now, oldest first; they count as sent. `now` is in monotonic seconds."""
        under_way = sum(delivery.sent_at is not None for delivery in self._pending.values())
        for delivery in self._pending.values():
            if delivery.sent_at is None:
                if under_way >= self._window:
                    continue
                under_way += 1
            elif now - delivery.sent_at < self._resend_after:
                continue
            delivery.sent_at = now
            delivery.times_sent += 1
            self._sent[delivery.message.id] = delivery.subject
            yield delivery.message

    def link_lost(self) -> None:
        """What was under way may be lost; it is due again at once. Answers have lost their asker and are
        dropped.
        """
        answers = [key for key, d in self._pending.items() if d.message.route.operation == Operation.RESPONSE]
        for key in answers:
            self._sent.pop(self._pending.pop(key).message.id, None)
        for delivery in self._pending.values():
            delivery.sent_at = None
        self._acknowledged_before = set(self._acknowledged)

    def registered(self) -> None:
        """The node's process has started anew, perhaps with an empty store: what earlier ones acknowledged says
        nothing any more. What was acknowledged over the present link does, for a process makes its own link.
        """
        for key in self._acknowledged_before:
            self._acknowledged.pop(key, None)
        self._acknowledged_before.clear()

    def acknowledged_version(self, uid: str) -> int | None:
        """The version of an object that the node has, as far as the cloud knows."""
        return self._acknowledged.get(uid)

    def _is_known(self, subject: Subject) -> bool:
        pending = self._pending.get(subject.key)
        if pending is not None:
            return pending.subject.is_delete or subject.version <= pending.subject.version
        return subject.version <= self._acknowledged.get(subject.key, -1)

    def _queue(self, key: str, message: Message, subject: Subject) -> None:
        self._pending.pop(key, None)
        self._pending[key] = Delivery(message, subject)

    def _drop_deletions_of_namesakes(self, subject: Subject) -> None:
        """An edge deletes most objects by name: a deletion resent after its successor came would take that
        away.

        Pods are deleted by uid (spec/05), and the edge must hear of each deletion.
        """
        if subject.is_delete or "/pod/" in subject.resource:
            return
        for key, delivery in list(self._pending.items()):
            if delivery.subject.is_delete and delivery.subject.resource == subject.resource:
                del self._pending[key]

    def _forget_older(self, subject: Subject) -> None:
        """Messages about the object that were superseded: their acknowledgements say nothing new."""
        for message_id, sent in list(self._sent.items()):
            if sent.key == subject.key and sent.version <= subject.version and message_id not in self._open_ids():
                del self._sent[message_id]

    def _open_ids(self) -> set[str]:
        return {delivery.message.id for delivery in self._pending.values()}


def subject_of(message: Message) -> Subject:
    """What a message is about: from the object in its content, or else from its resource."""
    content = plain_content(message)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    resource = str(Resource.parse(message.route.resource, Side.CLOUD).on_edge())
    version = message.header.resourceversion
    is_delete = message.route.operation == Operation.DELETE
    return Subject(
        key=str(metadata.get("uid") or resource),
        resource=resource,
        version=int(version) if version.isdigit() else -1,
        is_delete=is_delete,
    )
