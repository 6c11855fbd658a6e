"""The supported volume sources of a pod, and the choice of a file's content from an object's keys.

A volume of an unlisted kind decodes with every source empty; planning then refuses it by name.
"""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import LocalObjectReference
from modules.apimachinery.types.quantity import Quantity


class KeyToPath(KubeStruct, frozen=True):
    """One key of an object and its file."""

    key: str = field(default_factory=str)
    path: str = field(default_factory=str)
    mode: int | None = None


class ObjectFieldSelector(KubeStruct, frozen=True):
    """A field of the pod itself."""

    api_version: str = ""
    field_path: str = field(default_factory=str)


class ResourceFieldSelector(KubeStruct, frozen=True):
    """A container's request or limit, divided and rounded up."""

    container_name: str = ""
    resource: str = field(default_factory=str)
    divisor: Quantity = "0"


class EmptyDirVolumeSource(KubeStruct, frozen=True):
    """An empty directory that is deleted with the pod."""

    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(KubeStruct, frozen=True):
    """A path of the node."""

    path: str = field(default_factory=str)
    type: str | None = None


class ConfigMapVolumeSource(KubeStruct, frozen=True):
    """Files from a configmap."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class SecretVolumeSource(KubeStruct, frozen=True):
    """Files from a secret."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class DownwardAPIVolumeFile(KubeStruct, frozen=True):
    """A file with a fact about the pod."""

    path: str = field(default_factory=str)
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(KubeStruct, frozen=True):
    """Files with facts about the pod."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: int | None = None


class SecretProjection(KubeStruct, frozen=True):
    """A secret as one part of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class ConfigMapProjection(KubeStruct, frozen=True):
    """A configmap as one part of a projected volume."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool | None = None


class DownwardAPIProjection(KubeStruct, frozen=True):
    """Facts about the pod as one part of a projected volume."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(KubeStruct, frozen=True):
    """A bound service account token as one part of a projected volume."""

    audience: str = ""
    expiration_seconds: int | None = None
    path: str = field(default_factory=str)


class VolumeProjection(KubeStruct, frozen=True):
    """One part of a projected volume: exactly one source is set."""

    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = None
    config_map: ConfigMapProjection | None = None
    service_account_token: ServiceAccountTokenProjection | None = None


class ProjectedVolumeSource(KubeStruct, frozen=True):
    """Several sources in one directory."""

    sources: tuple[VolumeProjection, ...] = field(default_factory=tuple)
    default_mode: int | None = None


class PersistentVolumeClaimVolumeSource(KubeStruct, frozen=True):
    """A claim of the pod's namespace."""

    claim_name: str = field(default_factory=str)
    read_only: bool = False


class EphemeralVolumeSource(KubeStruct, frozen=True):
    """A claim that is made for one pod, and deleted with it; its template concerns only who makes it."""


class CSIVolumeSource(KubeStruct, frozen=True):
    """A volume that a storage driver makes for one pod, and deletes with it."""

    driver: str = field(default_factory=str)
    read_only: bool | None = None
    fs_type: str | None = None
    volume_attributes: dict[str, str] = field(default_factory=dict)
    node_publish_secret_ref: LocalObjectReference | None = None


class Volume(KubeStruct, frozen=True):
    """A named volume of a pod: exactly one source is set."""

    name: str = field(default_factory=str)
    host_path: HostPathVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    projected: ProjectedVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
