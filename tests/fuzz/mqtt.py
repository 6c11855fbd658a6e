"""Topics and payloads of applications on the MQTT broker: what eventbus takes, and what devicetwin makes of it."""

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, Final

import msgspec

from beehive import Message, Operation, Source
from beehive.message import Header, Route
from modules.apimachinery.device_properties import ModelProperty
from modules.apimachinery.device_topics import LONGEST_TOPIC, is_filter, is_topic
from modules.edge.devicetwin import changes
from modules.edge.devicetwin.answers import MessageStamp
from modules.edge.devicetwin.changes import Rules
from modules.edge.devicetwin.errors import TwinRefused
from modules.edge.devicetwin.requests import read_object, read_state, read_twins
from modules.edge.devicetwin.state import Device, decode, encode
from modules.edge.devicetwin.topics import Action, asked_by, is_device_id
from modules.edge.devicetwin.values import MAX_DEVICE, MAX_PROPERTIES
from modules.edge.eventbus.counters import RefusalReason
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.refusals import refusal_of
from modules.edge.eventbus.routing import is_for_devices, twin_resource
from tests.fuzz.mutate import misshape, mutate
from tests.fuzz.target import Target, must

_NODE: Final = "edge-1"
_DEVICE: Final = "default/thermo"
_VOICE: Final = MessageStamp(1_795_192_979_794, lambda: "id")
_MODELS: Final = {"t": ModelProperty("t", "INT", "ReadOnly", "-40", "125"), "s": ModelProperty("s", "FLOAT")}


def _check_topic(data: bytes, _: Random) -> None:
    """A topic that is taken is one, and reaches devicetwin as it was; what only the cloud says is refused there."""
    topic = data.decode("utf-8", "surrogateescape")
    try:
        topic.encode()
    except UnicodeEncodeError:
        topic = ""  # as the session reports what is no text
    refused = refusal_of(Received(topic, b"{}", 1, 1, retained=False))
    must((refused is None) == is_topic(topic), "what is refused is what is no topic")
    must(not is_topic(topic) or is_filter(topic), "a topic is a filter, too")
    must(len(topic.encode()) <= LONGEST_TOPIC or not is_filter(topic), "a filter is no longer than a topic")
    if refused is not None or not is_for_devices(topic):
        return
    resource = twin_resource(topic)
    must(base64.urlsafe_b64decode(resource).decode() == topic, "the topic arrives as it was")
    route = Route(source=Source.BUS, group="user", operation=Operation.RESPONSE, resource=resource)
    asked = asked_by(Message(Header(msg_id="m"), route, None), _NODE)
    must(asked.action not in _CLOUD_ONLY, "no application speaks for the cloud")
    must(not asked.id or is_device_id(asked.id), "a device has an id")


def _topics() -> Sequence[bytes]:
    return (
        b"$hw/events/device/default/thermo/twin/update",
        b"$hw/events/device/thermo/state/update",
        b"$hw/events/device/default/thermo/twin/cloud_updated",
        b"$hw/events/node/edge-1/membership/get",
        b"$hw/events/node/edge-1/membership/updated",
        b"plant/user/line/7",
        b"SYS/dis/upload_records",
        b"+/user/#",
    )


def _check_payload(data: bytes, _: Random) -> None:
    """A report changes a device within its limits, or is refused; what is stored can be read again; versions grow."""
    refused = refusal_of(Received("$hw/events/device/a/b/twin/update", data, 1, 1, retained=False))
    if refused is not None:
        must(refused[0] is RefusalReason.BINARY, "only what is no text is refused")
        return
    before = _device()
    for act in (_update, _state):
        try:
            after = act(before, data.decode())
        except TwinRefused as why:
            must(400 <= why.code < 500 and bool(why.reason), "a refusal says why")
            continue
        must(decode(encode(after)) == after, "what is stored can be read again")
        must(len(after.twins) <= MAX_PROPERTIES and after.size <= MAX_DEVICE, "a device stays within its limits")
        for name, twin in before.twins.items():
            now = after.twins[name].actual
            must(twin.actual is None or (now is not None and now.edge >= twin.actual.edge), "versions never fall")


def _update(device: Device, text: str, models: Mapping[str, ModelProperty] = _MODELS) -> Device:
    return changes.update_twins(device, read_twins(read_object(text)), models, _VOICE, Rules()).device


def _state(device: Device, text: str) -> Device:
    return changes.set_state(device, read_state(read_object(text)), "", _VOICE, Rules()).device


@cache
def _device() -> Device:
    """A device with some values, and a property that was deleted, from before the node had its model."""
    made = Device(_DEVICE, "thermo")
    for report in _reports():
        made = _update(made, report.decode(), {})
    return made


def _reports() -> tuple[bytes, ...]:
    values: tuple[dict[str, Any] | None, ...] = (
        {"t": {"actual": {"value": "21"}, "metadata": {"type": "int"}}, "s": {"expected": {"value": 30.5}}},
        {"gone": {"actual": {"value": [1, {"a": None}]}}},
        {"b": {"actual": {"value": "AA=="}, "metadata": {"type": "bytes"}}},
        {"gone": None, "d": {"expected": {"value": "x"}, "actual": {"value": True}, "optional": False}},
    )  # fmt: skip
    said = [{"event_id": "e", "timestamp": 1, "twin": twin} for twin in values]
    return tuple(msgspec.json.encode(one) for one in said)


def _payloads() -> Sequence[bytes]:
    return (*_reports(), b'{"event_id":"2","timestamp":7,"state":"online"}')


def _odd(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Well-formed reports with parts of another kind; and now and then bytes of any kind."""
    value = msgspec.json.decode(random.choice(seeds))
    for _ in range(random.randint(1, 3)):
        value = misshape(random, value)
    return msgspec.json.encode(value)


def hostile(random: Random, number: int) -> list[str]:
    """Return payloads that are texts, most of them nearly right."""
    makers = (mutate, _odd)
    made = (random.choice(makers)(random, _payloads()) for _ in range(number))
    return [one.decode("utf-8", "replace") for one in made]


_CLOUD_ONLY: Final = (Action.TWIN_SYNC, Action.ATTRIBUTES, Action.MEMBERSHIP, Action.OBJECT, Action.CONFIRM)
TARGETS: Final = (
    Target("mqtt-topic", _topics, _check_topic),
    Target("mqtt-payload", _payloads, _check_payload, 0.5),
    Target("mqtt-report", _payloads, _check_payload, 0.5, _odd),
)
