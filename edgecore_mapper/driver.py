"""The base class of drivers: the author of a mapper writes one driver for each device model."""

import base64
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from google.protobuf.wrappers_pb2 import BoolValue, FloatValue, Int32Value, Int64Value, StringValue

from modules.apimachinery.device_properties import ModelProperty, desired_fault
from protos.dmi.v1beta1 import api_pb2 as dmi

Value = str | int | float | bool | bytes
"""A property's value: by the model's type `str`, `int`, `float`, `bool` or `bytes`."""

DEFAULT_CYCLE: Final = 1.0
"""Seconds between two reads of a property whose Device names no collectCycle (KubeEdge's)."""

HEARTBEAT: Final = 60.0
"""Seconds after which an unchanged value is reported again, unless the Device names a reportCycle."""

_WRAPPERS: Final[tuple[Any, ...]] = (StringValue, BoolValue, FloatValue, Int32Value, Int64Value)


class DriverProperty(NamedTuple):
    """A property of a device."""

    name: str
    type: str
    """The model's, in upper case: INT, FLOAT, DOUBLE, STRING, BOOLEAN, BYTES or STREAM."""
    is_writable: bool
    """Whether the model's access mode is not ReadOnly."""
    config: Mapping[str, Any]
    """`visitors.configData` of the Device and its model."""
    desired: str
    """The desired value as text; empty without one."""
    is_reported: bool
    """Whether the Device asks for reports (`reportToCloud`)."""
    collect_cycle: float = DEFAULT_CYCLE
    """Seconds between two reads."""
    report_cycle: float = HEARTBEAT
    """Seconds after which an unchanged value is reported again."""
    model: ModelProperty | None = None
    """The property in the device's model; None if the model does not have it."""

    def value_of(self, text: str) -> Value:
        """Return a value to write, in the type of the model. Raises ValueError if the model forbids it."""
        if self.model is not None and (fault := desired_fault(self.model, self.name, text)):
            raise ValueError(fault)
        return value_of(self.type, text)


class DriverSpec(NamedTuple):
    """A device, as the cloud describes it."""

    id: str
    """`namespace/name`."""
    config: Mapping[str, Any]
    """`protocol.configData` of the Device and its model."""
    properties: Mapping[str, DriverProperty]
    reports_state: bool
    """Whether the Device asks for reports of its state (`stateReport.reportToCloud`)."""

    def wants_only_others(self, other: "DriverSpec") -> bool:
        """Return whether another description of the device is equal but for desired values and those allowed."""
        return self._without_desired() == other._without_desired()

    def _without_desired(self) -> "DriverSpec":
        return self._replace(
            properties={name: one._replace(desired="", model=None) for name, one in self.properties.items()}
        )


class DeviceDriver:
    """One device. Its methods run on the device's own thread: they may block without delaying other devices.

    An exception in any of them is logged, and the device is closed and opened again a little later.

    Args:
        spec: the device; a changed one gets a new driver.
    """

    def __init__(self, spec: DriverSpec) -> None:
        self.id = spec.id
        self.config = spec.config
        self.properties = spec.properties

    def open(self) -> None:
        """Connect to the device; called before the methods below, and again after `close`."""

    def read(self, prop: DriverProperty) -> Value:
        """Return the present value of a property."""
        raise NotImplementedError(f"{type(self).__name__} reads no property {prop.name}")

    def write(self, prop: DriverProperty, value: Value) -> None:
        """Set a property to its desired value; called once for each value that the cloud wants."""
        raise NotImplementedError(f"{type(self).__name__} writes no property {prop.name}")

    def call(self, method: str, prop: DriverProperty, value: Value) -> None:  # noqa: ARG002 - for who overrides it
        """Carry out a call of a method of the device; without this, the value is written.

        An exception is the caller's answer, and the device stays open.

        Args:
            method: one of the Device's `methods`.
            prop: a property of the method.
            value: for it.
        """
        self.write(prop, value)

    def close(self) -> None:
        """Release the device; also called after an exception, even one in `open`."""


def spec_of(device: dmi.Device, model: dmi.DeviceModel) -> DriverSpec:
    """Return the description of a device in DMI's form."""
    shapes = {one.name: one for one in model.spec.properties}
    return DriverSpec(
        f"{device.namespace}/{device.name}",
        values_of(device.spec.protocol.configData),
        {one.name: _property(one, shapes.get(one.name)) for one in device.spec.properties},
        device.status.reportToCloud,
    )


def values_of(given: dmi.CustomizedValue) -> dict[str, Any]:
    """Return a free-form configuration as Python values; values of types that KubeEdge does not use are left out."""
    found: dict[str, Any] = {}
    for key, packed in given.data.items():
        for kind in _WRAPPERS:
            wrapped = kind()
            if packed.Unpack(wrapped):
                value = wrapped.value
                found[key] = int(value) if isinstance(value, float) and value.is_integer() else value
    return found


def text_of(value: Value) -> str:
    """Return a value in the form of a report."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def value_of(kind: str, text: str) -> Value:
    """Return a desired value in the type of the model. Raises ValueError."""
    match kind:
        case "INT":
            return int(text)
        case "FLOAT" | "DOUBLE":
            number = float(text)
            if not math.isfinite(number):
                raise ValueError(f"{text} is no finite number")
            return number
        case "BOOLEAN":
            if text not in ("true", "false"):
                raise ValueError(f"{text[:40]!r} is neither true nor false")
            return text == "true"
        case "BYTES":
            return base64.b64decode(text, validate=True)
        case _:
            return text


def _property(one: dmi.DeviceProperty, shape: dmi.ModelProperty | None) -> DriverProperty:
    return DriverProperty(
        one.name,
        (shape.type if shape is not None else "STRING").upper(),
        shape is None or shape.accessMode != "ReadOnly",
        values_of(one.visitors.configData),
        one.desired.value,
        one.reportToCloud,
        _seconds(one.collectCycle, DEFAULT_CYCLE),
        _seconds(one.reportCycle, HEARTBEAT),
        _rules(shape) if shape is not None else None,
    )


def _rules(shape: dmi.ModelProperty) -> ModelProperty:
    return ModelProperty(shape.name, shape.type, shape.accessMode, shape.minimum, shape.maximum, shape.unit)


def _seconds(milliseconds: int, default: float) -> float:
    return min(24 * 3600.0, max(0.01, milliseconds / 1000)) if milliseconds > 0 else default
