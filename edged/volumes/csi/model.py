"""What is known of storage drivers and their volumes, free of the wire's types."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from edged.api.persistent import SecretReference


class NodeCapability(StrEnum):
    """What a driver's node service can do, as far as it makes a difference here; names are CSI's."""

    STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"
    VOLUME_MOUNT_GROUP = "VOLUME_MOUNT_GROUP"


class Driver(Struct, frozen=True):
    """A storage driver that has registered on this node."""

    name: str
    endpoint: Path
    node_id: str
    """What the driver calls this node."""
    topology: Mapping[str, str] = {}
    """Labels that say from where its volumes can be reached."""
    capabilities: frozenset[NodeCapability] = frozenset()


class CsiVolume(Struct, frozen=True):
    """A volume of a driver as one pod wants it."""

    name: str
    """Of its directory in the pod: the persistent volume's, or for one that is the pod's alone the volume's."""
    driver: str
    handle: str
    """What the driver calls it."""
    access_modes: tuple[str, ...] = ()
    attributes: Mapping[str, str] = {}
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    read_only: bool = False
    ephemeral: bool = False
    """Made by the driver when it is published to its one pod, gone when it is unpublished."""
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None

    @property
    def unique_name(self) -> str:
        """As the cloud knows it: in `volumesInUse` and `volumesAttached` (kubelet's UniqueVolumeName)."""
        return f"kubernetes.io/csi/{self.driver}^{self.handle}"


class PublishedVolume(Struct, frozen=True, omit_defaults=True):
    """What is written down beside a volume before its driver is called, so that it can be undone by whoever finds it
    (kubelet's vol_data.json, with its names).
    """

    driverName: str  # noqa: N815 - kubelet's name
    volumeHandle: str  # noqa: N815
    specVolID: str = ""  # noqa: N815
    nodeName: str = ""  # noqa: N815
    volumeLifecycleMode: str = ""  # noqa: N815

    @property
    def key(self) -> tuple[str, str]:
        """What tells one volume from another."""
        return self.driverName, self.volumeHandle


def inline_handle(pod_uid: str, volume: str) -> str:
    """The handle of a volume that is one pod's alone (kubelet's makeVolumeHandle)."""
    return f"csi-{_hash(pod_uid + volume)}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """The VolumeAttachment that says whether a volume is attached to a node (kubelet's getAttachmentName)."""
    return f"csi-{_hash(handle + driver + node)}"


def stage_name(handle: str) -> str:
    """The directory of a volume among its driver's."""
    return _hash(handle)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
