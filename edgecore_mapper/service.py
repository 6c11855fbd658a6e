"""DeviceMapperService, which edgecore calls on a mapper's socket, and the mapper's HTTP API.

The HTTP API is under `/api/v1`, as in mapper-framework: every request is a GET, also to write.

Only programs on this machine may use the API, such as edgecore's servicebus. Requests from web pages are refused.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec

from beehive.clock import Clock
from beehive.http.browser_guard import is_sent_by_page
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Response, json, text
from edgecore_mapper.devices import DeviceRefused, MappedDevices
from edgecore_mapper.method_calls import MethodRefused
from protos.dmi.v1beta1 import MAPPER
from protos.dmi.v1beta1 import api_pb2 as dmi

SOCKET_MODE: Final = 0o660
_THREADS: Final = 4
_MOST_CALLS: Final = 64

Behaviour = Callable[[MappedDevices, Any], Any]

ADDRESS: Final = "127.0.0.1"
_LOCAL: Final = ("127.0.0.1", "localhost")


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


class MapperRest:
    """The service of `ping`, `device` and `devicemethod` (an `HttpService`). Runs on the connection's thread.

    Args:
        devices: the mapper's devices.
        clock: gives the time stamps in responses.
    """

    def __init__(self, devices: MappedDevices, clock: Clock) -> None:
        self._devices = devices
        self._clock = clock

    def serve(self, request: Request) -> Response:
        """Handle a request. Errors are plain text, as in mapper-framework."""
        if is_sent_by_page(request) or request.header("host").partition(":")[0] not in _LOCAL:
            return text(HTTPStatus.FORBIDDEN, "only programs on this machine may use this port; web pages may not\n")
        if request.method != "GET":
            return text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is supported\n")
        try:
            return json(msgspec.json.encode(self._answer(request.parts)))
        except MethodRefused as refused:
            return text(HTTPStatus.INTERNAL_SERVER_ERROR, f"{refused}\n")

    def _answer(self, parts: tuple[str, ...]) -> dict[str, Any]:
        told: dict[str, Any]
        match parts:
            case ("api", "v1", "ping"):
                told = {"Message": "This is v1 API, the server is running normally."}
            case ("api", "v1", "device", namespace, name, prop):
                told = {"Data": self._value(namespace, name, prop)}
            case ("api", "v1", "devicemethod", namespace, name):
                told = {"Data": {"Methods": self._devices.methods(f"{namespace}/{name}")}}
            case ("api", "v1", "devicemethod", namespace, name, method, prop, data):
                self._devices.call(f"{namespace}/{name}", method, prop, data)
                told = {"Message": f"Write data {data} to device {namespace}/{name} successfully."}
            case _:
                raise MethodRefused("no such path; GET /api/v1/devicemethod/NAMESPACE/NAME lists a device's methods")
        return {"apiVersion": "v1", "statusCode": int(HTTPStatus.OK), "timeStamp": self._now(), **told}

    def _value(self, namespace: str, name: str, prop: str) -> dict[str, str]:
        value, kind = self._devices.value(f"{namespace}/{name}", prop)
        told = {"DeviceName": name, "PropertyName": prop, "Namespace": namespace, "Value": value, "Type": kind}
        return {**told, "TimeStamp": self._now()}

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def start_rest(port: int, devices: MappedDevices, clock: Clock) -> HttpServer:
    """Start the server on 127.0.0.1. Port 0 picks a free port. Raises ServerError."""
    server = HttpServer(listen_tcp(ADDRESS, port, "--http-port"), MapperRest(devices, clock), clock)
    server.start()
    return server
