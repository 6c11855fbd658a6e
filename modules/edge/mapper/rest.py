"""The mapper's HTTP API under `/api/v1`, as in mapper-framework: every request is a GET, including those that write.

Only programs on this machine may use it, such as edgecore's servicebus. Requests from web pages are refused.
"""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import msgspec

from beehive.clock import Clock
from beehive.http.browser_guard import is_sent_by_page
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Response, json, text
from modules.edge.mapper.devices import MappedDevices
from modules.edge.mapper.method_calls import MethodRefused

ADDRESS: Final = "127.0.0.1"
_LOCAL: Final = ("127.0.0.1", "localhost")


class MapperRest:
    """Serves `ping`, `device` and `devicemethod` (an `HttpService`). Runs on the connection's thread.

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
