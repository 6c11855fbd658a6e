"""Where a message from the cloud goes: a decision and nothing else.

The table is KubeEdge's (edge/pkg/edgehub/messagehandler; spec/03 §3.3), by wire group. One thing is added: an answer
that nobody waits for any more is not always dropped, see `late_object`. And one is taken away: what only modules of
this node say to each other (that the link is up, that the machine shuts down, what edged asks and reports) is not for
the cloud to say. KubeEdge's edge takes it from anybody.
"""

from enum import Enum
from typing import NamedTuple

from beehive import Group, Message, ModuleName, Operation, ResourceType, Source
from beehive.resource import Side, type_of
from edgehub.counters import Rejection


class Step(Enum):
    """What is done with a message."""

    BROADCAST = "broadcast"
    SEND = "send"
    RESPOND = "respond"
    REJECT = "reject"


class Decision(NamedTuple):
    """A step and its object: a group, a module, or why the message is rejected."""

    step: Step
    to: str = ""


_ANSWER = Decision(Step.RESPOND)
_BY_USER_SOURCE = {
    Source.ROUTER_EVENTBUS.value: Decision(Step.SEND, ModuleName.EVENTBUS),
    Source.ROUTER_SERVICEBUS.value: Decision(Step.SEND, ModuleName.SERVICEBUS),
}
_ACKNOWLEDGED_ANSWERS = frozenset(
    {
        ResourceType.CONFIGMAP,
        ResourceType.SECRET,
        ResourceType.PERSISTENT_VOLUME,
        ResourceType.PERSISTENT_VOLUME_CLAIM,
        ResourceType.VOLUME_ATTACHMENT,
    }
)
"""Types whose query answers the cloud sends again until they are acknowledged (cloudhub's noAckRequired)."""


_OWN_SOURCES = frozenset(
    {
        ModuleName.EDGEHUB,
        ModuleName.METAMANAGER,
        ModuleName.EDGED,
        ModuleName.METASERVER,
        ModuleName.DEVICETWIN,
        ModuleName.EVENTBUS,
        ModuleName.EDGESTREAM,
        Source.EDGEHUB,
        Source.BUS,
        Source.META,
    }
)
_OWN_OPERATIONS = frozenset({Operation.QUERY, Operation.PATCH, Operation.CONNECT})
_OWN_TYPES = frozenset({ResourceType.CONNECTION, ResourceType.SHUTDOWN, ResourceType.STORE, ResourceType.EVENT})


def decide(message: Message) -> Decision:
    """Where a message goes."""
    match message.route.group:
        case Group.RESOURCE | Group.FUNC:
            return _ANSWER if message.parent_id else _unasked(message)
        case Group.TWIN:
            return Decision(Step.BROADCAST, Group.TWIN)
        case Group.USER:
            return _ANSWER if message.parent_id else _user(message.route.source)
        case Group.TASKMANAGER:
            return Decision(Step.SEND, ModuleName.TASKMANAGER)
        case _:
            return Decision(Step.REJECT, Rejection.UNKNOWN_GROUP)


def late_object(answer: Message) -> Message | None:
    """What to make of an answer whose waiter has gone: an update for metamanager, or None to drop it.

    KubeEdge drops every such answer. Where it carries an object, its cloud then misses the acknowledgement, repeats the
    answer for 25 s and blocks all else that it has for the node meanwhile (spec/04 §6). To acknowledge it unstored
    would be worse: the cloud would hold the node for up to date. So it goes the way of an object that was pushed:
    metamanager stores it, unless it has a newer one, and acknowledges it under the same message id.
    """
    route = answer.route
    wanted = (
        answer.header.resourceversion
        and route.group == Group.RESOURCE
        and route.operation == Operation.RESPONSE
        and type_of(route.resource, Side.EDGE) in _ACKNOWLEDGED_ANSWERS
    )
    if not wanted:
        return None
    return answer.with_header(parent_msg_id="").with_route(operation=Operation.UPDATE)


def _unasked(message: Message) -> Decision:
    """To metamanager, unless it is what metamanager is told by modules of this node only."""
    route = message.route
    own = route.source in _OWN_SOURCES or route.operation in _OWN_OPERATIONS
    if own or type_of(route.resource, Side.EDGE) in _OWN_TYPES:
        return Decision(Step.REJECT, Rejection.INTERNAL)
    return Decision(Step.BROADCAST, Group.META)


def _user(source: str) -> Decision:
    return _BY_USER_SOURCE.get(source, Decision(Step.REJECT, Rejection.UNKNOWN_SOURCE))
