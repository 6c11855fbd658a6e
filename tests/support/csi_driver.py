"""A CSI driver for tests: a gRPC server on a socket, as in a driver's container."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf.message import Message

from edged.volumes import Mounts
from edged.volumes.mounting import is_mounted
from protos.csi.v1 import api_pb2 as csi
from protos.pluginregistration.v1 import api_pb2 as registration
from tests.support.patience import PATIENCE

NAME = "disks.example.com"
_SERVICES = {
    "csi.v1.Identity": csi.DESCRIPTOR,
    "csi.v1.Node": csi.DESCRIPTOR,
    "csi.v1.Controller": csi.DESCRIPTOR,
    "pluginregistration.Registration": registration.DESCRIPTOR,
}
_NODE_TYPES = csi.NodeServiceCapability.RPC.Type
_CONTROLLER_TYPES = csi.ControllerServiceCapability.RPC.Type


class _RefusalError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class CsiDriver(grpc.GenericRpcHandler):  # type: ignore[misc]
    """CSI driver that keeps its volumes in a directory. Use as a context manager.

    It records staged and published volumes, refuses calls in the wrong order, answers repeated calls as CSI requires,
    and can fail or hang on demand. With `mounts` it bind-mounts a volume's directory at the target path; without, it
    only makes the directories.

    Args:
        directory: for volumes and the socket.
        registry: `plugins_registry`; None for a driver that does not register.
        capabilities: of its node service, by CSI's names.
        controller: capabilities of its controller service.
        mounts: makes real mounts.
        name: of the driver.
    """

    def __init__(
        self,
        directory: Path,
        registry: Path | None = None,
        *,
        capabilities: tuple[str, ...] = ("STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS"),
        controller: tuple[str, ...] = ("CREATE_DELETE_VOLUME", "PUBLISH_UNPUBLISH_VOLUME"),
        mounts: Mounts | None = None,
        name: str = NAME,
    ) -> None:
        self.name = name
        self.volumes = directory / "volumes"
        self.socket = directory / "csi.sock"
        self.capabilities = capabilities
        self.controller = controller
        self.versions = ["1.0.0"]
        self.most_volumes = 0
        """What NodeGetInfo says."""
        self.calls: list[tuple[str, Any]] = []
        """Method and request of each call, in order."""
        self.staged: dict[str, str] = {}
        """Staging path of each volume, by its handle."""
        self.published: dict[str, str] = {}
        """Handle of the volume that is published at each path."""
        self.refused: list[str] = []
        """Why calls were refused that CSI forbids, such as to unstage a volume that is published."""
        self.registered: list[tuple[bool, str]] = []
        """Arguments of each `NotifyRegistrationStatus`."""
        self.heard = threading.Event()
        """Set by `NotifyRegistrationStatus`."""
        self._failures: dict[str, list[tuple[grpc.StatusCode, str]]] = {}
        self._hanging: dict[str, threading.Event] = {}
        self.called: dict[str, threading.Event] = {}
        self._mounts = mounts
        self._registry = registry
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Serve (again), and make the socket in the registry."""
        self.volumes.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{self.socket}")
        if self._registry is not None:
            self._registry.mkdir(parents=True, exist_ok=True)
            self._server.add_insecure_port(f"unix:{self._registry / f'{self.name}-reg.sock'}")
        self._server.start()

    def stop(self) -> None:
        """Stop serving; mounts stay, as with a driver whose container ends."""
        for event in self._hanging.values():
            event.set()
        self._server.stop(grace=None).wait(PATIENCE)
        self.socket.unlink(missing_ok=True)
        if self._registry is not None:
            (self._registry / f"{self.name}-reg.sock").unlink(missing_ok=True)

    def fail(self, method: str, code: grpc.StatusCode, text: str, times: int = 1) -> None:
        """Let the next calls of a method (`NodeStageVolume`) fail, before they take effect."""
        self._failures[method] = [(code, text)] * times

    def hang(self, method: str) -> threading.Event:
        """Let calls of a method hang until the event is set; `called[method]` is set by the first."""
        self.called[method] = threading.Event()
        return self._hanging.setdefault(method, threading.Event())

    def made(self) -> list[str]:
        """Return the calls that change something, in order."""
        return [method for method, _ in self.calls if "Get" not in method and not method.startswith("Notify")]

    def request(self, method: str) -> Any:
        """Return the last request of a method."""
        return next(request for name, request in reversed(self.calls) if name == method)

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a call (gRPC's hook)."""
        service, _, method = call.method.lstrip("/").partition("/")
        if service not in _SERVICES:
            return None
        described = _SERVICES[service].services_by_name[service.rpartition(".")[2]].methods_by_name[method]
        kind = getattr(csi if service.startswith("csi") else registration, described.input_type.name)
        return grpc.unary_unary_rpc_method_handler(
            self._serving(method), request_deserializer=kind.FromString, response_serializer=_serialize
        )

    def _serving(self, method: str) -> Callable[[Message, grpc.ServicerContext], Message]:
        def serve(request: Message, context: grpc.ServicerContext) -> Message:
            self._wait(method)
            with self._lock:
                self.calls.append((method, request))
                failures = self._failures.get(method)
                if failures:
                    context.abort(*failures.pop(0))
                try:
                    answer: Message = getattr(self, f"_{method}")(request)
                except _RefusalError as refusal:
                    self.refused.append(f"{method}: {refusal}")
                    context.abort(refusal.code, str(refusal))
                return answer

        return serve

    def _wait(self, method: str) -> None:
        if method in self._hanging:
            self.called[method].set()
            self._hanging[method].wait(PATIENCE)

    def _GetInfo(self, _: Any) -> Message:  # noqa: N802 - named as the calls are
        return registration.PluginInfo(
            type="CSIPlugin", name=self.name, endpoint=str(self.socket), supported_versions=self.versions
        )

    def _NotifyRegistrationStatus(self, request: Any) -> Message:  # noqa: N802
        self.registered.append((request.plugin_registered, request.error))
        self.heard.set()
        return registration.RegistrationStatusResponse()

    def _NodeGetInfo(self, _: Any) -> Message:  # noqa: N802
        topology = csi.Topology(segments={f"topology.{self.name}/node": "here"})
        return csi.NodeGetInfoResponse(
            node_id=f"{self.name}-node-7", accessible_topology=topology, max_volumes_per_node=self.most_volumes
        )

    def _NodeGetCapabilities(self, _: Any) -> Message:  # noqa: N802
        rpcs = [csi.NodeServiceCapability.RPC(type=_NODE_TYPES.Value(name)) for name in self.capabilities]
        return csi.NodeGetCapabilitiesResponse(capabilities=[csi.NodeServiceCapability(rpc=rpc) for rpc in rpcs])

    def _NodeStageVolume(self, request: Any) -> Message:  # noqa: N802
        at = self.staged.get(request.volume_id)
        if at not in (None, request.staging_target_path):
            raise _RefusalError(grpc.StatusCode.FAILED_PRECONDITION, f"staged at {at}")
        if not Path(request.staging_target_path).is_dir():
            raise _RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "the staging directory does not exist")
        self.staged[request.volume_id] = request.staging_target_path
        self._show(request.volume_id, Path(request.staging_target_path))
        return csi.NodeStageVolumeResponse()

    def _NodePublishVolume(self, request: Any) -> Message:  # noqa: N802
        stages = "STAGE_UNSTAGE_VOLUME" in self.capabilities
        ephemeral = request.volume_context.get("csi.storage.k8s.io/ephemeral") == "true"
        if stages and not ephemeral and self.staged.get(request.volume_id) != request.staging_target_path:
            raise _RefusalError(grpc.StatusCode.FAILED_PRECONDITION, "the volume is not staged there")
        target = Path(request.target_path)
        if not target.parent.is_dir():
            raise _RefusalError(grpc.StatusCode.INVALID_ARGUMENT, "the directory above the target does not exist")
        target.mkdir(exist_ok=True)
        self.published[request.target_path] = request.volume_id
        self._show(request.volume_id, target)
        return csi.NodePublishVolumeResponse()

    def _NodeUnpublishVolume(self, request: Any) -> Message:  # noqa: N802
        self.published.pop(request.target_path, None)
        self._hide(Path(request.target_path))
        with suppress(FileNotFoundError):
            Path(request.target_path).rmdir()
        return csi.NodeUnpublishVolumeResponse()

    def _NodeUnstageVolume(self, request: Any) -> Message:  # noqa: N802
        if request.volume_id in self.published.values():
            raise _RefusalError(grpc.StatusCode.FAILED_PRECONDITION, "the volume is still published")
        self.staged.pop(request.volume_id, None)
        self._hide(Path(request.staging_target_path))
        return csi.NodeUnstageVolumeResponse()

    def _ControllerGetCapabilities(self, _: Any) -> Message:  # noqa: N802
        rpcs = [csi.ControllerServiceCapability.RPC(type=_CONTROLLER_TYPES.Value(n)) for n in self.controller]
        capabilities = [csi.ControllerServiceCapability(rpc=rpc) for rpc in rpcs]
        return csi.ControllerGetCapabilitiesResponse(capabilities=capabilities)

    def _CreateVolume(self, request: Any) -> Message:  # noqa: N802
        (self.volumes / request.name).mkdir(exist_ok=True)
        volume = csi.Volume(volume_id=request.name, capacity_bytes=request.capacity_range.required_bytes)
        return csi.CreateVolumeResponse(volume=volume)

    def _DeleteVolume(self, request: Any) -> Message:  # noqa: N802
        with suppress(FileNotFoundError):
            (self.volumes / request.volume_id).rmdir()
        return csi.DeleteVolumeResponse()

    def _ControllerPublishVolume(self, request: Any) -> Message:  # noqa: N802
        if not (self.volumes / request.volume_id).is_dir():
            raise _RefusalError(grpc.StatusCode.NOT_FOUND, f"no volume {request.volume_id}")
        return csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/sdz"})

    def _ControllerUnpublishVolume(self, _: Any) -> Message:  # noqa: N802
        return csi.ControllerUnpublishVolumeResponse()

    def _show(self, handle: str, place: Path) -> None:
        directory = self.volumes / handle
        directory.mkdir(exist_ok=True)
        if self._mounts is not None and not is_mounted(self._mounts, place):
            self._mounts.bind(directory, place)

    def _hide(self, place: Path) -> None:
        if self._mounts is not None and is_mounted(self._mounts, place):
            self._mounts.unmount(place)


def _serialize(answer: Message) -> bytes:
    return answer.SerializeToString()
