"""Diagnoses where the desired value of each property of a device is, with advice. Pure."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from modules.apimachinery.device_properties import twin_type
from modules.edge.devicetwin import changes, topics, twins
from modules.edge.devicetwin.errors import TwinRefused
from modules.edge.devicetwin.state import CLOUD, Side, Twin
from modules.edge.devicetwin.twins import At
from modules.processes.edgecore.trace.device_rows import DeviceRows

NOBODY: Final = "no application or mapper has ever reported it: is one subscribed to {topic}?"

_NO_MAPPER: Final = "no mapper of protocol {protocol} has registered"
_TAKE_IT: Final = "start a mapper that takes the device, or correct the Device or its model"


class ValuePlace(StrEnum):
    """The place that a desired value has reached."""

    ARRIVED = "arrived"
    NOT_DESIRED = "no value is desired"
    NO_PROPERTY = "no such property in the model"
    REFUSED = "refused"
    KEPT_BACK = "kept from applications"
    NOT_TAKEN = "not taken yet"
    UNREACHABLE = "nobody can be told"
    UNHEARD = "no answer ever"
    WAITING = "waiting for the device"
    DIFFERENT = "another value is reported"


class NodeFacts(msgspec.Struct, frozen=True):
    """Facts about the node besides its rows."""

    now: int
    """Milliseconds since the Unix epoch: of the answer, or of the end of the trace."""
    mqtt: str = ""
    """The reason why applications cannot be reached by MQTT, with advice; empty if they can, or it is unknown."""
    link: str = ""
    """Why the cloud cannot be reached; empty if it can, or nothing is known of it."""
    stopped: str = ""
    """Why nothing happens on the node; empty while edgecore runs."""
    like_kubeedge: bool = False
    """Whether desired values are kept from applications, as in KubeEdge."""


class PropertyDiagnosis(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of the desired value of one property."""

    property: str
    place: ValuePlace
    why: str = ""
    next: str = ""
    """Advice; empty if there is nothing to do."""
    desired: str = ""
    by: str = ""
    """The writer of the desired value."""
    reported: str | None = None


class DeviceDiagnosis(msgspec.Struct, frozen=True):
    """The places of a device's desired values."""

    about: str
    known: bool
    summary: str
    properties: tuple[PropertyDiagnosis, ...] = ()
    next: str = ""
    remarks: tuple[str, ...] = ()


def diagnose_device(rows: DeviceRows, facts: NodeFacts) -> DeviceDiagnosis:
    """Diagnose a device."""
    about = f"device {rows.id}"
    if rows.object is None and rows.device is None:
        others = f"; it has {', '.join(rows.others)[:500]}" if rows.others else ", nor any other"
        hint = facts.link or "is spec.nodeName of the Device this node? `kubectl describe device` says what is wrong"
        return DeviceDiagnosis(about, known=False, summary=f"the node does not have it{others}", next=hint)
    names = sorted({*(rows.object.desired if rows.object else ()), *(rows.device.twins if rows.device else ())})
    found = tuple(one for name in names if (one := _property(name, rows, facts)) is not None)
    return DeviceDiagnosis(
        about, known=True, summary=_summary(rows, found), properties=found,
        next=_TAKE_IT if _refusal(rows) else "", remarks=tuple(_remarks(rows, facts)),
    )  # fmt: skip


def _summary(rows: DeviceRows, found: Sequence[PropertyDiagnosis]) -> str:
    late = [one for one in found if one.place not in (ValuePlace.ARRIVED, ValuePlace.NOT_DESIRED)]
    if refusal := _refusal(rows):
        return refusal
    if late:
        return f"{len(late)} of {len(found)} properties have not arrived"
    is_desired = any(one.place == ValuePlace.ARRIVED for one in found)
    return "all that is desired has arrived" if is_desired else "no value is desired"


def _refusal(rows: DeviceRows) -> str:
    """Return that the mapper of a device does not take it, and why; empty if it does, or has none."""
    return f"its mapper refuses it: {rows.device.refusal}" if rows.device is not None and rows.device.refusal else ""


def _remarks(rows: DeviceRows, facts: NodeFacts) -> Iterator[str]:
    if facts.stopped:
        yield facts.stopped
    if rows.object is None:
        yield "the cloud's Device is not on the node: the device is here by the cloud's list of members alone"
    elif rows.model is None:
        model = rows.object.model
        yield f"its model {model} is not on the node, so values are not checked" if model else "it names no model"
    if rows.protocol and not rows.has_mapper:
        yield _NO_MAPPER.format(protocol=rows.protocol)
    if rows.device is not None and (rows.device.twins_are_due or rows.device.state_due):
        yield f"the cloud has not confirmed all that was reported{f': {facts.link}' if facts.link else ''}"


def _property(name: str, rows: DeviceRows, facts: NodeFacts) -> PropertyDiagnosis | None:
    """Diagnose a property; None if it was deleted and is not desired."""
    twin = rows.device.twins.get(name) if rows.device is not None else None
    of_cloud = rows.object.desired.get(name, "") if rows.object is not None else ""
    if twin is not None and not twin.is_live and not of_cloud:
        return None
    live = twin if twin is not None and twin.is_live else Twin()
    reported = live.actual.value if live.actual is not None else None

    def diagnosis(
        place: ValuePlace, why: str = "", hint: str = "", desired: str = of_cloud, by: str = CLOUD
    ) -> PropertyDiagnosis:
        return PropertyDiagnosis(name, place, why, hint, desired, by if desired else "", reported)

    expected = live.expected
    if of_cloud and (live.desired or "") != of_cloud:
        return diagnosis(*_rejection(name, of_cloud, twin, rows, facts))
    if expected is None or not expected.value:
        named = rows.object is not None and name in rows.object.desired
        where = "the Device has no desired value for it" if named else "the Device does not have this property"
        return diagnosis(ValuePlace.NOT_DESIRED, where)
    place, why, hint = _of_expected(name, live, expected, rows, facts)
    by = live.expected_by
    if by != CLOUD:
        theirs = f"; the cloud desires {of_cloud}" if of_cloud else ""
        why = f"{why}; set on the node by {by} at {_time(expected.timestamp)}{theirs}".removeprefix("; ")
        hint = hint or (f"`edgecore devices set {rows.id} {name}-` makes the cloud's value count" if of_cloud else "")
    return diagnosis(place, why, hint, expected.value, by)


def _rejection(
    name: str, desired: str, twin: Twin | None, rows: DeviceRows, facts: NodeFacts
) -> tuple[ValuePlace, str, str]:
    """Return why the value of the Device object is not in the twin."""
    if facts.like_kubeedge:
        return ValuePlace.KEPT_BACK, "modules.deviceTwin.likeKubeEdge is set: desired values go to mappers only", ""
    models = rows.model.properties if rows.model is not None else {}
    fault = changes.model_fault(models, name, desired)
    try:
        twins.desire(twin, desired, models.get(name), At(facts.now, 1))
    except TwinRefused as refused:
        fault = fault or refused.reason
    if fault:
        return ValuePlace.REFUSED, fault, "change the Device's desired value, or its DeviceModel"
    hint = facts.stopped or "a device may have 100 properties and 256 Ki characters; the log says what was not taken"
    return ValuePlace.NOT_TAKEN, "the Device is stored, devicetwin has not taken its value", hint


def _of_expected(
    name: str, twin: Twin, expected: Side, rows: DeviceRows, facts: NodeFacts
) -> tuple[ValuePlace, str, str]:
    actual = twin.actual
    rule = rows.model.properties.get(name) if rows.model is not None else None
    kind = twin_type(rule) if rule is not None else twin.type
    if actual is not None and twins.is_reached(kind, expected.value, actual.value):
        return ValuePlace.ARRIVED, f"reported at {_time(actual.timestamp)}", ""
    since = f"since {_time(expected.timestamp)} ({_duration(facts.now - expected.timestamp)})"
    if rows.model is not None and rows.model.properties and name not in rows.model.properties:
        there = ", ".join(sorted(rows.model.properties))[:500]
        return (
            ValuePlace.NO_PROPERTY,
            f"{rows.model.id} has: {there}",
            "correct the name in the Device, or in its model",
        )
    mapper = _NO_MAPPER.format(protocol=rows.protocol) if rows.protocol and not rows.has_mapper else ""
    if facts.stopped:
        return ValuePlace.UNREACHABLE, f"{since}: {facts.stopped}", "start edgecore"
    if refusal := _refusal(rows):
        return ValuePlace.UNREACHABLE, f"{since}: {refusal}", _TAKE_IT
    if facts.mqtt and not rows.has_mapper:
        return ValuePlace.UNREACHABLE, f"{since}: {'; '.join(filter(None, (facts.mqtt, mapper)))}", _start(rows)
    topic = topics.device_topic(rows.id, topics.TWIN_DELTA)
    if actual is None or actual.value is None:
        text = "; ".join(filter(None, (NOBODY.format(topic=topic), mapper)))
        return ValuePlace.UNHEARD, f"{since}: {text}", _start(rows)
    if actual.timestamp >= expected.timestamp:
        why = f"since {_time(actual.timestamp)} the device reports {actual.value[:200]}, although it was told before"
        return ValuePlace.DIFFERENT, why, "the device, or its mapper, did not do it: look at its log"
    why = f"{since}; it last reported {actual.value[:200]} at {_time(actual.timestamp)}"
    return ValuePlace.WAITING, why, f"is whoever serves the device running? state: {_state(rows)}"


def _start(rows: DeviceRows) -> str:
    protocol = f" of protocol {rows.protocol}" if rows.protocol else ""
    return f"start the application or mapper{protocol} that serves the device"


def _state(rows: DeviceRows) -> str:
    device = rows.device
    if device is None or not device.state:
        return "never told"
    return f"{device.state}, last online {device.last_online}" if device.last_online else device.state


def _time(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return "an impossible time"


def _duration(milliseconds: int) -> str:
    seconds = max(0, milliseconds // 1000)
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def device_lines(found: DeviceDiagnosis) -> list[str]:
    """Return a diagnosis as lines of text."""
    lines = [f"{found.about}: {found.summary}", *(f"  {remark}" for remark in found.remarks)]
    if found.next:
        lines.append(f"  next: {found.next}")
    for one in found.properties:
        by = f" by {one.by}" if one.by else ""
        desired = f", desired {one.desired[:200]}{by}" if one.desired else ""
        why = f": {one.why}" if one.why else ""
        lines.append(f"  {one.property}{desired}: {one.place}{why}")
        if one.next:
            lines.append(f"    next: {one.next}")
    return lines
