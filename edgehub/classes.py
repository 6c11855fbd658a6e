"""How each message to the cloud is kept: a decision and nothing else.

| class | what it is | kept in the outbox | when there is no room |
|---|---|---|---|
| REQUEST | somebody waits for its answer | no: who asked knows best whether to ask again | it is refused |
| ANSWER | an acknowledgement, an error | no: the cloud sends again what was not answered | it is refused |
| STATE | the present state of an object that nobody waits with | the newest of each object | it is refused |
| EVENT | a Kubernetes event | yes, in order; of updates the newest | the oldest event gives way |
| UPLOAD | everything else | yes, in order | it is refused |
| KEEPALIVE | it only means something now | no | |

The patches of pods and nodes and the lease are requests: edged waits for their answers and makes new ones from what is
then true, so that keeping them too would only bring old news later. What is kept is what would otherwise be lost for
good.
"""

from collections.abc import Hashable
from enum import Enum

import msgspec

from beehive import Message, Operation, ResourceType
from beehive.resource import Side, type_of

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
_EVENT_OPERATIONS = frozenset({Operation.INSERT, Operation.UPDATE, Operation.PATCH})


class Class(Enum):
    """How a message is kept; see the module's docstring."""

    REQUEST = "request"
    ANSWER = "answer"
    STATE = "state"
    EVENT = "event"
    UPLOAD = "upload"
    KEEPALIVE = "keepalive"

    @property
    def kept(self) -> bool:
        """Whether it is in the store before it leaves, and until the cloud has it."""
        return self in _KEPT


_KEPT = frozenset({Class.STATE, Class.EVENT, Class.UPLOAD})


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A message, and the frame it leaves as."""

    message: Message
    frame: bytes
    kind: Class
    accepted: float = 0.0
    """When it was taken, in monotonic seconds."""
    serial: int = 0
    """Its number in the store; 0 while it is not for the store."""

    @property
    def state(self) -> Hashable | None:
        """Whose state it is, so that a newer one stands for it; None when each must arrive."""
        route = self.message.route
        if self.kind is Class.STATE or (self.kind is Class.EVENT and route.operation == Operation.UPDATE):
            return route.resource, route.operation
        return None


def classify(message: Message) -> Class:
    """How a message to the cloud is kept."""
    route = message.route
    if message.header.sync:
        return Class.REQUEST
    if message.parent_id and route.operation in _ANSWER_OPERATIONS:
        return Class.ANSWER
    kind = type_of(route.resource, Side.EDGE)
    if route.operation in _STATE_OPERATIONS and kind in _STATES:
        return Class.STATE
    if route.operation in _EVENT_OPERATIONS and kind == ResourceType.EVENT:
        return Class.EVENT
    return Class.UPLOAD
