"""The class of each message to the cloud, and its frame. Pure."""

from collections.abc import Hashable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from beehive import ContentError, Message, ModuleName, Operation, ResourceType, encode
from edgehub.counters import Refusal

_STATES = frozenset(
    {
        ResourceType.PODPATCH,
        ResourceType.NODEPATCH,
        ResourceType.NODESTATUS,
        ResourceType.PODSTATUS,
        ResourceType.LEASE,
    }
)
_STATE_OPERATIONS = frozenset({Operation.UPDATE, Operation.PATCH})
_ANSWER_OPERATIONS = frozenset({Operation.RESPONSE, Operation.ERROR})
_WHOLE = frozenset({Operation.INSERT, Operation.UPDATE})
_EVENT_OPERATIONS = _WHOLE | {Operation.PATCH}


class MessageClass(StrEnum):
    """The class of a message to the cloud, which decides how long it is kept.

    | class | meaning | kept in the outbox | without room |
    |---|---|---|---|
    | REQUEST | its sender waits for the answer | no: the sender repeats it if need be | refused |
    | ANSWER | an acknowledgement or error | no: the cloud repeats the unanswered message | refused |
    | RESPONSE | of an application to a caller in the cloud | no: the caller waits no longer than the link | refused |
    | STATE | the state of an object, without a waiting sender | the newest of each object | refused |
    | EVENT | a Kubernetes event | unless the cloud reads it soon; of each the newest state | the oldest is dropped |
    | TWIN | a device's values, which devicetwin repeats until they are confirmed | no: devicetwin has it | refused |
    | UPLOAD | all others | yes, in order | refused |
    | KEEPALIVE | `keepalive` of the node | no | |

    Patches of pods and nodes, and the lease, are requests: edged waits for their answers and makes new ones from the
    state at that time, so a kept request would only deliver an old state later. Only messages that would otherwise be
    lost for good are kept.
    """

    REQUEST = "request"
    ANSWER = "answer"
    RESPONSE = "response"
    STATE = "state"
    EVENT = "event"
    TWIN = "twin"
    UPLOAD = "upload"
    KEEPALIVE = "keepalive"

    @property
    def kept(self) -> bool:
        """Whether the outbox stores the message before it leaves and until the cloud has it."""
        return self in _KEPT


_NEWEST = frozenset({MessageClass.STATE, MessageClass.TWIN})
_NOT_RATED = frozenset({MessageClass.ANSWER, MessageClass.RESPONSE, MessageClass.KEEPALIVE})
_KEPT = frozenset({MessageClass.STATE, MessageClass.EVENT, MessageClass.UPLOAD})


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A message to the cloud with its encoded frame."""

    message: Message
    """Without its content, which is in the frame."""
    frame: bytes
    kind: MessageClass
    accepted: float = 0.0
    """When edgehub accepted it, in monotonic seconds."""
    serial: int = 0
    """Its number in the outbox; 0 for an entry that is not stored."""

    @property
    def state(self) -> Hashable | None:
        """Key under which a newer state replaces this entry; None for messages that must all arrive.

        The update of an event has the whole event and takes the place of its waiting insert: an API server creates an
        event that is updated and not there.
        """
        route = self.message.route
        if self.kind in _NEWEST:
            return route.resource, route.operation
        if self.kind is MessageClass.EVENT and route.operation in _WHOLE:
            return route.resource, MessageClass.EVENT
        return None


def is_rated(entry: Entry) -> bool:
    """Return whether the rate limit counts a message.

    KubeEdge exempts keepalives only; but there are only as many acknowledgements as messages from the cloud, and a late
    one makes it send the object again. The deletion of a pod follows its last status, which the limit has counted.
    """
    route = entry.message.route
    ends_a_pod = route.operation == Operation.DELETE and entry.message.subject.type == ResourceType.POD
    return entry.kind not in _NOT_RATED and not ends_a_pod


def classify(message: Message) -> MessageClass:
    """Return the class of a message to the cloud."""
    route = message.route
    if message.header.sync:
        return MessageClass.REQUEST
    if message.parent_id and route.operation in _ANSWER_OPERATIONS:
        return MessageClass.ANSWER
    if message.parent_id and route.source == ModuleName.SERVICEBUS:
        return MessageClass.RESPONSE
    if route.source == ModuleName.DEVICETWIN:
        return MessageClass.TWIN
    kind = message.subject.type
    if route.operation in _STATE_OPERATIONS and kind in _STATES:
        return MessageClass.STATE
    if route.operation in _EVENT_OPERATIONS and kind == ResourceType.EVENT:
        return MessageClass.EVENT
    return MessageClass.UPLOAD


class EncodingRefused(NamedTuple):
    """Reason why a message cannot be encoded."""

    why: Refusal
    detail: str


def encode_frame(message: Message, limit: int, now: float) -> Entry | EncodingRefused:
    """Encode a message in at most `limit` bytes; `now` is in monotonic seconds.

    A message whose content alone exceeds the limit is refused before it is encoded. `sync` has a meaning in this
    process only: it is cleared, as by KubeEdge's hub.
    """
    size = _known_size(message)
    frame = b""
    if size <= limit:
        try:
            frame = encode(message.with_header(sync=False) if message.header.sync else message)
        except ContentError as error:
            return EncodingRefused(Refusal.NOT_JSON, str(error))
        size = len(frame)
    if size > limit:
        return EncodingRefused(Refusal.TOO_LARGE, f"{size} bytes are over the limit of {limit}")
    return Entry(message.with_content(None), frame, classify(message), now)


def _known_size(message: Message) -> int:
    """Return a lower bound of the message's size in bytes, without encoding it."""
    content = message.content
    return len(content) if isinstance(content, (str, bytes, bytearray, msgspec.Raw)) else 0
