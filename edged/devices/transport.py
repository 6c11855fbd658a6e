"""Device plug-ins over gRPC on unix sockets."""

import socket
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beehive.clock import Clock
from beehive.sockets.activation import ActivatedServer
from beehive.sockets.unix_sockets import bind_unix
from edged.devices.contract import DevicePlugin, GrpcService
from edged.errors import DeviceError

if TYPE_CHECKING:
    from beehive.sockets.activation.grpc_server import GrpcServer

_LONGEST_PATH: Final = 107
_DIRECTORY_MODE: Final = 0o750


class GrpcDevicePluginTransport:
    """A `DevicePluginTransport` over gRPC.

    The server of a socket, gRPC's library and the generated code of a service are loaded with its first client: most
    nodes do without.

    Args:
        clock: for the end of servers without connections.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._servers: list[tuple[Path, ActivatedServer]] = []

    def serve(self, service: GrpcService) -> None:
        attempt = f"listen for {service.name}"
        if len(bytes(service.path)) > _LONGEST_PATH:
            hint = f"a unix socket's path has at most {_LONGEST_PATH} bytes; configure a shorter rootDirectory"
            raise DeviceError(attempt, str(service.path), hint)
        try:
            server = ActivatedServer(_listening(service.path), partial(_start, service), self._clock)
        except OSError as error:
            raise DeviceError(attempt, str(service.path), str(error)) from error
        self._servers.append((service.path, server))

    def connect(self, endpoint: Path) -> DevicePlugin:
        from edged.devices.client import GrpcDevicePlugin  # noqa: PLC0415 - see there

        return GrpcDevicePlugin(endpoint)

    def close(self) -> None:
        """Stop all services and remove their sockets."""
        for path, _ in self._servers:
            path.unlink(missing_ok=True)
        for _, server in self._servers:
            server.stop(None)
        self._servers.clear()


def _listening(path: Path) -> socket.socket:
    path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    return bind_unix(path)


def _start(service: GrpcService) -> "GrpcServer":
    from edged.devices.grpc_server import serve  # noqa: PLC0415 - 21 MB, with the first client

    return serve(service)
