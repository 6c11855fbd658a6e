"""Device and DeviceModel of `devices.kubeedge.io/v1beta1`, reduced to the fields that mappers need. Pure.

Encoded again they have the smallest form with the same meaning, without metadata that mappers do not get.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from beehive.decoding import decode_json
from modules.apimachinery.device_properties import ModelProperty

_INT64: Final = msgspec.Meta(ge=-(2**63), le=2**63 - 1)
Milliseconds = Annotated[int, _INT64]
"""A cycle of reads or reports."""


class _Metadata(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class Visitors(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Way of a mapper to a property."""

    protocol_name: str = ""
    config_data: dict[str, Any] | None = None


class Desired(msgspec.Struct, frozen=True, omit_defaults=True):
    """A desired value."""

    value: str = ""
    metadata: dict[str, str] | None = None


class MappedProperty(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A property of a Device."""

    name: str = ""
    desired: Desired | None = None
    visitors: Visitors | None = None
    report_cycle: Milliseconds = 0
    collect_cycle: Milliseconds = 0
    report_to_cloud: bool = False
    push_method: dict[str, Any] | None = None


class Method(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A method of a Device: properties that are written together."""

    name: str = ""
    description: str = ""
    property_names: tuple[str, ...] | None = None


class StateReport(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Reports of the device's state by the mapper."""

    report_to_cloud: bool = False
    report_cycle: Milliseconds = 0


class _ModelReference(msgspec.Struct, frozen=True):
    name: str = ""


class MappedDeviceSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The spec of a Device."""

    device_model_ref: _ModelReference | None = None
    properties: tuple[MappedProperty, ...] | None = None
    protocol: Visitors | None = None
    methods: tuple[Method, ...] | None = None
    state_report: StateReport | None = None


class MappedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Device."""

    metadata: _Metadata = _Metadata()
    spec: MappedDeviceSpec = MappedDeviceSpec()
    status: StateReport | None = None
    """The former place of `spec.stateReport`."""

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def protocol(self) -> str:
        """The protocol that it names itself, which selects its mapper; empty if its model names it."""
        return self.spec.protocol.protocol_name if self.spec.protocol else ""

    @property
    def model(self) -> str:
        """`namespace/name` of its model; empty without one."""
        name = self.spec.device_model_ref.name if self.spec.device_model_ref else ""
        return f"{self.metadata.namespace}/{name}" if name else ""


class MappedModelProperty(ModelProperty, frozen=True, rename="camel", omit_defaults=True):
    """A property of a DeviceModel."""

    description: str = ""
    visitors: Visitors | None = None


class MappedModelSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The spec of a DeviceModel."""

    properties: tuple[MappedModelProperty, ...] | None = None
    protocol: str = ""
    protocol_config_data: dict[str, Any] | None = None


class MappedModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A DeviceModel."""

    metadata: _Metadata = _Metadata()
    spec: MappedModelSpec = MappedModelSpec()

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


def with_desired(device: MappedDevice, values: Mapping[str, str]) -> MappedDevice:
    """Return a Device with desired values of the node's owner in place of the cloud's."""
    properties = tuple(
        replace(one, desired=replace(one.desired or Desired(), value=values[one.name])) if one.name in values else one
        for one in device.spec.properties or ()
    )
    return replace(device, spec=replace(device.spec, properties=properties))


def read_mapped_device(text: bytes) -> MappedDevice:
    """Read a Device. Raises msgspec.DecodeError, UnicodeError."""
    return decode_json(text, MappedDevice)


def read_mapped_model(text: bytes) -> MappedModel:
    """Read a DeviceModel. Raises as `read_mapped_device`."""
    return decode_json(text, MappedModel)


def protocol_of(device: MappedDevice, model: MappedModel | None) -> str:
    """Return the protocol that selects a device's mapper: its own, or its model's."""
    return device.protocol or (model.spec.protocol if model is not None else "")
