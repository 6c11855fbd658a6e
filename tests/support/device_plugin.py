"""A device plug-in for tests: a gRPC server on a socket, as in a plug-in's container."""

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc

from protos.deviceplugin.v1beta1 import api_pb2 as proto
from protos.pluginregistration.v1 import api_pb2 as registration
from tests.support.patience import PATIENCE

RESOURCE = "example.com/dev"
_MORE, _NO_MORE = True, False


class DevicePluginDouble:
    """Device plug-in that serves and then registers. Use as a context manager.

    It registers on the kubelet's socket, or by a socket in the registry. It sends its devices to edged whenever `say`
    changes them, and records the calls that it receives.

    Args:
        root: edged's directory.
        devices: ids of its devices, all of them healthy.
        resource: name of the extended resource.
        registry: whether it registers by a socket in `plugins_registry`.
        options: its `DevicePluginOptions`.
    """

    def __init__(
        self, root: Path, *devices: str, resource: str = RESOURCE, registry: bool = False, **options: bool
    ) -> None:
        self.resource = resource
        self.options = proto.DevicePluginOptions(**options)
        self.devices = dict.fromkeys(devices, "Healthy")
        self.allocated: list[list[str]] = []
        """Device ids of each `Allocate`."""
        self.prepared: list[list[str]] = []
        """Device ids of each `PreStartContainer`."""
        self.asked: list[Any] = []
        """Each `GetPreferredAllocation`."""
        self.failure: tuple[grpc.StatusCode, str] | None = None
        """Status and text of the next `Allocate`, which fails."""
        self.registered: list[str] = []
        """Error of each registration; empty for success."""
        self.heard = threading.Event()
        """Set by `NotifyRegistrationStatus` (in the registry)."""
        self._root = root
        self._registry = root / "plugins_registry" / "dev-reg.sock" if registry else None
        self.socket = root / "device-plugins" / "dev.sock"
        self._listeners: list[queue.SimpleQueue[bool]] = []

    def __enter__(self) -> Self:
        self.serve()
        if self._registry is None:
            self.register()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def serve(self) -> None:
        """Serve without registering; in the registry, serving registers."""
        self.socket.parent.mkdir(parents=True, exist_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._add("v1beta1.DevicePlugin", proto)
        self._server.add_insecure_port(f"unix:{self.socket}")
        if self._registry is not None:
            self._registry.parent.mkdir(parents=True, exist_ok=True)
            self._add("pluginregistration.Registration", registration)
            self._server.add_insecure_port(f"unix:{self._registry}")
        self._server.start()

    def register(self, **fields: str) -> str:
        """Call `Register`; return the reason of a refusal, or an empty text."""
        said: dict[str, Any] = {
            "version": "v1beta1",
            "endpoint": self.socket.name,
            "resource_name": self.resource,
            **fields,
        }
        with grpc.insecure_channel(f"unix:{self._root}/device-plugins/kubelet.sock") as channel:
            call = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=proto.RegisterRequest.SerializeToString,
                response_deserializer=proto.Empty.FromString,
            )
            try:
                call(proto.RegisterRequest(**said), timeout=PATIENCE, wait_for_ready=True)
            except grpc.RpcError as error:
                self.registered.append(error.details() or error.code().name)
            else:
                self.registered.append("")
        return self.registered[-1]

    def say(self, **health: str) -> None:
        """Send the health of devices: `dev="Unhealthy"`."""
        self.devices |= health
        for listener in self._listeners:
            listener.put(_MORE)

    def stop(self) -> None:
        """Stop serving."""
        for listener in self._listeners:
            listener.put(_NO_MORE)
        self._server.stop(grace=None).wait(PATIENCE)
        for path in (self.socket, self._registry):
            if path is not None:
                path.unlink(missing_ok=True)

    def _add(self, service: str, module: Any) -> None:
        described = module.DESCRIPTOR.services_by_name[service.rpartition(".")[2]]
        handlers = {method.name: self._handler(method, module) for method in described.methods}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))

    def _handler(self, method: Any, module: Any) -> Any:
        make: Callable[..., Any] = (
            grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        )
        return make(
            getattr(self, f"_{method.name}"),
            request_deserializer=getattr(module, method.input_type.name).FromString,
            response_serializer=getattr(module, method.output_type.name).SerializeToString,
        )

    def _GetInfo(self, _request: Any, _: Any) -> Any:  # noqa: N802 - named as the calls are
        return registration.PluginInfo(
            type="DevicePlugin", name=self.resource, endpoint=str(self.socket), supported_versions=["v1beta1"]
        )

    def _NotifyRegistrationStatus(self, request: Any, _: Any) -> Any:  # noqa: N802
        self.registered.append(request.error)
        self.heard.set()
        return registration.RegistrationStatusResponse()

    def _GetDevicePluginOptions(self, _request: Any, _: Any) -> Any:  # noqa: N802
        return self.options

    def _ListAndWatch(self, _request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        words: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._listeners.append(words)
        context.add_callback(lambda: words.put(_NO_MORE))
        more = True
        while more:
            near = proto.TopologyInfo(nodes=[proto.NUMANode(ID=1)])
            devices = [proto.Device(ID=name, health=how, topology=near) for name, how in self.devices.items()]
            yield proto.ListAndWatchResponse(devices=devices)
            more = words.get()

    def _GetPreferredAllocation(self, request: Any, _: Any) -> Any:  # noqa: N802
        """The last ones by name."""
        (asked,) = request.container_requests
        self.asked.append(asked)
        free = sorted(set(asked.available_deviceIDs) - set(asked.must_include_deviceIDs), reverse=True)
        chosen = [*asked.must_include_deviceIDs, *free][: asked.allocation_size]
        return proto.PreferredAllocationResponse(
            container_responses=[proto.ContainerPreferredAllocationResponse(deviceIDs=chosen)]
        )

    def _Allocate(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        (asked,) = request.container_requests
        self.allocated.append(sorted(asked.devices_ids))
        if self.failure is not None:
            failure, self.failure = self.failure, None
            context.abort(*failure)
        answer = proto.ContainerAllocateResponse(
            envs={"DEVICES": ",".join(sorted(asked.devices_ids))},
            devices=[proto.DeviceSpec(container_path="/dev/given", host_path="/dev/null", permissions="rw")],
            annotations={"example.com/given": "yes"},
        )
        return proto.AllocateResponse(container_responses=[answer])

    def _PreStartContainer(self, request: Any, _: Any) -> Any:  # noqa: N802
        self.prepared.append(sorted(request.devices_ids))
        return proto.PreStartContainerResponse()


def ask_pod_resources(root: Path, method: str, request: Any, answer: Any) -> Any:
    """List a node's pod resources, as a monitoring agent does."""
    with grpc.insecure_channel(f"unix:{root}/pod-resources/kubelet.sock") as channel:
        call = channel.unary_unary(
            f"/v1.PodResourcesLister/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=PATIENCE, wait_for_ready=True)
