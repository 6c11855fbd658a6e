"""Which module receives a message from the cloud. Pure.

The table of targets is KubeEdge's (edge/pkg/edgehub/messagehandler; docs/protocol.md, "Dispatch"), by wire group, with
three differences. A late answer is not always dropped (`late_object`). And messages that only modules of this node send
each other (the link is up, the machine shuts down, requests and reports of edged) are rejected; KubeEdge's edge accepts
them from the cloud. And only the cloud's taskmanager gives jobs: the owner of the node confirms them.
"""

from enum import Enum
from typing import Final, NamedTuple

from beehive import Group, Message, ModuleName, Operation, ResourceType, Source
from edgehub.counters import Rejection


class Step(Enum):
    """Way of a message from the cloud to its receiver."""

    BROADCAST = "broadcast"
    SEND = "send"
    RESPOND = "respond"
    REJECT = "reject"


class Decision(NamedTuple):
    """A step with its target: a group, a module, or the reason of a rejection."""

    step: Step
    to: str = ""


PUBLISH: Final = Decision(Step.SEND, ModuleName.EVENTBUS)
"""Of a message to publish by MQTT."""

_ANSWER = Decision(Step.RESPOND)
_BY_USER_SOURCE = {
    Source.ROUTER_EVENTBUS.value: PUBLISH,
    Source.ROUTER_SERVICEBUS.value: Decision(Step.SEND, ModuleName.SERVICEBUS),
    Source.ROUTER_REST.value: Decision(Step.SEND, ModuleName.SERVICEBUS),
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
"""Types whose query answers the cloud repeats until they are acknowledged (cloudhub's noAckRequired)."""

_OWN_SOURCES = frozenset(
    {
        ModuleName.EDGEHUB,
        ModuleName.METAMANAGER,
        ModuleName.EDGED,
        ModuleName.METASERVER,
        ModuleName.DEVICETWIN,
        ModuleName.EVENTBUS,
        ModuleName.SERVICEBUS,
        ModuleName.EDGEMESH,
        ModuleName.EDGESTREAM,
        Source.EDGEHUB,
        Source.BUS,
        Source.META,
    }
)
_OWN_OPERATIONS = frozenset({Operation.QUERY, Operation.PATCH, Operation.CONNECT})
_OWN_TYPES = frozenset(
    {
        ResourceType.CONNECTION,
        ResourceType.SHUTDOWN,
        ResourceType.DISK,
        ResourceType.REGISTRATION,
        ResourceType.STORE,
        ResourceType.EVENT,
        ResourceType.DEVICE_TWIN,
        ResourceType.MQTT_TOPICS,
        ResourceType.TARGET_URLS,
        ResourceType.NODE_TASK,
    }
)


def decide(message: Message) -> Decision:
    """Return the target of a message."""
    match message.route.group:
        case Group.RESOURCE | Group.FUNC:
            return _ANSWER if message.parent_id else _unasked(message)
        case Group.TWIN:
            return _twin(message)
        case Group.USER:
            return _ANSWER if message.parent_id else _user(message.route.source)
        case Group.TASKMANAGER if message.route.source == ModuleName.TASKMANAGER:
            return Decision(Step.SEND, ModuleName.TASKMANAGER)
        case Group.TASKMANAGER:
            return Decision(Step.REJECT, Rejection.INTERNAL)
        case _:
            return Decision(Step.REJECT, Rejection.UNKNOWN_GROUP)


def late_object(answer: Message) -> Message | None:
    """Turn an answer that arrives after its request has ended into an update for metamanager; None to drop it.

    KubeEdge drops every such answer. If the answer carries an object, its cloud then misses the acknowledgement,
    repeats the answer for 25 s and blocks the node's other messages meanwhile (docs/protocol.md, "Repetition"). An
    acknowledgement without storing would be worse: the cloud would take the node for up to date. So metamanager handles
    the object like a pushed one: it stores it, unless it has a newer version, and acknowledges it under the same
    message id.
    """
    route = answer.route
    wanted = (
        answer.header.resourceversion
        and route.group == Group.RESOURCE
        and route.operation == Operation.RESPONSE
        and answer.subject.type in _ACKNOWLEDGED_ANSWERS
    )
    if not wanted:
        return None
    return answer.with_header(parent_msg_id="").with_route(operation=Operation.UPDATE)


def _unasked(message: Message) -> Decision:
    """Deliver to metamanager, except messages that only this node's modules send it."""
    route = message.route
    own = route.source in _OWN_SOURCES or route.operation in _OWN_OPERATIONS
    if own or message.subject.type in _OWN_TYPES:
        return Decision(Step.REJECT, Rejection.INTERNAL)
    return Decision(Step.BROADCAST, Group.META)


def _twin(message: Message) -> Decision:
    """Deliver to devicetwin, except messages from applications and metamanager."""
    if message.route.source in _OWN_SOURCES and not message.parent_id:
        return Decision(Step.REJECT, Rejection.INTERNAL)
    return Decision(Step.BROADCAST, Group.TWIN)


def _user(source: str) -> Decision:
    return _BY_USER_SOURCE.get(source, Decision(Step.REJECT, Rejection.UNKNOWN_SOURCE))
