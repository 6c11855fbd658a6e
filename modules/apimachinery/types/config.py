"""ConfigMap and Secret: data for files and variables of pods."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta


class ConfigMap(KubeStruct, frozen=True):
    """v1.ConfigMap. `binary_data` is base64 on the wire and bytes here."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    immutable: bool | None = None
    data: dict[str, str] = field(default_factory=dict)
    binary_data: dict[str, bytes] = field(default_factory=dict)


class Secret(KubeStruct, frozen=True):
    """v1.Secret. `data` is base64 on the wire and bytes here; its values are left out of the representation."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    immutable: bool | None = None
    data: dict[str, bytes] = field(default_factory=dict)
    type: str = ""

    def __repr__(self) -> str:
        name = f"{self.metadata.namespace}/{self.metadata.name}"
        return f"Secret({name}, type={self.type!r}, keys={sorted(self.data)})"
