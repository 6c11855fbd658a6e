"""A node's calls to a storage driver, over the driver's socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from edged.plugins.socket import PluginSocket
from edged.volumes.csi.model import CsiVolume, NodeCapability
from modules.apimachinery.csi_drivers import MOST_VOLUMES
from protos.csi.v1 import api_pb2 as csi

SECONDS: Final = 120.0
"""Time-out of one call (kubelet's csiTimeout)."""

_NODE: Final = "csi.v1.Node"
_CONTROLLER: Final = "csi.v1.Controller"
_MODES: Final = {
    "ReadWriteOnce": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": csi.VolumeCapability.AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": csi.VolumeCapability.AccessMode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER,
}
_MULTI_WRITER_MODES: Final = {
    **_MODES,
    "ReadWriteOnce": csi.VolumeCapability.AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": csi.VolumeCapability.AccessMode.SINGLE_NODE_SINGLE_WRITER,
}

Answer = TypeVar("Answer", bound=Message)


class CsiNodeInfo(NamedTuple):
    """A driver's facts about the node: its id, and the topology that reaches its volumes."""

    node_id: str
    topology: Mapping[str, str]
    most_volumes: int = 0
    """The most volumes that the node can have; 0: no limit."""


class NodeVolumeRequest(NamedTuple):
    """A volume with the data that its driver needs to stage or publish it."""

    volume: CsiVolume
    capabilities: frozenset[NodeCapability]
    """The driver's."""
    publish_context: Mapping[str, str] = {}
    """The attacher's data about the volume."""
    secrets: Mapping[str, str] = {}
    attributes: Mapping[str, str] = {}
    """Facts about the pod, in addition to the volume's own attributes."""
    group: str = ""
    """The pod's fsGroup, if the driver itself sets the volume's ownership."""


class CsiClient:
    """The client of one storage driver. Thread-safe; each call raises PluginCallError, which names the volume.

    This module makes CSI's messages, which take a megabyte. It is imported when the first driver registers, because
    most nodes have no driver.

    Args:
        socket: of the driver.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = PluginSocket(socket)

    def close(self) -> None:
        """Close the connection: calls under way end."""
        self._socket.close()

    def node_info(self) -> CsiNodeInfo:
        """NodeGetInfo."""
        answer = self._call(f"{_NODE}/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
        most = min(max(answer.max_volumes_per_node, 0), MOST_VOLUMES)
        return CsiNodeInfo(answer.node_id, dict(answer.accessible_topology.segments), most)

    def node_capabilities(self) -> frozenset[NodeCapability]:
        """NodeGetCapabilities: the capabilities known to this agent."""
        method = f"{_NODE}/NodeGetCapabilities"
        answer = self._call(method, csi.NodeGetCapabilitiesRequest(), csi.NodeGetCapabilitiesResponse)
        kinds = csi.NodeServiceCapability.RPC.Type
        names = {kinds.Name(c.rpc.type) for c in answer.capabilities if c.rpc.type in kinds.values()}
        return frozenset(capability for capability in NodeCapability if capability in names)

    def stage(self, spec: NodeVolumeRequest, place: Path) -> None:
        """NodeStageVolume: prepare a volume on this node, at `place`, for all its pods."""
        request = csi.NodeStageVolumeRequest(
            volume_id=spec.volume.handle,
            publish_context=spec.publish_context,
            staging_target_path=str(place),
            volume_capability=_capability(spec),
            secrets=spec.secrets,
            volume_context=spec.volume.attributes,
        )
        self._call(f"{_NODE}/NodeStageVolume", request, csi.NodeStageVolumeResponse, spec.volume, spec.secrets)

    def publish(self, spec: NodeVolumeRequest, place: Path, staged: Path | None) -> None:
        """NodePublishVolume: mount a volume at `place`, in a pod.

        Args:
            spec: the volume and its parameters.
            place: the mount point in the pod's directory.
            staged: the staging directory; None if the driver does not stage.
        """
        request = csi.NodePublishVolumeRequest(
            volume_id=spec.volume.handle,
            publish_context=spec.publish_context,
            staging_target_path=str(staged or ""),
            target_path=str(place),
            volume_capability=_capability(spec),
            readonly=spec.volume.read_only,
            secrets=spec.secrets,
            volume_context={**spec.volume.attributes, **spec.attributes},
        )
        self._call(f"{_NODE}/NodePublishVolume", request, csi.NodePublishVolumeResponse, spec.volume, spec.secrets)

    def unpublish(self, handle: str, place: Path) -> None:
        """NodeUnpublishVolume."""
        request = csi.NodeUnpublishVolumeRequest(volume_id=handle, target_path=str(place))
        self._socket.call(f"{_NODE}/NodeUnpublishVolume", request, csi.NodeUnpublishVolumeResponse, SECONDS, on=handle)

    def unstage(self, handle: str, place: Path) -> None:
        """NodeUnstageVolume."""
        request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=str(place))
        self._socket.call(f"{_NODE}/NodeUnstageVolume", request, csi.NodeUnstageVolumeResponse, SECONDS, on=handle)

    def controller_capabilities(self) -> frozenset[str]:
        """ControllerGetCapabilities, as CSI's names."""
        method = f"{_CONTROLLER}/ControllerGetCapabilities"
        answer = self._call(method, csi.ControllerGetCapabilitiesRequest(), csi.ControllerGetCapabilitiesResponse)
        kinds = csi.ControllerServiceCapability.RPC.Type
        return frozenset(kinds.Name(c.rpc.type) for c in answer.capabilities if c.rpc.type in kinds.values())

    def controller(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """Make a call of the driver's controller service."""
        secrets = tuple(getattr(request, "secrets", {}).values())
        return self._socket.call(f"{_CONTROLLER}/{method}", request, answer, seconds, secrets=secrets)

    def _call(
        self,
        method: str,
        request: Message,
        answer: type[Answer],
        volume: CsiVolume | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> Answer:
        about = volume.handle if volume is not None else ""
        hidden = tuple((secrets or {}).values())
        return self._socket.call(method, request, answer, SECONDS, on=about, secrets=hidden)


def _capability(spec: NodeVolumeRequest) -> csi.VolumeCapability:
    """Return how the volume is used. If there are several access modes, the first counts (kubelet)."""
    modes = _MULTI_WRITER_MODES if NodeCapability.SINGLE_NODE_MULTI_WRITER in spec.capabilities else _MODES
    mode = modes.get((spec.volume.access_modes or ("ReadWriteOnce",))[0], csi.VolumeCapability.AccessMode.UNKNOWN)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=spec.volume.fs_type, mount_flags=spec.volume.mount_flags, volume_mount_group=spec.group
    )
    return csi.VolumeCapability(mount=mount, access_mode=csi.VolumeCapability.AccessMode(mode=mode))
