"""A gRPC server for one of edged's services for device plug-ins; importing this loads gRPC's library."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from beehive.socket_activation import PrivateSocket
from edged.devices.contract import Answer, GrpcService
from edged.errors import EdgedError

_THREADS: Final = 4
_CALLS: Final = 16
"""Concurrent calls; more are refused (RESOURCE_EXHAUSTED)."""
_MOST_BYTES: Final = 1024 * 1024
"""Largest request in bytes."""
_STOP_SECONDS: Final = 5.0


class GrpcServer:
    """Serves a service on a few threads of its own, so a blocking request delays no other service."""

    def __init__(self, service: GrpcService) -> None:
        """Begin to answer calls. Raises RuntimeError or OSError when that fails."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="devices")
        self._server = grpc.server(
            self._threads,
            options=[("grpc.max_receive_message_length", _MOST_BYTES)],
            maximum_concurrent_rpcs=_CALLS,
        )
        handlers = {name: _handler(answer) for name, answer in service.methods.items()}
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.name, handlers),))
        self.socket = PrivateSocket(lambda path: self._server.add_insecure_port(f"unix:{path}"))
        self._server.start()

    def stop(self, grace_seconds: float | None) -> None:
        """End the server and its calls."""
        self._server.stop(grace_seconds).wait(_STOP_SECONDS)
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the threads of calls."""
        self._threads.shutdown()


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
