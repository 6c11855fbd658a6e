"""DeviceStatus objects."""

from collections.abc import Sequence
from typing import Any, Final

from beehive.whole_numbers import whole_number
from modules.apimachinery.conditions import timed
from modules.apimachinery.kinds import JsonObject, ObjectKey, version_of
from modules.apimachinery.unvalidated import as_object
from modules.cloud.devicecontroller.records import DeviceRecord
from modules.cloud.devicecontroller.reports import Report, ReportedValue, is_older
from modules.cloud.devicecontroller.validity import SERVED, TYPES, DeviceCondition, refused_by_mapper
from modules.cloud.devices import API_VERSION, DEVICE, DEVICE_STATUS

_AHEAD: Final = 60_000
"""Milliseconds that a value's time may lie in the future: an edge's clock may be wrong."""


def is_of(status: JsonObject, device: DeviceRecord) -> bool:
    """Return whether a DeviceStatus belongs to a Device, and not to an earlier Device with its name."""
    return any(each.get("uid") == device.uid for each in _owners(status))


def is_of_a_device(status: JsonObject) -> bool:
    """Return whether a DeviceStatus belongs to a Device, which may be gone. People may make others by hand."""
    return any(each.get("kind") == DEVICE.name for each in _owners(status))


def _owners(status: JsonObject) -> list[JsonObject]:
    return [as_object(each) for each in status["metadata"].get("ownerReferences") or []]


def with_report(
    live: JsonObject | None,
    key: ObjectKey,
    device: DeviceRecord,
    report: Report,
    conditions: Sequence[DeviceCondition],
    *,
    now: int,
    at: str,
) -> JsonObject:
    """Return the DeviceStatus with a report in it. Values with a later time stay; values of properties that the Device
    no longer has are dropped.

    Args:
        live: the present one, or None.
        key: of the Device.
        device: the Device.
        report: the report of its node.
        conditions: whether the Device fits its model, and which of its fields were not understood.
        now: milliseconds since 1970.
        at: the same as RFC 3339.
    """
    mine = live if live is not None and is_of(live, device) else {}
    before = as_object(mine.get("status"))
    twins = _twins(before.get("twins"), device, report, now)
    known = {str(as_object(each).get("type")): each for each in before.get("conditions") or []}
    of_report = [refused_by_mapper(report.refusal)] if report.refusal else []
    gone = (*TYPES, SERVED) if report.state else TYPES
    of_others = [each for name, each in known.items() if name not in gone]
    mine_now = [timed(each.as_json(), known.get(each.type, {}), at) for each in (*conditions, *of_report)]
    status = {**before, "twins": twins, "conditions": [*mine_now, *of_others]}
    if report.state:
        status["state"] = report.state
    if report.last_online:
        status["lastOnlineTime"] = report.last_online
    return {
        "apiVersion": API_VERSION,
        "kind": DEVICE_STATUS.name,
        "metadata": _metadata(live, mine, key, device),
        "spec": {},
        "status": status,
    }


def accepted_values(made: JsonObject, report: Report) -> list[tuple[str, ReportedValue]]:
    """Return the reported values of a report that a DeviceStatus has, by the names of their properties: without
    properties that the Device does not have, and without values of an outdated time.
    """
    stored = {each["propertyName"]: each.get("reported") for each in as_object(made.get("status")).get("twins") or []}
    return [(name, side) for name, side in report.reported.items() if stored.get(name) == side.as_json()]


def _metadata(live: JsonObject | None, mine: JsonObject, key: ObjectKey, device: DeviceRecord) -> JsonObject:
    owner = {
        "apiVersion": API_VERSION,
        "kind": DEVICE.name,
        "name": key.name,
        "uid": device.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made = {**(mine or {}).get("metadata", {}), "name": key.name, "namespace": key.namespace}
    made.setdefault("ownerReferences", [owner])
    if live is not None:
        made["resourceVersion"] = version_of(live)
    return made


def _twins(before: Any, device: DeviceRecord, report: Report, now: int) -> list[JsonObject]:
    known = {each.get("propertyName"): each for each in before or [] if isinstance(each, dict)}
    made = []
    for name in dict.fromkeys(each.name for each in device.properties):
        twin = dict(known.get(name) or {"propertyName": name})
        for field, sides in (("reported", report.reported), ("observedDesired", report.observed)):
            side = sides.get(name)
            if side is not None and not _is_outdated(side, twin.get(field), now):
                twin[field] = side.as_json()
        if len(twin) > 1:
            made.append(twin)
    return made


def _is_outdated(side: ReportedValue, stored: Any, now: int) -> bool:
    text = str(as_object(as_object(stored).get("metadata")).get("timestamp") or "")
    timestamp = whole_number(text) or 0
    return timestamp <= now + _AHEAD and is_older(side.timestamp, timestamp)
