"""Calls of a mapper's methods, which carry a value to a device (`/api/v1/devicemethod/…`, as in KubeEdge). Pure."""

from typing import Final, NamedTuple
from urllib.parse import unquote

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.device_properties import ModelProperty, desired_fault

_METHODS: Final = ["api", "v1", "devicemethod"]
_LEAST_PARTS: Final = len(_METHODS) + 5
"""With namespace, device, method, property and value."""


class MethodCall(NamedTuple):
    """A value for a property of a device."""

    namespace: str
    device: str
    prop: str
    value: str


class _ModelRef(msgspec.Struct, frozen=True):
    name: str = ""


class _DeviceSpec(msgspec.Struct, frozen=True, rename="camel"):
    device_model_ref: _ModelRef | None = None


class _Device(msgspec.Struct, frozen=True):
    spec: _DeviceSpec = _DeviceSpec()


class _ModelSpec(msgspec.Struct, frozen=True):
    properties: tuple[ModelProperty, ...] | None = None


class _Model(msgspec.Struct, frozen=True):
    spec: _ModelSpec = _ModelSpec()


def method_call_of(target: str) -> MethodCall | None:
    """Return the call of a device's method at a path; None for any other path. A quoted slash counts as one, as for
    mappers of KubeEdge's framework.
    """
    parts = [part for part in unquote(target.partition("?")[0]).split("/") if part not in ("", ".")]
    if parts[: len(_METHODS)] != _METHODS or len(parts) < _LEAST_PARTS:
        return None
    namespace, device, _method, prop, *value = parts[len(_METHODS) :]
    return MethodCall(namespace, device, prop, "/".join(value))


def model_of(device: bytes) -> str:
    """Return the name of a Device's model, or "". Raises as `decode_json`."""
    reference = decode_json(device, _Device).spec.device_model_ref
    return reference.name if reference is not None else ""


def fault_of(call: MethodCall, model: bytes) -> str:
    """Return why a DeviceModel forbids the value of a call, or "". Raises as `decode_json`."""
    properties = {one.name: one for one in decode_json(model, _Model).spec.properties or ()}
    return desired_fault(properties.get(call.prop), call.prop, call.value)
