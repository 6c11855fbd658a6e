"""Device plug-ins over gRPC on unix sockets."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from edged.devices.contract import Answer, DevicePlugin, GrpcService
from edged.devices.errors import DeviceError
from edged.errors import EdgedError

_log = logging.getLogger(__name__)

_THREADS: Final = 4
_CALLS: Final = 16
"""Concurrent calls; more are refused (RESOURCE_EXHAUSTED)."""
_MOST_BYTES: Final = 1024 * 1024
"""Largest request in bytes."""
_LONGEST_PATH: Final = 107
_DIRECTORY_MODE, _SOCKET_MODE = 0o750, 0o600
_STOP_SECONDS: Final = 5.0


class GrpcDevicePluginTransport:
    """A `DevicePluginTransport` over gRPC.

    Each socket has a few threads of gRPC's own, so a blocking request delays no other socket. The generated code of a
    service is loaded with its first request: most nodes do without.
    """

    def __init__(self) -> None:
        self._servers: list[grpc.Server] = []

    def serve(self, service: GrpcService) -> None:
        attempt = f"listen for {service.name}"
        if len(bytes(service.path)) > _LONGEST_PATH:
            hint = f"a unix socket's path has at most {_LONGEST_PATH} bytes; configure a shorter rootDirectory"
            raise DeviceError(attempt, str(service.path), hint)
        server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="devices"),
            options=[("grpc.max_receive_message_length", _MOST_BYTES)],
            maximum_concurrent_rpcs=_CALLS,
        )
        handlers = {name: _handler(answer) for name, answer in service.methods.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, handlers),))
        try:
            service.path.parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            service.path.unlink(missing_ok=True)
            server.add_insecure_port(f"unix:{service.path}")
            service.path.chmod(_SOCKET_MODE)
        except (OSError, RuntimeError) as error:
            raise DeviceError(attempt, str(service.path), str(error)) from error
        server.start()
        self._servers.append(server)

    def connect(self, endpoint: Path) -> DevicePlugin:
        from edged.devices.client import GrpcDevicePlugin  # noqa: PLC0415 - see there

        return GrpcDevicePlugin(endpoint)

    def close(self) -> None:
        """Stop all services and wait until their sockets are gone: otherwise the next server's would be removed."""
        stopping = [server.stop(grace=None) for server in self._servers]
        for stopped in stopping:
            stopped.wait(_STOP_SECONDS)
        self._servers.clear()


def _handler(answer: Answer) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(_answering(answer))


def _answering(answer: Answer) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            made: bytes = answer(request).SerializeToString()
        except EdgedError as error:
            context.set_code(grpc.StatusCode.UNKNOWN)  # as Go's servers call an error without a code
            context.set_details(str(error))
            return b""
        return made

    return behaviour
