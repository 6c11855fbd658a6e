"""The gRPC service that edgecore calls on a mapper's socket: DeviceMapperService."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from modules.edge.mapper.devices import DeviceRefused, MappedDevices
from protos.dmi.v1beta1 import MAPPER
from protos.dmi.v1beta1 import api_pb2 as dmi

SOCKET_MODE: Final = 0o660
_THREADS: Final = 4
_MOST_CALLS: Final = 64

Behaviour = Callable[[MappedDevices, Any], Any]


def start_service(socket: Path, devices: MappedDevices) -> grpc.Server:
    """Serve on a socket; an existing file at its path is replaced. Raises OSError, RuntimeError."""
    if not socket.parent.is_dir():
        raise FileNotFoundError(f"there is no directory {socket.parent}")
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="mapper")
    server = grpc.server(threads, maximum_concurrent_rpcs=_MOST_CALLS)
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            _answering(behaviour, devices),
            request_deserializer=request.FromString,
            response_serializer=answer.SerializeToString,
        )
        for name, (request, answer, behaviour) in _METHODS.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(MAPPER, handlers),))
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{socket}")
    socket.chmod(SOCKET_MODE)
    server.start()
    return server


def _answering(behaviour: Behaviour, devices: MappedDevices) -> Callable[[Any, grpc.ServicerContext], Any]:
    def answer(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return behaviour(devices, request)
        except DeviceRefused as refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(refused))

    return answer


def _register(devices: MappedDevices, request: dmi.RegisterDeviceRequest) -> dmi.RegisterDeviceResponse:
    devices.put(request.device)
    return dmi.RegisterDeviceResponse(deviceName=request.device.name, deviceNamespace=request.device.namespace)


def _update(devices: MappedDevices, request: dmi.UpdateDeviceRequest) -> dmi.UpdateDeviceResponse:
    devices.put(request.device)
    return dmi.UpdateDeviceResponse()


def _remove(devices: MappedDevices, request: dmi.RemoveDeviceRequest) -> dmi.RemoveDeviceResponse:
    devices.remove(f"{request.deviceNamespace}/{request.deviceName}")
    return dmi.RemoveDeviceResponse()


def _create_model(devices: MappedDevices, request: dmi.CreateDeviceModelRequest) -> dmi.CreateDeviceModelResponse:
    devices.put_model(request.model)
    return dmi.CreateDeviceModelResponse(
        deviceModelName=request.model.name, deviceModelNamespace=request.model.namespace
    )


def _update_model(devices: MappedDevices, request: dmi.UpdateDeviceModelRequest) -> dmi.UpdateDeviceModelResponse:
    devices.put_model(request.model)
    return dmi.UpdateDeviceModelResponse()


def _remove_model(devices: MappedDevices, request: dmi.RemoveDeviceModelRequest) -> dmi.RemoveDeviceModelResponse:
    devices.remove_model(f"{request.modelNamespace}/{request.modelName}")
    return dmi.RemoveDeviceModelResponse()


def _get(devices: MappedDevices, request: dmi.GetDeviceRequest) -> dmi.GetDeviceResponse:
    found = devices.get(f"{request.deviceNamespace}/{request.deviceName}")
    if found is None:
        raise DeviceRefused(f"{request.deviceNamespace}/{request.deviceName} is not known here")
    return dmi.GetDeviceResponse(device=found)


_METHODS: Final[dict[str, tuple[type[Any], type[Any], Behaviour]]] = {
    "RegisterDevice": (dmi.RegisterDeviceRequest, dmi.RegisterDeviceResponse, _register),
    "UpdateDevice": (dmi.UpdateDeviceRequest, dmi.UpdateDeviceResponse, _update),
    "RemoveDevice": (dmi.RemoveDeviceRequest, dmi.RemoveDeviceResponse, _remove),
    "CreateDeviceModel": (dmi.CreateDeviceModelRequest, dmi.CreateDeviceModelResponse, _create_model),
    "UpdateDeviceModel": (dmi.UpdateDeviceModelRequest, dmi.UpdateDeviceModelResponse, _update_model),
    "RemoveDeviceModel": (dmi.RemoveDeviceModelRequest, dmi.RemoveDeviceModelResponse, _remove_model),
    "GetDevice": (dmi.GetDeviceRequest, dmi.GetDeviceResponse, _get),
}
