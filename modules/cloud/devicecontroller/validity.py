"""The conditions of a DeviceStatus: whether the Device fits its DeviceModel (`Valid`), the result of the conversion of
an object in the form of v1alpha2 (`Converted`), and that its mapper does not take it (`Served`).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from modules.apimachinery.device_properties import desired_fault
from modules.apimachinery.kinds import JsonObject
from modules.cloud.devicecontroller.records import DeviceRecord, ModelRecord

VALID: Final = "Valid"
CONVERTED: Final = "Converted"
TYPES: Final = (VALID, CONVERTED)
"""The types of the conditions that follow from the objects."""
SERVED: Final = "Served"
"""The type of the condition that a node reports."""
_MOST: Final = 10
"""Faults that a message tells."""
_LONGEST: Final = 80
"""Characters of a name in a message."""


class DeviceCondition(NamedTuple):
    """A condition of a DeviceStatus, without its time."""

    holds: bool
    reason: str
    message: str = ""
    type: str = VALID

    def as_json(self) -> JsonObject:
        """Return the condition."""
        return {"type": self.type, "status": str(self.holds), "reason": self.reason, "message": self.message}


def conditions_of(device: DeviceRecord, model: ModelRecord | None) -> list[DeviceCondition]:
    """Return the conditions of a Device; None: there is no such DeviceModel."""
    found = [validity_of(device, model)]
    if device.is_old or (model is not None and model.is_old):
        found.append(_conversion([*device.unused, *(model.unused if model is not None else ())]))
    return found


def refused_by_mapper(why: str) -> DeviceCondition:
    """Return the condition of a device that its mapper does not take."""
    return DeviceCondition(holds=False, reason="RefusedByMapper", message=why, type=SERVED)


def _conversion(unused: list[str]) -> DeviceCondition:
    if not unused:
        return DeviceCondition(holds=True, reason="FromV1alpha2", type=CONVERTED)
    message = f"not used, as v1beta1 has no place for it: {_first(unused)}"
    return DeviceCondition(holds=False, reason="PartlyUnderstood", message=message, type=CONVERTED)


def _first(texts: list[str]) -> str:
    more = f" (and {len(texts) - _MOST} more)" if len(texts) > _MOST else ""
    return "; ".join(texts[:_MOST]) + more


def validity_of(device: DeviceRecord, model: ModelRecord | None) -> DeviceCondition:
    """Return whether a Device fits its model; None: there is no such DeviceModel."""
    if not device.model:
        why = "spec.deviceModelRef.name is empty: name a DeviceModel there"
        return DeviceCondition(holds=False, reason="NoModelReference", message=why)
    if model is None:
        why = f"there is no DeviceModel {device.model[:253]} in the device's namespace: create it, or name another"
        return DeviceCondition(holds=False, reason="ModelNotFound", message=why)
    faults = list(_faults(device, model))
    if faults:
        return DeviceCondition(holds=False, reason="InvalidProperties", message=_first(faults))
    lost = f"mappers get texts, numbers and booleans, and not {_first(list(device.untold))}" if device.untold else ""
    return DeviceCondition(holds=True, reason="FitsModel", message=lost)


def _faults(device: DeviceRecord, model: ModelRecord) -> Iterator[str]:
    for name, count in Counter(each.name for each in device.properties).items():
        if count > 1:
            yield f"property {name[:_LONGEST]!r} is there {count} times"
    for each in device.properties:
        known = model.rules.get(each.name)
        if known is None:
            yield f"property {each.name[:_LONGEST]!r} is not in the model"
        elif fault := desired_fault(known, each.name, each.desired):
            yield f"property {each.name[:_LONGEST]!r}: the node does not take the desired value: {fault}"
