"""Storage drivers and their volumes, free of the wire's types."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from modules.apimachinery.types.persistent import SecretReference

CSI: Final = "csi"
"""kubelet's name of the kind in the directories of volumes and plug-ins."""


class NodeCapability(StrEnum):
    """Capabilities of a driver's node service, as far as they matter here; the names are CSI's."""

    STAGE_UNSTAGE_VOLUME = "STAGE_UNSTAGE_VOLUME"
    SINGLE_NODE_MULTI_WRITER = "SINGLE_NODE_MULTI_WRITER"
    VOLUME_MOUNT_GROUP = "VOLUME_MOUNT_GROUP"


class Driver(Struct, frozen=True):
    """A registered storage driver."""

    name: str
    endpoint: Path
    node_id: str
    """The driver's id of this node."""
    topology: Mapping[str, str] = {}
    """Labels of the topology that reaches its volumes."""
    capabilities: frozenset[NodeCapability] = frozenset()
    most_volumes: int = 0
    """The most of its volumes that this node can have; 0: no limit."""


class CsiVolume(Struct, frozen=True):
    """A driver's volume, as one pod uses it."""

    name: str
    """Name of its directory in the pod: the persistent volume's, or the pod's own name for an inline volume."""
    driver: str
    handle: str
    """The driver's id of the volume."""
    access_modes: tuple[str, ...] = ()
    attributes: Mapping[str, str] = {}
    fs_type: str = ""
    mount_flags: tuple[str, ...] = ()
    read_only: bool = False
    ephemeral: bool = False
    """Made by the driver when it is published to its one pod, deleted when it is unpublished."""
    stage_secret: SecretReference | None = None
    publish_secret: SecretReference | None = None

    @property
    def unique_name(self) -> str:
        """The cloud's name of the volume, in `volumesInUse` and `volumesAttached` (kubelet's UniqueVolumeName)."""
        return f"kubernetes.io/csi/{self.driver}^{self.handle}"


class PublishedVolume(Struct, frozen=True, omit_defaults=True):
    """The record that is written beside a volume before its driver is called, so that a later agent can undo the call
    (kubelet's vol_data.json, with its names).
    """

    driverName: str  # noqa: N815 - kubelet's name
    volumeHandle: str  # noqa: N815
    specVolID: str = ""  # noqa: N815
    nodeName: str = ""  # noqa: N815
    volumeLifecycleMode: str = ""  # noqa: N815

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the volume."""
        return self.driverName, self.volumeHandle


def inline_handle(pod_uid: str, volume: str) -> str:
    """Return the handle of an inline volume (kubelet's makeVolumeHandle)."""
    return f"csi-{_hash(pod_uid + volume)}"


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment of a volume and a node (kubelet's getAttachmentName)."""
    return f"csi-{_hash(handle + driver + node)}"


def stage_name(handle: str) -> str:
    """Return the name of the volume's staging directory."""
    return _hash(handle)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
