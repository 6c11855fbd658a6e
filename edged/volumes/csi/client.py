"""The calls of a storage driver that a node makes, over the driver's socket.

This is where CSI's messages are made. It is imported with the first driver that registers: most nodes have none, and
the messages take a megabyte.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from edged.plugins.socket import PluginSocket
from edged.volumes.csi.model import CsiVolume, NodeCapability
from protos.csi.v1 import api_pb2 as csi

SECONDS: Final = 120.0
"""That a driver has for one call (kubelet's csiTimeout)."""

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


class NodeInfo(NamedTuple):
    """What a driver calls the node, and from where its volumes can be reached."""

    node_id: str
    topology: Mapping[str, str]


class Wish(NamedTuple):
    """What goes with a volume to its driver."""

    volume: CsiVolume
    capabilities: frozenset[NodeCapability]
    """Of the driver."""
    publish_context: Mapping[str, str] = {}
    """What the attacher has said of the volume."""
    secrets: Mapping[str, str] = {}
    attributes: Mapping[str, str] = {}
    """Beside the volume's own: facts about the pod."""
    group: str = ""
    """The pod's fsGroup, when the driver itself gives the volume to it."""


class CsiClient:
    """See the module's docstring. Each call raises PluginCallError, which names the volume; thread-safe.

    Args:
        socket: of the driver.
        seconds: that each call may take.
    """

    def __init__(self, socket: Path, seconds: float = SECONDS) -> None:
        self._socket = PluginSocket(socket)
        self._seconds = seconds

    def close(self) -> None:
        """Let go of the driver: calls that are under way end."""
        self._socket.close()

    def node_info(self) -> NodeInfo:
        """NodeGetInfo."""
        answer = self._call(f"{_NODE}/NodeGetInfo", csi.NodeGetInfoRequest(), csi.NodeGetInfoResponse)
        return NodeInfo(answer.node_id, dict(answer.accessible_topology.segments))

    def node_capabilities(self) -> frozenset[NodeCapability]:
        """NodeGetCapabilities: those that this agent knows."""
        method = f"{_NODE}/NodeGetCapabilities"
        answer = self._call(method, csi.NodeGetCapabilitiesRequest(), csi.NodeGetCapabilitiesResponse)
        kinds = csi.NodeServiceCapability.RPC.Type
        names = {kinds.Name(c.rpc.type) for c in answer.capabilities if c.rpc.type in kinds.values()}
        return frozenset(capability for capability in NodeCapability if capability in names)

    def stage(self, wish: Wish, place: Path) -> None:
        """NodeStageVolume: make a volume ready on this node, at `place`, for all its pods."""
        request = csi.NodeStageVolumeRequest(
            volume_id=wish.volume.handle,
            publish_context=wish.publish_context,
            staging_target_path=str(place),
            volume_capability=_capability(wish),
            secrets=wish.secrets,
            volume_context=wish.volume.attributes,
        )
        self._call(f"{_NODE}/NodeStageVolume", request, csi.NodeStageVolumeResponse, wish.volume, wish.secrets)

    def publish(self, wish: Wish, place: Path, staged: Path | None) -> None:
        """NodePublishVolume: show a volume at `place`, in a pod; `staged` is where it was staged, if it was."""
        request = csi.NodePublishVolumeRequest(
            volume_id=wish.volume.handle,
            publish_context=wish.publish_context,
            staging_target_path=str(staged or ""),
            target_path=str(place),
            volume_capability=_capability(wish),
            readonly=wish.volume.read_only,
            secrets=wish.secrets,
            volume_context={**wish.volume.attributes, **wish.attributes},
        )
        self._call(f"{_NODE}/NodePublishVolume", request, csi.NodePublishVolumeResponse, wish.volume, wish.secrets)

    def unpublish(self, handle: str, place: Path) -> None:
        """NodeUnpublishVolume."""
        request = csi.NodeUnpublishVolumeRequest(volume_id=handle, target_path=str(place))
        self._socket.call(
            f"{_NODE}/NodeUnpublishVolume", request, csi.NodeUnpublishVolumeResponse, self._seconds, on=handle
        )

    def unstage(self, handle: str, place: Path) -> None:
        """NodeUnstageVolume."""
        request = csi.NodeUnstageVolumeRequest(volume_id=handle, staging_target_path=str(place))
        self._socket.call(
            f"{_NODE}/NodeUnstageVolume", request, csi.NodeUnstageVolumeResponse, self._seconds, on=handle
        )

    def controller_capabilities(self) -> frozenset[str]:
        """ControllerGetCapabilities: CSI's names."""
        method = f"{_CONTROLLER}/ControllerGetCapabilities"
        answer = self._call(method, csi.ControllerGetCapabilitiesRequest(), csi.ControllerGetCapabilitiesResponse)
        kinds = csi.ControllerServiceCapability.RPC.Type
        return frozenset(kinds.Name(c.rpc.type) for c in answer.capabilities if c.rpc.type in kinds.values())

    def controller(self, method: str, request: Message, answer: type[Answer], seconds: float) -> Answer:
        """A call of the driver's controller service."""
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
        return self._socket.call(method, request, answer, self._seconds, on=about, secrets=hidden)


def _capability(wish: Wish) -> csi.VolumeCapability:
    """How the volume is to be used. Of several access modes a volume is used in the first (kubelet)."""
    modes = _MULTI_WRITER_MODES if NodeCapability.SINGLE_NODE_MULTI_WRITER in wish.capabilities else _MODES
    mode = modes.get((wish.volume.access_modes or ("ReadWriteOnce",))[0], csi.VolumeCapability.AccessMode.UNKNOWN)
    mount = csi.VolumeCapability.MountVolume(
        fs_type=wish.volume.fs_type, mount_flags=wish.volume.mount_flags, volume_mount_group=wish.group
    )
    return csi.VolumeCapability(mount=mount, access_mode=csi.VolumeCapability.AccessMode(mode=mode))
