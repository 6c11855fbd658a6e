"""The effect of a message on one property: the state machine of KubeEdge's twins, without its defects. Pure.

A local change (by an application or a mapper) raises the edge's version of each side that it sets. A change from the
cloud carries versions, and is refused if the stored ones are higher; the cloud then receives the stored value. A
desired value in the Device object counts as the cloud's change of the expected side.
"""

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from modules.apimachinery.device_properties import ModelProperty, is_same_value, twin_type, type_fault
from modules.edge.devicetwin.errors import TwinRefused
from modules.edge.devicetwin.past import extended, last_time
from modules.edge.devicetwin.requests import TwinRequest, Version
from modules.edge.devicetwin.state import APPLICATION, CLOUD, DELETED, Side, Twin
from modules.edge.devicetwin.values import check_desired, check_kind, check_reported, check_type


class At(msgspec.Struct, frozen=True):
    """The time of a change, its number among the device's changes, and its rules."""

    now: int
    """Milliseconds since the Unix epoch."""
    number: int
    """Number of the change, see `Device.number`."""
    heartbeat: int = 0
    """Milliseconds that a repeated value does not count as a change; with 0 it always counts, as in KubeEdge."""
    by: str = APPLICATION
    """The writer of expected values."""


def update(stored: Twin | None, asked: TwinRequest | None, model: ModelProperty | None, at: At) -> Twin | None:
    """Return a property after a local change; the same object if nothing changed.

    Args:
        stored: the property; None without one.
        asked: the change; None deletes an optional property.
        model: of the property; None if the device's model does not have it.
        at: the time and number of the change.

    Raises:
        TwinRefused: a value does not have the property's type, or the model forbids it.
    """
    if asked is None:
        return _deleted(stored, at)
    if model is not None:
        _check(asked, model)
    twin = stored if stored is not None and stored.is_live else _begun(stored, asked, model)
    kind = _type(twin, model, (asked.actual, asked.expected))
    actual = _set(twin.actual, asked.actual, kind, at, past=twin.past)
    expected = _set(twin.expected, asked.expected, kind, at, at.by)
    changed = replace(
        twin,
        type=kind,
        actual=actual,
        past=twin.past if actual is twin.actual or asked.actual is None else extended(twin.past, asked.actual, at.now),
        optional=twin.optional and asked.optional is not False,
    )
    changed = _with_expected(changed, _confirmed(expected, asked, kind, at), at)
    return stored if stored is not None and changed == stored else changed


def sync(stored: Twin | None, asked: TwinRequest | None, at: At) -> Twin | None:
    """Return a property after a change from the cloud.

    A side with too old a version in the cloud stays as it is and becomes due, so that the cloud receives it. A
    value without a version, or of the wrong type, is skipped.
    """
    if asked is None:
        return stored
    if asked.type == DELETED:
        return _deleted_by_cloud(stored, asked, at)
    twin = stored if stored is not None and stored.is_live else _begun(stored, asked, None)
    expected = _synced(twin.expected, asked.expected, asked.expected_version, twin.type, at)
    refused = expected is not None and expected is not twin.expected and expected.due == at.number
    actual = twin.actual
    if not refused:
        actual = _synced(twin.actual, asked.actual, asked.actual_version, twin.type, at)
    if expected is twin.expected and actual is twin.actual and (stored is None or not stored.is_live):
        return stored
    twin = _with_expected(twin, expected, at)
    return replace(twin, actual=actual, optional=twin.optional and asked.optional is not False)


def desire(stored: Twin | None, desired: str | None, model: ModelProperty | None, at: At) -> Twin | None:
    """Return a property after the Device object was read.

    Args:
        stored: the property; None without one.
        desired: the object's desired value, or ""; None if the object does not have the property. The model allows it.
        model: of the property.
        at: the time and number of the change.

    Raises:
        TwinRefused: the value does not have the property's type.
    """
    before = stored.desired if stored is not None else None
    if desired == before or (not desired and not before):
        return stored
    live = stored is not None and stored.is_live
    twin = stored if stored is not None and live else _begun(stored, TwinRequest(), model)
    old = twin.expected or Side()
    if not desired and old.value != before:
        return replace(twin, desired=desired)  # the node has set another value meanwhile
    kind = _type(twin, model, (desired,))
    if desired:
        check_type(kind, desired)
    expected = Side(desired or "", _time(old, at), old.cloud + 1, old.edge, told=old.told)
    return _with_expected(replace(twin, desired=desired, type=kind), expected, at)


def withdraw(stored: Twin, fault: Callable[[str], str], at: At) -> Twin:
    """Return a property without expected values that the device's model, which may have changed, forbids; the same
    object without such values. The cloud's value is taken again when the model allows it.

    Args:
        stored: the property.
        fault: returns why a desired value is forbidden; empty if it is allowed.
        at: the time and number of the change.
    """
    desired = None if stored.desired and fault(stored.desired) else stored.desired
    old = stored.expected
    if old is None or not old.value or not stored.is_live or not fault(old.value):
        return stored if desired == stored.desired else replace(stored, desired=desired)
    expected = replace(old, value="", timestamp=_time(old, at), edge=old.edge + 1, due=at.number, seen=True, by="")
    return _with_expected(replace(stored, desired=desired), expected, at)


def give_back(stored: Twin, at: At) -> Twin:
    """Return a property whose expected value is under the cloud's control again; the same object if it already was, or
    was deleted.
    """
    value, old = stored.desired or "", stored.expected
    if old is None or not stored.is_live or ((old.value or "") == value and not old.by):
        return stored
    expected = replace(old, value=value, timestamp=_time(old, at), edge=old.edge + 1, due=at.number, seen=True, by="")
    return _with_expected(stored, expected, at)


def differs(twin: Twin) -> bool:
    """Return whether a property has an expected value that differs from its actual one."""
    expected = twin.expected.value if twin.expected is not None else None
    actual = twin.actual.value if twin.actual is not None else None
    return bool(expected) and twin.is_live and not is_reached(twin.type, expected, actual)


def is_reached(kind: str, expected: str | None, actual: str | None) -> bool:
    """Return whether an actual value is the expected one, by the property's type; not if one of them is missing."""
    return expected is not None and actual is not None and is_same_value(kind, expected, actual)


def _check(asked: TwinRequest, model: ModelProperty) -> None:
    check_desired(model, asked.expected or "")
    if asked.actual is not None:
        check_reported(model, asked.actual)


def _type(twin: Twin, model: ModelProperty | None, values: Iterable[str | None]) -> str:
    """Return the type of a property that gets these values: the model's, if it was of another type before the model
    changed.
    """
    if model is not None and any(value and type_fault(twin.type, value) for value in values):
        return twin_type(model)
    return twin.type


def _confirmed(side: Side | None, asked: TwinRequest, kind: str, at: At) -> Side | None:
    """Return an expected value of the cloud after the device has confirmed it, by a mapper's `observedDesired` or by
    the reported value itself; the cloud is informed once for each desired value.
    """
    if side is None or side.seen or side.by or side.value is None:
        return side
    if asked.observed != side.value and not (side.value and is_reached(kind, side.value, asked.actual)):
        return side
    return replace(side, timestamp=_time(side, at), due=at.number, seen=True)


def _begun(stored: Twin | None, asked: TwinRequest, model: ModelProperty | None) -> Twin:
    """Return a new property, or a deleted one, created again with its versions."""
    kind = asked.type or twin_type(model)
    optional = asked.optional is not False
    if stored is None:
        return Twin(optional=optional, type=kind)
    return replace(stored, optional=optional, type=kind, desired=None)


def _with_expected(twin: Twin, expected: Side | None, at: At) -> Twin:
    """Return a property with an expected value; a different value is added to its history."""
    before = twin.expected
    was = (before.value, before.by) if before is not None else (None, "")
    if expected is None or expected.value is None or was == (expected.value, expected.by):
        return replace(twin, expected=expected)
    past = extended(twin.past_expected, expected.value, at.now, expected.by or CLOUD)
    return replace(twin, expected=expected, past_expected=past)


def _set(side: Side | None, value: str | None, kind: str, at: At, by: str = "", past: str = "") -> Side | None:
    if value is None:
        check_kind(kind)
        return side
    if value or kind not in ("", "string"):
        check_type(kind, value)
    old = side or Side()
    if value == old.value and 0 <= at.now - _changed_at(old, at, past) < at.heartbeat:
        return side
    return replace(old, value=value, timestamp=_time(old, at), edge=old.edge + 1, due=at.number, by=by)


def _changed_at(side: Side, at: At, past: str) -> int:
    """Return the node's time at a side's last change. Its own time is a later one as long as a clock that was set back,
    or one that a power cut has left behind, has not caught up: then the history has the node's, unless the value is too
    large for it.
    """
    return side.timestamp if side.timestamp <= at.now else last_time(past) or side.timestamp


def _time(side: Side, at: At) -> int:
    """Return the time of a change. It grows even if the node's clock is set back, because the cloud accepts no older
    value.
    """
    return max(at.now, side.timestamp + 1)


def _deleted(stored: Twin | None, at: At) -> Twin | None:
    if stored is None or not stored.is_live or not stored.optional:
        return stored
    return replace(stored, expected=_emptied(stored.expected, at), actual=_emptied(stored.actual, at), type=DELETED)


def _emptied(side: Side | None, at: At) -> Side | None:
    if side is None:
        return None
    return replace(side, value=None, timestamp=_time(side, at), edge=side.edge + 1, due=at.number)


def _deleted_by_cloud(stored: Twin | None, asked: TwinRequest, at: At) -> Twin | None:
    if stored is None or not stored.is_live:
        return stored
    versions = (asked.expected_version, asked.actual_version)
    sides = (stored.expected, stored.actual)
    for side, version in zip(sides, versions, strict=True):
        if side is not None and version is not None and _is_older(version, side):
            due = [None if one is None else replace(one, due=at.number) for one in sides]
            return replace(stored, expected=due[0], actual=due[1])
    ended = [_ended(side, version, at) for side, version in zip(sides, versions, strict=True)]
    return replace(stored, expected=ended[0], actual=ended[1], type=DELETED)


def _ended(side: Side | None, version: Version | None, at: At) -> Side | None:
    if side is None:
        return None
    cloud, edge = version if version is not None else (side.cloud, side.edge)
    return Side(None, max(at.now, side.timestamp), cloud, edge, told=True)


def _synced(side: Side | None, value: str | None, version: Version | None, kind: str, at: At) -> Side | None:
    if value is None or version is None:
        return side
    if side is not None and _is_older(version, side):
        return replace(side, due=at.number)
    try:
        check_type(kind, value)
    except TwinRefused:
        return side
    return Side(value, at.now if side is None else max(at.now, side.timestamp), version.cloud, version.edge, told=True)


def _is_older(version: Version, side: Side) -> bool:
    return side.cloud > version.cloud or side.edge > version.edge
