"""Persistent volumes, claims, attachments, and CSIDriver objects."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta, ObjectReference
from modules.apimachinery.types.quantity import Quantity
from modules.apimachinery.types.scheduling import NodeSelector
from modules.apimachinery.types.volumes import HostPathVolumeSource


class SecretReference(KubeStruct, frozen=True):
    """A secret of any namespace."""

    name: str = ""
    namespace: str = ""


class LocalVolumeSource(KubeStruct, frozen=True):
    """A directory of one node."""

    path: str = field(default_factory=str)
    fs_type: str | None = None


class CSIPersistentVolumeSource(KubeStruct, frozen=True):
    """A volume of a storage driver."""

    driver: str = field(default_factory=str)
    volume_handle: str = field(default_factory=str)
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: dict[str, str] = field(default_factory=dict)
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None


class VolumeNodeAffinity(KubeStruct, frozen=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(KubeStruct, frozen=True):
    """The source of a persistent volume and its properties; sources of unlisted kinds are ignored."""

    capacity: dict[str, Quantity] = field(default_factory=dict)
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None
    csi: CSIPersistentVolumeSource | None = None
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolumeStatus(KubeStruct, frozen=True):
    """Phase: Available, Bound, Released, Failed."""

    phase: str = ""


class PersistentVolume(KubeStruct, frozen=True):
    """v1.PersistentVolume."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    """The claim's request, and its bound volume."""

    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    """Phase: Pending, Bound, Lost."""

    phase: str = ""


class PersistentVolumeClaim(KubeStruct, frozen=True):
    """v1.PersistentVolumeClaim."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class VolumeProblem(KubeStruct, frozen=True):
    """The error of a failed attachment (Kubernetes' VolumeError)."""

    message: str = ""


class VolumeAttachmentSource(KubeStruct, frozen=True):
    """The volume."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(KubeStruct, frozen=True):
    """The volume, the node, and the attacher."""

    attacher: str = field(default_factory=str)
    node_name: str = field(default_factory=str)
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachmentStatus(KubeStruct, frozen=True):
    """State of the attachment, and the attacher's data for the driver's node service."""

    attached: bool = field(default_factory=bool)
    attachment_metadata: dict[str, str] = field(default_factory=dict)
    attach_error: VolumeProblem | None = None


class VolumeAttachment(KubeStruct, frozen=True):
    """storage.k8s.io/v1 VolumeAttachment."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
    status: VolumeAttachmentStatus = field(default_factory=VolumeAttachmentStatus)


class CSIDriverSpec(KubeStruct, frozen=True):
    """The requirements of a storage driver; the defaults are the API server's."""

    attach_required: bool | None = None
    pod_info_on_mount: bool | None = None
    volume_lifecycle_modes: tuple[str, ...] = ()
    fs_group_policy: str | None = None
    requires_republish: bool | None = None


class CSIDriver(KubeStruct, frozen=True):
    """storage.k8s.io/v1 CSIDriver."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)
