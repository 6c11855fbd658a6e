"""The messages that metamanager sends, each with the way it goes; built from the one that was handled."""

from typing import NamedTuple

from beehive import Clock, Group, Message, ModuleName, Source, Way


class Effect(NamedTuple):
    """A message that is to leave the module."""

    way: Way
    """SEND to a module, BROADCAST to a group, RESPONSE to whoever waits."""
    destination: str
    message: Message


def to_edged(message: Message) -> Effect:
    """The message as it came."""
    return Effect(Way.SEND, ModuleName.EDGED, message)


def to_twin(message: Message) -> Effect:
    """The message, from whom and for whom devicetwin expects it (KubeEdge)."""
    return Effect(Way.SEND, ModuleName.DEVICETWIN, message.with_route(source=Source.META, group=Group.TWIN))


def to_cloud(message: Message) -> Effect:
    """The message as it came; its sender waits for the cloud's answer, if for any."""
    return Effect(Way.BROADCAST, Group.HUB, message)


def ok_to_cloud(message: Message, clock: Clock) -> Effect:
    """The acknowledgement of a message from the cloud: it is in the store (spec/02 §8)."""
    return to_cloud(message.reply(clock))


def answer(request: Message, reply: Message) -> Effect:
    """An answer to whoever asked: to the one who waits, or into edged's inbox when it did not wait."""
    if request.header.sync:
        return Effect(Way.RESPONSE, "", reply)
    return Effect(Way.SEND, ModuleName.EDGED, reply)


def stored(request: Message, values: list[str], clock: Clock) -> Effect:
    """The answer from the store: a list of objects as strings, marked by our name as source (spec/05 §5.1)."""
    return answer(request, request.reply(clock, values, source=ModuleName.METAMANAGER))


def refusal(request: Message, text: str, clock: Clock) -> Effect:
    """The error answer (spec/05 §7): to who waits, to edged when it asked, else to the cloud."""
    error = request.error(clock, text, source=ModuleName.METAMANAGER, group=request.route.group)
    if request.header.sync or request.route.source == ModuleName.EDGED:
        return answer(request, error)
    return to_cloud(error)
