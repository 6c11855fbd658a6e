"""Reliable delivery of messages to one node (KubeEdge's NodeSession)."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from beehive.decoding import json_decoder
from beehive.message import Message
from beehive.names import Operation
from beehive.resource import trim_node
from beehive.whole_numbers import whole_number
from modules.cloud.cloudhub.acknowledgement import plain_content
from modules.cloud.messages import ObjectMessage

WINDOW = 64
"""Maximum of sent messages without an acknowledgement."""
WAITING = 4096
"""Messages waiting for the window above which responses are refused: a node that repeats requests and acknowledges
nothing can ask again later."""
SUPERSEDED = 256
"""Maximum of superseded messages whose acknowledgements still count; bounds the memory for a node that never
acknowledges an object that keeps changing."""
_ANSWER_SENT = 5
"""Maximum of transmissions of a response. A Go edge does not acknowledge a response whose request has timed out
(docs/protocol.md, "Late answers"), and repeats the request if it still needs the object; unacknowledged responses would
fill the window in time."""


class OfferResult(StrEnum):
    """The result of offering a message for delivery."""

    QUEUED = "queued"
    ON_ITS_WAY = "this version or a newer one is on its way"
    ACKNOWLEDGED = "the node has this version"
    NO_VERSION = "no resourceversion in the header"
    NO_ROOM = "too many answers wait for the node"


class ObjectVersion(msgspec.Struct, frozen=True):
    """The object of a message, and its version."""

    key: str
    """The uid, or the resource of an object without uid."""
    resource: str
    version: int
    is_delete: bool


class Delivery(msgspec.Struct):
    """A message that waits for its transmission or its acknowledgement."""

    message: Message
    object: ObjectVersion
    sent_at: float = 0.0
    """Monotonic seconds of the last transmission; 0 before the first."""
    times: int = 0
    """Number of transmissions."""
    first_sent_at: float = 0.0
    """Monotonic seconds of the first transmission; 0 before it."""

    @property
    def is_given_up(self) -> bool:
        """Whether the message is a response that was sent often enough."""
        return self.message.route.operation == Operation.RESPONSE and self.times >= _ANSWER_SENT


class NodeSession:
    """The deliveries over one connection of a node, as a state machine without side effects.

    As in KubeEdge, only the newest version of an object is pending; a message is resent with the same id until it is
    acknowledged; an acknowledged version is not sent again, except for endpoints; and the session ends with the
    connection. The sender repeats undelivered messages over the next connection (for objects: `ObjectSyncs`), perhaps
    from another cloudcore.
    KubeEdge sends one message at a time and stops at the first unacknowledged one. Here a window of messages is under
    way, so an object that an edge cannot store delays no other.

    Args:
        resend_after: seconds without an acknowledgement after which a message is sent again.
        window: maximum of sent messages without an acknowledgement.
        resent: called when a message is sent again.
    """

    def __init__(self, resend_after: float, window: int = WINDOW, resent: Callable[[], None] = lambda: None) -> None:
        self._resent = resent
        self._resend_after = resend_after
        self._window = window
        self._waiting: dict[str, Delivery] = {}
        """Messages not sent yet, oldest first, by uid; responses by message id."""
        self.under_way: dict[str, Delivery] = {}
        """Messages that were sent and not acknowledged, as those."""
        self._sent: dict[str, ObjectVersion] = {}
        """Sent objects that may still be acknowledged, by message id, including superseded ones."""
        self._superseded: dict[str, None] = {}
        """Ids of superseded messages, oldest first."""
        self._acknowledged: dict[str, int] = {}
        self._deletions: dict[str, str] = {}
        """Uids with a pending deletion, by resource; not of pods."""

    def __len__(self) -> int:
        return len(self._waiting) + len(self.under_way)

    @property
    def waiting(self) -> int:
        """The number of messages that were not sent yet."""
        return len(self._waiting)

    @property
    def unacknowledged(self) -> int:
        """The number of messages that were sent and not acknowledged."""
        return len(self.under_way)

    def oldest_unacknowledged(self) -> float | None:
        """Return the monotonic seconds of the first attempt of the oldest unacknowledged message, or None."""
        under_way = list(self.under_way.values())  # in one step, as other threads may ask
        return min((delivery.first_sent_at for delivery in under_way), default=None)

    def offer(self, message: Message) -> OfferResult:
        """Queue a message, unless the node has this or a newer version, or it is pending (docs/protocol.md, "To a
        node").
        """
        obj = object_version_of(message)
        if message.route.operation == Operation.RESPONSE:
            if len(self._waiting) >= WAITING:
                return OfferResult.NO_ROOM
            self._queue(f"answer {message.id}", message, obj)
            return OfferResult.QUEUED
        if not obj.is_delete and obj.version < 0:
            return OfferResult.NO_VERSION
        pending = self._waiting.get(obj.key) or self.under_way.get(obj.key)
        if pending is not None and _supersedes(pending.object, obj) and not _is_other_part(pending, message, obj):
            return OfferResult.ON_ITS_WAY
        known = self._acknowledged.get(obj.key, -1)
        is_known = obj.version < known or (obj.version == known and not _is_sent_in_part(obj))
        if pending is None and not obj.is_delete and is_known:
            return OfferResult.ACKNOWLEDGED
        if self._deletions:
            self._drop_deletion_of_predecessor(obj)
        self._queue(obj.key, message, obj)
        return OfferResult.QUEUED

    def acknowledge(self, message_id: str) -> ObjectVersion | None:
        """Record an acknowledgement and return its object; None for an unknown message or a repetition."""
        obj = self._sent.pop(message_id, None)
        self._superseded.pop(message_id, None)
        if obj is None:
            return None
        if obj.is_delete:
            self._acknowledged.pop(obj.key, None)
        elif obj.version >= 0:
            self._acknowledged[obj.key] = max(obj.version, self._acknowledged.get(obj.key, -1))
        for key in (obj.key, f"answer {message_id}"):
            delivery = self.under_way.get(key)
            if delivery is not None and delivery.message.header.msg_id == message_id:
                self._drop(key)
                if self._superseded:
                    self._forget_older(obj)
        return obj

    def overdue(self, now: float) -> Iterator[Message]:
        """Yield the messages to send again, oldest first, and count them as sent."""
        overdue = [(key, one) for key, one in self.under_way.items() if now - one.sent_at >= self._resend_after]
        for key, delivery in overdue:
            if delivery.is_given_up:
                self._sent.pop(delivery.message.id, None)
                self._drop(key)
            else:
                delivery.sent_at = now
                delivery.times += 1
                self._resent()
                yield delivery.message

    def due(self, now: float) -> list[Message]:
        """Return the messages to send for the first time now, oldest first, and count them as sent."""
        due = list[Message]()
        while self._waiting and len(self.under_way) < self._window:
            key = next(iter(self._waiting))
            delivery = self.under_way[key] = self._waiting.pop(key)
            delivery.sent_at = delivery.first_sent_at = now
            delivery.times = 1
            self._sent[delivery.message.header.msg_id] = delivery.object
            due.append(delivery.message)
        return due

    def _queue(self, key: str, message: Message, obj: ObjectVersion) -> None:
        if key in self._waiting or key in self.under_way:
            self._drop(key)
        self._waiting[key] = Delivery(message, obj)
        if obj.is_delete and self._superseded:
            self._forget_older(obj)
        if obj.is_delete and not _is_of_pod(obj):
            self._deletions[obj.resource] = key

    def _drop(self, key: str) -> None:
        dropped = self._waiting.pop(key, None) or self.under_way.pop(key, None)
        if dropped is None:
            return
        if (message_id := dropped.message.header.msg_id) in self._sent:
            self._record_superseded(message_id)
        if self._deletions.get(dropped.object.resource) == key:
            del self._deletions[dropped.object.resource]

    def _record_superseded(self, message_id: str) -> None:
        self._superseded[message_id] = None
        if len(self._superseded) > SUPERSEDED:
            oldest = next(iter(self._superseded))
            del self._superseded[oldest]
            self._sent.pop(oldest, None)

    def _drop_deletion_of_predecessor(self, obj: ObjectVersion) -> None:
        """Drop the pending deletion of an earlier object of the same name.

        An edge deletes most objects by name: a deletion resent after the new object would delete that. Pods are deleted
        by uid (docs/protocol.md, "Message table"), and the edge must receive each deletion.
        """
        key = None if obj.is_delete else self._deletions.get(obj.resource)
        if key is not None:
            self._drop(key)

    def _forget_older(self, obj: ObjectVersion) -> None:
        """Forget superseded messages of the object, whose acknowledgements are irrelevant now: after a deletion all.
        The object may come back in the version that was sent before.
        """
        for message_id in list(self._superseded):
            sent = self._sent.get(message_id)
            if sent is None or (sent.key == obj.key and (obj.is_delete or sent.version <= obj.version)):
                self._sent.pop(message_id, None)
                del self._superseded[message_id]


def _supersedes(pending: ObjectVersion, offered: ObjectVersion) -> bool:
    """Return whether a pending message makes the offered one unnecessary.

    Nothing follows a deletion; a deletion supersedes any version, and a version supersedes older ones.
    """
    return pending.is_delete or (not offered.is_delete and offered.version <= pending.version)


def _is_other_part(pending: Delivery, message: Message, obj: ObjectVersion) -> bool:
    """Return whether a message has another part of an object than the pending one, in the same version."""
    is_same = pending.object.version == obj.version and not pending.object.is_delete
    return is_same and _is_sent_in_part(obj) and pending.message.content != message.content


def _is_sent_in_part(obj: ObjectVersion) -> bool:
    """Return whether a node gets its part of an object, which may change without the object: the endpoints of a Service
    that keeps to node groups.
    """
    return "/endpointslice/" in obj.resource or "/endpoints/" in obj.resource


def _is_of_pod(obj: ObjectVersion) -> bool:
    return "/pod/" in obj.resource


def object_version_of(message: Message) -> ObjectVersion:
    """Return the object of a message, from its content or else from its resource."""
    resource, is_delete = trim_node(message.route.resource), message.route.operation == Operation.DELETE
    if isinstance(message, ObjectMessage):
        return ObjectVersion(message.uid, resource, message.number, is_delete)
    version = whole_number(message.header.resourceversion)
    return ObjectVersion(_uid_in(message) or resource, resource, -1 if version is None else version, is_delete)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT: Final = json_decoder(_Object)


def _uid_in(message: Message) -> str:
    """Return the uid of the object in a message, or "". It decodes no other part of JSON content."""
    if isinstance(message.content, msgspec.Raw):
        try:
            return _OBJECT.decode(message.content).metadata.uid
        except (msgspec.DecodeError, UnicodeError):
            pass  # another form than an object's
    content = plain_content(message)
    metadata = content.get("metadata") if isinstance(content, dict) else None
    return str(metadata.get("uid") or "") if isinstance(metadata, dict) else ""
