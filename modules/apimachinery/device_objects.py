"""Device and DeviceModel of `devices.kubeedge.io/v1beta1`, reduced to what is desired and what is allowed. Pure."""

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.device_properties import ModelProperty


class _Desired(msgspec.Struct, frozen=True):
    value: str = ""


class DeviceProperty(msgspec.Struct, frozen=True):
    """A property of a Device."""

    name: str = ""
    desired: _Desired | None = None


class _ModelRef(msgspec.Struct, frozen=True):
    name: str = ""


class ObjectMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    resource_version: str | None = None


class _DeviceSpec(msgspec.Struct, frozen=True, rename="camel"):
    device_model_ref: _ModelRef | None = None
    properties: tuple[DeviceProperty, ...] | None = None


class _ModelSpec(msgspec.Struct, frozen=True):
    properties: tuple[ModelProperty, ...] | None = None


class DeviceObject(msgspec.Struct, frozen=True):
    """A Device; the one in a deletion may lack kind and spec."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: _DeviceSpec = _DeviceSpec()

    @property
    def id(self) -> str:
        """The device's id."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def model(self) -> str:
        """`namespace/name` of its model; empty without one."""
        name = self.spec.device_model_ref.name if self.spec.device_model_ref else ""
        return f"{self.metadata.namespace}/{name}" if name else ""

    @property
    def description(self) -> str:
        """The label `description`, which KubeEdge's cloud sends as the description."""
        return (self.metadata.labels or {}).get("description", "")

    @property
    def desired(self) -> dict[str, str]:
        """Desired value of each property; empty without one."""
        return {one.name: one.desired.value if one.desired else "" for one in self.spec.properties or ()}


class ModelObject(msgspec.Struct, frozen=True):
    """A DeviceModel."""

    metadata: ObjectMetadata = ObjectMetadata()
    spec: _ModelSpec = _ModelSpec()

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def properties(self) -> dict[str, ModelProperty]:
        """The properties by name."""
        return {one.name: one for one in self.spec.properties or ()}


def read_device(text: bytes) -> DeviceObject:
    """Read a Device. Raises msgspec.DecodeError, UnicodeError."""
    return decode_json(text, DeviceObject)


def read_model(text: bytes) -> ModelObject:
    """Read a DeviceModel. Raises as `read_device`."""
    return decode_json(text, ModelObject)
