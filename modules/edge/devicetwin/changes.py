"""The effect of a message on one device: (device, message) → (device, publications). Pure."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from modules.apimachinery.device_objects import DeviceObject
from modules.apimachinery.device_properties import ModelProperty, desired_fault
from modules.edge.devicetwin import answers, topics, twins
from modules.edge.devicetwin.answers import MessageStamp, Publication
from modules.edge.devicetwin.errors import BAD_REQUEST, FAILED, TOO_LARGE, TwinRefused
from modules.edge.devicetwin.requests import DeviceRequest, TwinRequest, TwinsRequest
from modules.edge.devicetwin.state import Attribute, Device, Twin
from modules.edge.devicetwin.twins import At
from modules.edge.devicetwin.values import MAX_DEVICE, MAX_PROPERTIES

UNKNOWN: Final = "unknown"
STATES: Final = ("online", "offline", "ok", UNKNOWN, "unhealthy")
ONLINE: Final = ("online", "ok")

NOT_STORED: Final = "the change could not be written to the node's database; it was not made"

_FEW: Final = 500
"""Longest list in an error, in characters."""

Models = Mapping[str, ModelProperty]


class Rules(msgspec.Struct, frozen=True):
    """Rules of devicetwin that can be KubeEdge's or its own."""

    heartbeat: int = 60_000
    """Milliseconds that a repeated value does not count as a change."""
    like_kubeedge: bool = False
    """Whether values, times and repetitions are handled as in KubeEdge."""


class Change(msgspec.Struct, frozen=True):
    """A device after a message."""

    device: Device
    publications: tuple[Publication, ...] = ()
    """Messages to publish once the device is stored."""
    failed: Publication | None = None
    """Messages to publish instead if it cannot be stored."""
    notes: tuple[str, ...] = ()
    """For the log."""


def update_twins(device: Device, request: TwinsRequest, models: Models, stamp: MessageStamp, rules: Rules) -> Change:
    """Return a device after an application or a mapper has reported values or requested new ones: all of them apply, or
    none.

    Raises:
        TwinRefused: a value is not allowed.
    """
    _check_names(device, request, models)
    at = msgspec.structs.replace(_at(device, stamp, rules), by=request.by)
    topic = topics.device_topic(device.id, topics.TWIN_RESULT)
    try:
        changed = {
            name: twins.update(device.twins.get(name), asked, models.get(name), at)
            for name, asked in request.twins.items()
        }
        after = _with_twins(device, changed, at)
    except TwinRefused as refused:
        raise TwinRefused(refused.code, refused.reason, request.event_id) from None
    result = answers.update_result(after, request.event_id, stamp.now, request.twins, device.twins)
    news = answers.changes(device, after, request.event_id, stamp)
    failed = answers.error(topic, request.event_id, stamp.now, FAILED, NOT_STORED)
    return Change(after, (result, *news), failed)


def give_back(device: Device, names: Iterable[str], stamp: MessageStamp, rules: Rules) -> Device:
    """Return a device after the node has returned control of desired values to the cloud."""
    at = _at(device, stamp, rules)
    stored = {name: device.twins.get(name) for name in names}
    return _with_twins(device, {name: twins.give_back(one, at) for name, one in stored.items() if one is not None}, at)


def sync_twins(
    device: Device,
    asked: Mapping[str, TwinRequest | None],
    models: Models,
    event_id: str,
    stamp: MessageStamp,
    rules: Rules,
) -> Change:
    """Return a device after the cloud has sent values with versions. An expected value that the model forbids is
    skipped, with a note.
    """
    at, notes = _at(device, stamp, rules), list[str]()
    changed = {}
    for name, one in asked.items():
        fault = model_fault(models, name, one.expected or "") if one is not None else ""
        if fault:
            notes.append(_rejected(device, name, fault))
        taken = msgspec.structs.replace(one, expected=None) if one is not None and fault else one
        changed[name] = twins.sync(device.twins.get(name), taken, at)
    try:
        after = _with_twins(device, changed, at)
    except TwinRefused as refused:
        return Change(device, notes=(f"{device.id}: values of the cloud are not taken: {refused.reason}",))
    return Change(after, tuple(answers.changes(device, after, event_id, stamp)), notes=tuple(notes))


def apply_object(device: Device, read: DeviceObject, models: Models, stamp: MessageStamp, rules: Rules) -> Change:
    """Return a device after its Device object or its model was stored: the object's description, and its desired values
    as expected values.

    A desired value that the model forbids is skipped, with a note. An expected value that the model forbids now is
    withdrawn, by any writer.
    """
    after = replace(
        device, description=read.description or device.description, has_object=True, uid=read.metadata.uid or device.uid
    )
    if rules.like_kubeedge:
        return Change(after)
    at, notes = _at(device, stamp, rules), list[str]()
    changed = _withdrawn(device, models, at, notes)
    stored = {**device.twins, **changed}
    desired: dict[str, str | None] = {name: None for name, one in stored.items() if one.desired is not None}
    for name, value in (desired | read.desired).items():
        try:
            if fault := model_fault(models, name, value or ""):
                raise TwinRefused(BAD_REQUEST, fault)
            found = twins.desire(stored.get(name), value, models.get(name), at)
            changed |= {name: found} if found is not None else {}
        except TwinRefused as refused:
            notes.append(_rejected(device, name, refused.reason))
    try:
        after = _with_twins(after, changed, at)
    except TwinRefused as refused:
        notes.append(f"{device.id}: the desired values are not taken: {refused.reason}")
    return Change(after, tuple(answers.changes(device, after, stamp.new_id(), stamp)), notes=tuple(notes))


def set_state(
    device: Device, state: str, event_id: str, stamp: MessageStamp, rules: Rules, refusal: str = ""
) -> Change:
    """Return a device after a mapper or an application has reported its state, or its mapper has not taken it: of a
    refused device the state is unknown, and a refusal beside another state counts for nothing.

    Raises:
        TwinRefused: there is no such state.
    """
    if state.lower() not in STATES:
        allowed = f"the state of a device is one of {', '.join(STATES)}"
        raise TwinRefused(BAD_REQUEST, allowed, event_id)
    seen = "" if rules.like_kubeedge else device.last_online
    if state.lower() in ONLINE:
        seen = datetime.fromtimestamp(stamp.now // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    number = device.number + 1
    refused = refusal if state.lower() == UNKNOWN else ""
    after = replace(device, state=state, last_online=seen, number=number, state_due=number, refusal=refused)
    topic = topics.device_topic(device.id, topics.STATE_RESULT)
    failed = answers.error(topic, event_id, stamp.now, FAILED, NOT_STORED)
    return Change(after, (answers.state_result(after, event_id, stamp.now),), failed)


def set_attributes(device: Device, given: Mapping[str, Attribute], event_id: str, stamp: MessageStamp) -> Change:
    """Return a device after the cloud has sent attributes; all other attributes stay unchanged."""
    attributes = {**device.attributes, **given}
    if len(attributes) > MAX_PROPERTIES:
        return Change(device, notes=(f"{device.id}: more than {MAX_PROPERTIES} attributes are not taken",))
    after = replace(device, attributes=attributes)
    return Change(after, (answers.attributes(after, event_id, stamp.now),) if after != device else ())


def add(
    asked: DeviceRequest, earlier: Device | None, models: Models, event_id: str, node: str, stamp: MessageStamp
) -> Change:
    """Return a new device, as the membership describes it. Its numbers go on after those of an earlier one whose end is
    not stored yet: the cloud may still answer what that one has told.
    """
    name, number = asked.name or asked.id.rpartition("/")[2], 0 if earlier is None else earlier.number
    device = Device(asked.id, name, asked.description, asked.state, attributes=dict(asked.attributes), number=number)
    change = sync_twins(device, asked.twins, models, event_id, stamp, Rules())
    return msgspec.structs.replace(
        change, publications=(answers.membership(node, event_id, stamp.now, [change.device], []),)
    )


def join(device: Device, asked: DeviceRequest, models: Models, event_id: str, stamp: MessageStamp) -> Change:
    """Return a known device after the membership has named it again."""
    described = replace(device, description=asked.description or device.description)
    first = set_attributes(described, asked.attributes, event_id, stamp) if asked.attributes else Change(described)
    second = sync_twins(first.device, asked.twins, models, event_id, stamp, Rules())
    return msgspec.structs.replace(
        second, publications=first.publications + second.publications, notes=first.notes + second.notes
    )


def _check_names(device: Device, request: TwinsRequest, models: Models) -> None:
    """Raise TwinRefused for a property that the device's model does not have; it may be deleted, if it is there."""
    strange = sorted(name for name, one in request.twins.items() if one is not None and name not in models)
    if models and strange:
        raise TwinRefused(BAD_REQUEST, unknown_property(device, strange[0], models), request.event_id)


def unknown_property(device: Device, name: str, models: Models) -> str:
    """Return the refusal of a property that the model of a device does not have."""
    return f"the model of {device.id} has no property {name}; its properties are: {listed(models)}"


def listed(names: Iterable[str]) -> str:
    """Return names for the end of a refusal."""
    return ", ".join(sorted(names))[:_FEW] or "none"


def model_fault(models: Models, name: str, text: str) -> str:
    """Return why the device's model forbids a desired value; empty if it allows it, or is not here."""
    return desired_fault(models.get(name), name, text) if models else ""


def _rejected(device: Device, name: str, why: str) -> str:
    return f"{device.id}: the desired value of {name} is not taken: {why}"


def _withdrawn(device: Device, models: Models, at: At, notes: list[str]) -> dict[str, Twin]:
    """Return the properties that change because the model forbids their expected values, with a note for each value
    that was in force.
    """
    changed: dict[str, Twin] = {}
    for name, twin in device.twins.items():
        after = twins.withdraw(twin, partial(model_fault, models, name), at)
        if after is not twin:
            changed[name] = after
        if twin.expected is not None and after.expected is not twin.expected:
            why = model_fault(models, name, twin.expected.value or "")
            notes.append(f"{device.id}: the expected value of {name} is withdrawn: {why}")
    return changed


def _at(device: Device, stamp: MessageStamp, rules: Rules) -> At:
    return At(stamp.now, device.number + 1, 0 if rules.like_kubeedge else rules.heartbeat)


def _with_twins(device: Device, changed: Mapping[str, Twin | None], at: At) -> Device:
    """Return the device with these properties; the same object if none has changed."""
    new = {name: one for name, one in changed.items() if one is not None and one is not device.twins.get(name)}
    if not new:
        return device
    after = replace(device, twins={**device.twins, **new}, number=at.number)
    if len(after.twins) > MAX_PROPERTIES:
        raise TwinRefused(TOO_LARGE, f"a device may have {MAX_PROPERTIES} properties, deleted ones included")
    if after.size > MAX_DEVICE and after.size > device.size:
        raise TwinRefused(TOO_LARGE, f"the values of one device may have {MAX_DEVICE} characters together")
    return after
