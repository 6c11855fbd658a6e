"""The messages of devicetwin to applications and to the cloud, in KubeEdge's form and order of keys. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from modules.edge.devicetwin import topics
from modules.edge.devicetwin.requests import TwinRequest
from modules.edge.devicetwin.state import Device, Side, Twin
from modules.edge.devicetwin.twins import differs

Json = dict[str, Any]


class Publication(msgspec.Struct, frozen=True):
    """A message to applications."""

    topic: str
    payload: bytes


class MessageStamp(msgspec.Struct, frozen=True):
    """The time of a message, and the source of new ids."""

    now: int
    """Milliseconds since the Unix epoch."""
    new_id: Callable[[], str]


def error(topic: str, event_id: str, now: int, code: int, reason: str) -> Publication:
    """Return the refusal of a request."""
    return _publication(topic, {"event_id": event_id, "timestamp": now, "code": code, "reason": reason})


def update_result(
    device: Device, event_id: str, now: int, asked: Mapping[str, TwinRequest | None], before: Mapping[str, Twin]
) -> Publication:
    """Return the answer to `twin/update`: the values that were set, and null for each deleted property."""
    twins: Json = {}
    for name, one in asked.items():
        twin = device.twins.get(name)
        if one is not None and twin is not None:
            given = {"expected": one.expected, "actual": one.actual}
            sides = {key: _value(text, now) for key, text in given.items() if text is not None}
            twins[name] = {**sides, "optional": twin.optional, "metadata": {"type": twin.type}}
        elif one is None and name in before and twin is not before[name]:
            twins[name] = None
    topic = topics.device_topic(device.id, topics.TWIN_RESULT)
    return _publication(topic, {"event_id": event_id, "timestamp": now, "twin": twins})


def get_result(device: Device, event_id: str, now: int) -> Publication:
    """Return the answer to `twin/get`: all properties, without versions."""
    twins = {name: twin_json(one) for name, one in sorted(device.twins.items()) if one.is_live}
    topic = topics.device_topic(device.id, topics.TWIN_GET_RESULT)
    return _publication(topic, {"event_id": event_id, "timestamp": now, "twin": twins})


def state_result(device: Device, event_id: str, now: int, end: str = topics.STATE_RESULT) -> Publication:
    """Return the answer to `state/update` and `state/get`."""
    return _publication(topics.device_topic(device.id, end), state_json(device, event_id, now))


def changes(before: Device, after: Device, event_id: str, stamp: MessageStamp) -> Iterable[Publication]:
    """Yield the messages to applications about changed properties: the document, and the delta of all properties that
    differ.
    """
    names = sorted(name for name, one in after.twins.items() if one is not before.twins.get(name))
    changed = [name for name in names if _has_changed(before.twins.get(name), after.twins[name])]
    if changed:
        pairs = {name: {"last": _json(before, name), "current": _json(after, name)} for name in changed}
        topic = topics.device_topic(after.id, topics.TWIN_DOCUMENT)
        yield _publication(topic, {"event_id": event_id, "timestamp": stamp.now, "twin": pairs})
    if names:
        yield from delta(after, stamp)


def delta(device: Device, stamp: MessageStamp) -> Iterable[Publication]:
    """Yield the message to applications about the properties whose expected value differs from the actual one, if there
    are any.
    """
    differing = {
        name: one.expected.value for name, one in sorted(device.twins.items()) if differs(one) and one.expected
    }
    if differing:
        expecting = {
            name: twin_json(one)
            for name, one in sorted(device.twins.items())
            if one.is_live and one.expected and one.expected.value
        }
        said = {"event_id": stamp.new_id(), "timestamp": stamp.now, "twin": expecting, "delta": differing}
        yield _publication(topics.device_topic(device.id, topics.TWIN_DELTA), said)


def membership(node: str, event_id: str, now: int, added: Iterable[Device], removed: Iterable[Device]) -> Publication:
    """Return the message that devices were added or removed."""
    lists = {
        "added_devices": [device_json(one, twins=True) for one in added] or None,
        "removed_devices": [{"id": one.id, "name": one.name} for one in removed] or None,
    }
    topic = topics.node_topic(node, topics.MEMBERSHIP_UPDATED)
    return _publication(topic, {"event_id": event_id, "timestamp": now, **lists})


def members(node: str, event_id: str, now: int, devices: Iterable[Device]) -> Publication:
    """Return the answer to `membership/get`."""
    topic = topics.node_topic(node, topics.MEMBERSHIP_RESULT)
    return _publication(topic, {"event_id": event_id, "timestamp": now, "devices": [*map(device_json, devices)]})


def attributes(device: Device, event_id: str, now: int) -> Publication:
    """Return the message that the cloud has changed a device's attributes."""
    said = {"event_id": event_id, "timestamp": now, "attributes": _attributes(device)}
    return _publication(topics.device_topic(device.id, topics.UPDATED), said)


def device_json(device: Device, *, twins: bool = False) -> Json:
    """Return a device as applications see it; keys without a value are left out."""
    said: Json = {
        "id": device.id,
        "name": device.name,
        "description": device.description,
        "state": device.state,
        "last_online": device.last_online,
        "attributes": _attributes(device),
    }
    if twins:
        said["twin"] = {name: twin_json(one) for name, one in sorted(device.twins.items()) if one.is_live}
    return {key: value for key, value in said.items() if value}


def state_json(device: Device, event_id: str, now: int) -> Json:
    """Return a device's state in the form that the cloud gets."""
    inner = {
        "name": device.name,
        "state": device.state,
        "lastOnlineTime": device.last_online,
        "refusal": device.refusal,
    }
    inner = {key: value for key, value in inner.items() if value}
    return {"event_id": event_id, "timestamp": now, "device": inner}


def upload(device: Device, event_id: str, now: int) -> Json:
    """Return all changes of a device's properties that the cloud has not confirmed."""
    twins = {name: said for name, one in sorted(device.twins.items()) if (said := _due(one)) is not None}
    return {"event_id": event_id, "timestamp": now, "twin": twins}


def detail_question(node: str, event_id: str, now: int) -> str:
    """Return the content of the request for the list of the node's devices: JSON as a string."""
    said = {"event_type": "group_membership_event", "event_id": event_id, "group_id": node, "operation": "detail"}
    return msgspec.json.encode({**said, "timestamp": now}).decode()


def twin_json(twin: Twin) -> Json:
    """Return a property without its versions."""
    sides = {"expected": twin.expected, "actual": twin.actual}
    said: Json = {key: _side(side) for key, side in sides.items() if side is not None and side.value is not None}
    return {**said, "optional": twin.optional, "metadata": {"type": twin.type}}


def _due(twin: Twin) -> Json | None:
    sides = {"expected": twin.expected, "actual": twin.actual}
    due = {key: side for key, side in sides.items() if side is not None and side.due}
    if not due:
        return None
    told = due if twin.is_live else sides
    versions = {f"{key}_version": _version(side or Side()) for key, side in told.items()}
    values = {key: _side(side) for key, side in due.items()}
    return {**values, "optional": twin.optional, "metadata": {"type": twin.type}, **versions}


def _has_changed(before: Twin | None, after: Twin) -> bool:
    return before is None or twin_json(before) != twin_json(after)


def _json(device: Device, name: str) -> Json | None:
    twin = device.twins.get(name)
    return twin_json(twin) if twin is not None and twin.is_live else None


def _attributes(device: Device) -> Json:
    return {
        name: {"value": one.value, "optional": one.optional, "metadata": {"type": one.type}}
        for name, one in sorted(device.attributes.items())
    }


def _side(side: Side) -> Json:
    return {} if side.value is None else _value(side.value, side.timestamp)


def _value(value: str, timestamp: int) -> Json:
    return {"value": value, "metadata": {"timestamp": timestamp}}


def _version(side: Side) -> Json:
    return {"cloud": side.cloud, "edge": side.edge}


def _publication(topic: str, said: Json) -> Publication:
    return Publication(topic, msgspec.json.encode(said))
