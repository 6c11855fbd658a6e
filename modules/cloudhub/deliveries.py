"""What one node has yet to acknowledge over its present connection: reliable delivery as a state machine without
effects.

KubeEdge keeps this in a queue, sends one message at a time and stops at the first that is not acknowledged. Here a
window of messages is under way at once, so one object that an edge cannot store holds up no other. What is kept of
KubeEdge: only the newest version of an object is ever pending; a message is sent again, with the same id, until its
acknowledgement comes; an object is not sent in a version that the node has acknowledged; all this ends with the
connection. What must be delivered over the next one is the business of who sends (for objects: `edgecontroller.syncs`),
for the node may connect to another cloudcore.
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
WAITING = 4096
"""Messages that may wait for room in the window, beyond which answers are not taken: who asks again and again, and
acknowledges nothing, can ask once more later."""
SUPERSEDED = 256
"""Messages that were sent and superseded since, whose acknowledgements still count: what a node never acknowledges, and
is ever sent anew, must not fill the memory."""
_ANSWER_SENT = 5
"""Times that an answer is sent at most. A Go edge acknowledges none for which nobody waits any more (spec/04 §6.1), and
what it still needs it asks for again; one answer after another, they would come to fill the window."""


class Offer(StrEnum):
    """What became of a message that was offered for delivery."""

    QUEUED = "queued"
    ON_ITS_WAY = "this version or a newer one is on its way"
    ACKNOWLEDGED = "the node has this version"
    NO_VERSION = "no resourceversion in the header"
    NO_ROOM = "too many answers wait for the node"


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
    sent_at: float = 0.0
    """Monotonic seconds of the last transmission, when there was one."""
    times: int = 0
    """How often it was sent."""

    @property
    def is_given_up(self) -> bool:
        """Whether it is not sent again although it was not acknowledged."""
        return self.message.route.operation == Operation.RESPONSE and self.times >= _ANSWER_SENT


class NodeDeliveries:
    """The deliveries over one connection of a node.

    Args:
        resend_after: seconds without an acknowledgement after which a message is sent again.
        window: see `WINDOW`.
    """

    def __init__(self, resend_after: float, window: int = WINDOW) -> None:
        self._resend_after = resend_after
        self._window = window
        self._waiting: dict[str, Delivery] = {}
        """Not sent yet, oldest first; by uid, answers by their id."""
        self._under_way: dict[str, Delivery] = {}
        self._sent: dict[str, Subject] = {}
        """What an acknowledgement may come for, by message id: also what was superseded since."""
        self._superseded: dict[str, None] = {}
        """Those of them that were, oldest first."""
        self._acknowledged: dict[str, int] = {}
        self._deletions: dict[str, str] = {}
        """The uids whose deletions are pending, by resource; not those of pods."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def offer(self, message: Message) -> Offer:
        """Queues a message, unless the node has, or will have, what it says (spec/04 §5.1)."""
        subject = subject_of(message)
        if message.route.operation == Operation.RESPONSE:
            if len(self._waiting) >= WAITING:
                return Offer.NO_ROOM
            self._queue(f"answer {message.id}", message, subject)
            return Offer.QUEUED
        if not subject.is_delete and subject.version < 0:
            return Offer.NO_VERSION
        pending = self._waiting.get(subject.key) or self._under_way.get(subject.key)
        if pending is not None and _says_as_much(pending.subject, subject):
            return Offer.ON_ITS_WAY
        if pending is None and not subject.is_delete and subject.version <= self._acknowledged.get(subject.key, -1):
            return Offer.ACKNOWLEDGED
        self._drop_deletion_of_namesake(subject)
        self._queue(subject.key, message, subject)
        return Offer.QUEUED

    def acknowledge(self, message_id: str) -> Subject | None:
        """Takes an acknowledgement, and says of what it is; None when it is for nothing that was sent, or for the
        second time.
        """
        subject = self._sent.pop(message_id, None)
        self._superseded.pop(message_id, None)
        if subject is None:
            return None
        if subject.is_delete:
            self._acknowledged.pop(subject.key, None)
        elif subject.version >= 0:
            self._acknowledged[subject.key] = max(subject.version, self._acknowledged.get(subject.key, -1))
        for key in (subject.key, f"answer {message_id}"):
            delivery = self._under_way.get(key)
            if delivery is not None and delivery.message.id == message_id:
                self._drop(key)
                self._forget_older(subject)
        return subject

    def due(self, now: float, *, again: bool = True) -> Iterator[Message]:
        """The messages to send now, oldest first; they count as sent.

        Args:
            now: monotonic seconds.
            again: whether to send again what is overdue. Not while the last time has not left yet: a slow node would
                get the same objects again and again, and more waits for it than it will ever take.
        """
        overdue = [(key, one) for key, one in self._under_way.items() if now - one.sent_at >= self._resend_after]
        for key, delivery in overdue if again else ():
            if delivery.is_given_up:
                self._sent.pop(delivery.message.id, None)
                self._drop(key)
            else:
                delivery.sent_at = now
                delivery.times += 1
                yield delivery.message
        while self._waiting and len(self._under_way) < self._window:
            key = next(iter(self._waiting))
            delivery = self._under_way[key] = self._waiting.pop(key)
            delivery.sent_at = now
            delivery.times = 1
            self._sent[delivery.message.id] = delivery.subject
            yield delivery.message

    def acknowledged_version(self, uid: str) -> int | None:
        """The version of an object that the node has acknowledged over this connection."""
        return self._acknowledged.get(uid)

    def _queue(self, key: str, message: Message, subject: Subject) -> None:
        self._drop(key)
        self._waiting[key] = Delivery(message, subject)
        if subject.is_delete and not _is_of_pod(subject):
            self._deletions[subject.resource] = key

    def _drop(self, key: str) -> None:
        dropped = self._waiting.pop(key, None) or self._under_way.pop(key, None)
        if dropped is not None and dropped.message.id in self._sent:
            self._note_superseded(dropped.message.id)
        if dropped is not None and self._deletions.get(dropped.subject.resource) == key:
            del self._deletions[dropped.subject.resource]

    def _note_superseded(self, message_id: str) -> None:
        self._superseded[message_id] = None
        if len(self._superseded) > SUPERSEDED:
            oldest = next(iter(self._superseded))
            del self._superseded[oldest]
            self._sent.pop(oldest, None)

    def _drop_deletion_of_namesake(self, subject: Subject) -> None:
        """An edge deletes most objects by name: a deletion resent after its successor came would take that away.

        Pods are deleted by uid (spec/05), and the edge must hear of each deletion.
        """
        key = None if subject.is_delete else self._deletions.get(subject.resource)
        if key is not None:
            self._drop(key)

    def _forget_older(self, subject: Subject) -> None:
        """Messages about the object that were superseded: their acknowledgements say nothing new."""
        for message_id in list(self._superseded):
            sent = self._sent.get(message_id)
            if sent is None or (sent.key == subject.key and sent.version <= subject.version):
                self._sent.pop(message_id, None)
                del self._superseded[message_id]


def _says_as_much(pending: Subject, offered: Subject) -> bool:
    """Nothing follows a deletion; a deletion supersedes everything else, an object what is older."""
    return pending.is_delete or (not offered.is_delete and offered.version <= pending.version)


def _is_of_pod(subject: Subject) -> bool:
    return "/pod/" in subject.resource


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
