"""The messages that metamanager sends in reply to a message. Pure."""

from typing import NamedTuple

from beehive import Clock, DeliveryMode, Group, Message, ModuleName, Source


class Reply(NamedTuple):
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
