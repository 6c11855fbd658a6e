"""A mapper that behaves like KubeEdge's mapper-framework, call by call, with its weaknesses."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from protos.dmi.v1beta1 import api_pb2 as dmi
from tests.support.patience import PATIENCE

MANAGER = "/v1beta1.DeviceManagerService/"
MAPPER = "v1beta1.DeviceMapperService"


def omissions(device: dmi.Device) -> list[str]:
    """What a device lacks that ends such a mapper, or its device's start."""
    missing = [] if device.spec.HasField("protocol") else ["protocol"]
    for one in device.spec.properties:
        missing += [f"{one.name}.{field}" for field in ("desired", "visitors") if not one.HasField(field)]
        missing += [] if one.visitors.HasField("configData") else [f"{one.name}.visitors.configData"]
    return missing


class FrameworkMapper:
    """A mapper; its service begins after the answer to its registration only. Its socket is there before it: edgecore
    gives a real one half a second for that, which a busy machine does not have.

    Args:
        directory: of its socket.
        edgecore: edgecore's socket.
        protocol: of its devices.
        name: of the mapper.
    """

    def __init__(self, directory: Path, edgecore: Path, protocol: str = "demo", name: str = "demo-mapper") -> None:
        self.socket = directory / f"{name}.sock"
        self.edgecore = edgecore
        self.protocol = protocol
        self.name = name
        self.models: dict[str, dmi.DeviceModel] = {}
        self.devices: dict[str, dmi.Device] = {}
        self.calls: queue.Queue[tuple[str, str]] = queue.Queue()
        """Method, and name of its device or model."""
        self.refuses: Callable[[str], bool] = lambda _method: False
        self.hangs: threading.Event | None = None
        """Until it is set, no call is answered."""
        self.entered = threading.Event()
        """Set when edgecore has called."""
        self._server: grpc.Server | None = None

    def start(self, *, serves: bool = True) -> dmi.MapperRegisterResponse:
        """Start the process: dial, register with a second's deadline, and then serve."""
        self.models.clear()
        self.devices.clear()
        with grpc.insecure_channel(f"unix:{self.edgecore}") as channel:
            grpc.channel_ready_future(channel).result(timeout=PATIENCE)
        server = self._listen() if serves else None
        answer = self.register()
        for model in answer.modelList:
            self.models[f"{model.namespace}/{model.name}"] = model
        for device in answer.deviceList:
            self._begin(device)
        if server is not None:
            server.start()
        return answer

    def register(self, *, with_data: bool = True) -> dmi.MapperRegisterResponse:
        """Register; raises grpc.RpcError."""
        info = dmi.MapperInfo(name=self.name, version="v1", api_version="v1.0.0", protocol=self.protocol,
                              address=str(self.socket).encode(), state="ok")  # fmt: skip
        request = dmi.MapperRegisterRequest(withData=with_data, mapper=info)
        answer: dmi.MapperRegisterResponse = self.call("MapperRegister", request, dmi.MapperRegisterResponse)
        return answer

    def report(self, device: str, values: dict[str, str], desired: str = "", namespace: str = "ns") -> None:
        """Report as a device's data goroutine does: one twin a call, on a new connection, with a second's deadline."""
        for name, value in values.items():
            metadata = {"timestamp": "1795192979794", "type": "string"}
            twin = dmi.Twin(
                propertyName=name,
                observedDesired=dmi.TwinProperty(value=desired, metadata=metadata),
                reported=dmi.TwinProperty(value=value, metadata=metadata),
            )
            status = dmi.DeviceStatus(twins=[twin])
            self.call(
                "ReportDeviceStatus",
                dmi.ReportDeviceStatusRequest(deviceName=device, deviceNamespace=namespace, reportedDevice=status),
                dmi.ReportDeviceStatusResponse,
            )

    def report_state(self, device: str, state: str) -> None:
        """Report a state."""
        request = dmi.ReportDeviceStatesRequest(deviceName=device, deviceNamespace="ns", state=state)
        self.call("ReportDeviceStates", request, dmi.ReportDeviceStatesResponse)

    def call(self, method: str, request: Any, answer: type[Any], seconds: float = PATIENCE) -> Any:
        """Call edgecore on a new connection. The framework's deadline is a second; a slow machine has longer."""
        with grpc.insecure_channel(f"unix:{self.edgecore}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            made: Callable[..., Any] = channel.unary_unary(
                f"{MANAGER}{method}",
                request_serializer=lambda one: one if isinstance(one, bytes) else one.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            return made(request, timeout=seconds)

    def serve(self) -> None:
        """Open its socket, and serve."""
        self._listen().start()

    def _listen(self) -> grpc.Server:
        self.socket.unlink(missing_ok=True)
        server = self._server = grpc.server(ThreadPoolExecutor(4))
        handlers = {name: self._handler(name) for name in _HANDLED}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(MAPPER, handlers),))
        server.add_insecure_port(f"unix:{self.socket}")
        return server

    def stop(self) -> None:
        """End the process."""
        if self.hangs is not None:
            self.hangs.set()
        if self._server is not None:
            self._server.stop(None).wait(PATIENCE)
            self._server = None

    def hear(self, method: str, name: str) -> None:
        """Wait until edgecore has made a call; earlier ones are dropped."""
        heard = []
        try:
            while (call := self.calls.get(timeout=PATIENCE)) != (method, name):
                heard.append(call)
        except queue.Empty:
            raise AssertionError(f"no {method} of {name}; heard {heard}") from None

    def _handler(self, name: str) -> "grpc.RpcMethodHandler[Any, Any]":
        kind, answer, behave = _HANDLED[name]

        def handle(request: Any, context: grpc.ServicerContext) -> Any:
            self.entered.set()
            if self.hangs is not None:
                self.hangs.wait(PATIENCE)
            why = "refused by the test" if self.refuses(name) else behave(self, request)
            self.calls.put((name, _named(request)))
            if why:
                context.abort(grpc.StatusCode.UNKNOWN, why)
            return answer()

        return grpc.unary_unary_rpc_method_handler(
            handle, request_deserializer=kind.FromString, response_serializer=answer.SerializeToString
        )

    def _begin(self, device: dmi.Device) -> str:
        key = f"{device.namespace}/{device.name}"
        missing = omissions(device)
        model = self.models.get(f"{device.namespace}/{device.spec.deviceModelReference}")
        if missing:
            return f"PANIC: {missing}"
        if model is None:
            return "not found model"
        strange = {one.name for one in device.spec.properties} - {one.name for one in model.spec.properties}
        if strange:
            return f"PANIC: properties without a model: {strange}"
        self.devices[key] = device
        return ""

    def _register_device(self, request: dmi.RegisterDeviceRequest) -> str:
        key = f"{request.device.namespace}/{request.device.name}"
        return "" if key in self.devices else self._begin(request.device)

    def _update_device(self, request: dmi.UpdateDeviceRequest) -> str:
        return self._begin(request.device)

    def _remove_device(self, request: dmi.RemoveDeviceRequest) -> str:
        found = self.devices.pop(f"{request.deviceNamespace}/{request.deviceName}", None)
        return "" if found is not None else f"can not find device {request.deviceName} from device muxs"

    def _create_model(self, request: dmi.CreateDeviceModelRequest) -> str:
        self.models[f"{request.model.namespace}/{request.model.name}"] = request.model
        return ""

    def _update_model(self, request: dmi.UpdateDeviceModelRequest) -> str:
        key = f"{request.model.namespace}/{request.model.name}"
        if key not in self.models:
            return f"update deviceModel {request.model.name} failed, not existed"
        self.models[key] = request.model
        return ""

    def _remove_model(self, request: dmi.RemoveDeviceModelRequest) -> str:
        self.models.pop(f"{request.modelNamespace}/{request.modelName}", None)
        return ""


def _named(request: Any) -> str:
    for field in ("device", "model"):
        if field in request.DESCRIPTOR.fields_by_name:
            return str(getattr(request, field).name)
    return str(request.deviceName if "deviceName" in request.DESCRIPTOR.fields_by_name else request.modelName)


_HANDLED: dict[str, tuple[type[Any], type[Any], Callable[[FrameworkMapper, Any], str]]] = {
    "RegisterDevice": (dmi.RegisterDeviceRequest, dmi.RegisterDeviceResponse, FrameworkMapper._register_device),
    "UpdateDevice": (dmi.UpdateDeviceRequest, dmi.UpdateDeviceResponse, FrameworkMapper._update_device),
    "RemoveDevice": (dmi.RemoveDeviceRequest, dmi.RemoveDeviceResponse, FrameworkMapper._remove_device),
    "CreateDeviceModel": (dmi.CreateDeviceModelRequest, dmi.CreateDeviceModelResponse, FrameworkMapper._create_model),
    "UpdateDeviceModel": (dmi.UpdateDeviceModelRequest, dmi.UpdateDeviceModelResponse, FrameworkMapper._update_model),
    "RemoveDeviceModel": (dmi.RemoveDeviceModelRequest, dmi.RemoveDeviceModelResponse, FrameworkMapper._remove_model),
}
