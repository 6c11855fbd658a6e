"""Calls of a mapper's methods, which carry a value to a device (`/api/v1/devicemethod/…`, as in KubeEdge). Pure."""

from typing import Final, NamedTuple

from modules.apimachinery.device_objects import read_device, read_model
from modules.apimachinery.device_properties import desired_fault
from modules.apimachinery.mapper_paths import METHODS, parts_of_path

_LEAST_PARTS: Final = len(METHODS) + 5
"""With namespace, device, method, property and value."""


class MethodCall(NamedTuple):
    """A value for a property of a device."""

    namespace: str
    device: str
    prop: str
    value: str


def method_call_of(target: str) -> MethodCall | None:
    """Return the call of a device's method at a path; None for any other path."""
    parts = parts_of_path(target)
    if tuple(parts[: len(METHODS)]) != METHODS or len(parts) < _LEAST_PARTS:
        return None
    namespace, device, _method, prop, *value = parts[len(METHODS) :]
    return MethodCall(namespace, device, prop, "/".join(value))


def model_of(device: bytes) -> str:
    """Return the name of a Device's model, or "". Raises as `decode_json`."""
    return read_device(device).model.rpartition("/")[2]


def fault_of(call: MethodCall, model: bytes) -> str:
    """Return why a DeviceModel forbids the value of a call, or "". Raises as `decode_json`."""
    return desired_fault(read_model(model).properties.get(call.prop), call.prop, call.value)
