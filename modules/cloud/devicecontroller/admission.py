"""Admission of Devices and DeviceModels at the embedded API server: a desired value that the model forbids is refused.

KubeEdge's webhook checks that the names of properties are unique, and nothing else. A Device may come before its
model: then the condition `Valid` of its DeviceStatus names the fault, and nodes leave the value out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from modules.apimachinery.device_properties import desired_fault, rules_fault
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.validation.causes import Cause, duplicate, invalid
from modules.cloud.apiextensions.admission import CustomAdmission, Find
from modules.cloud.devicecontroller.records import DeviceRecord, ModelRecord, device_record, model_record
from modules.cloud.devices import DEVICE, DEVICE_MODEL


def device_causes(new: JsonObject, live: JsonObject | None, find: Find) -> list[Cause]:
    """Return the rules that a requested Device breaks. Rules that the stored one breaks too do not count, as in
    Kubernetes' ratcheting validation: a label can be changed although the model has changed before.

    Args:
        new: the Device, as it is to be stored.
        live: the stored object; None for a new one.
        find: returns another object; None if it does not exist.
    """
    device = device_record(new)
    model = _model_of(new, device, find)
    kept = set() if live is None else {cause.message for cause in _device_causes(device_record(live), model)}
    return [cause for cause in _device_causes(device, model) if cause.message not in kept]


def model_causes(new: JsonObject, live: JsonObject | None, find: Find) -> list[Cause]:  # noqa: ARG001 - as above
    """Return the rules that a requested DeviceModel breaks."""
    model = model_record(new)
    kept = set() if live is None else {cause.message for cause in _model_causes(live, model_record(live))}
    return [cause for cause in _model_causes(new, model) if cause.message not in kept]


ADMISSIONS: dict[str, CustomAdmission] = {DEVICE.key_name: device_causes, DEVICE_MODEL.key_name: model_causes}
"""The admission of each kind, for the embedded API server."""


def _model_of(obj: JsonObject, device: DeviceRecord, find: Find) -> ModelRecord | None:
    if not device.model:
        return None
    found = find(ObjectKey(DEVICE_MODEL.key_name, key_of(obj).namespace, device.model))
    return model_record(found) if found is not None else None


def _device_causes(device: DeviceRecord, model: ModelRecord | None) -> Iterator[Cause]:
    yield from _duplicates(each.name for each in device.properties)
    for at, each in enumerate(device.properties if model is not None else ()):
        rules = model.rules if model is not None else {}
        if fault := desired_fault(rules.get(each.name), each.name, each.desired):
            where = "spec" if device.is_old else f"spec.properties[{at}].desired.value"
            yield invalid(where, each.desired, fault)


def _model_causes(obj: JsonObject, model: ModelRecord) -> Iterator[Cause]:
    names = [one.get("name") for one in (obj.get("spec") or {}).get("properties") or () if isinstance(one, dict)]
    yield from _duplicates(name for name in names if isinstance(name, str))
    places = {name if isinstance(name, str) else "": at for at, name in reversed([*enumerate(names)])}
    for name, rules in model.rules.items():
        if fault := rules_fault(rules):
            yield invalid(f"spec.properties[{places[name]}]", name, fault)


def _duplicates(names: Iterable[str]) -> Iterator[Cause]:
    for name, count in Counter(names).items():
        if count > 1:
            yield duplicate("spec.properties", name)
