"""The gRPC server of one of edged's services for device plug-ins; importing this loads gRPC's library."""

from collections.abc import Callable
from typing import Any, Final

import grpc

from beehive.sockets.activation.grpc_server import GrpcServer
from edged.devices.contract import Answer, GrpcService
from modules.apimachinery.attempts import AttemptError

_CALLS: Final = 16
"""Concurrent calls; more are refused (RESOURCE_EXHAUSTED)."""
_MOST_BYTES: Final = 1024 * 1024
"""Largest request in bytes."""


def serve(service: GrpcService) -> GrpcServer:
    """Serve a service on threads of its own, so that a blocking request delays no other service."""
    handlers = {name: _handler(answer) for name, answer in service.methods.items()}
    return GrpcServer({service.name: handlers}, "devices", most_calls=_CALLS, largest_request=_MOST_BYTES)


def _handler(answer: Answer) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(_answering(answer))


def _answering(answer: Answer) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def behaviour(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            made: bytes = answer(request).SerializeToString()
        except AttemptError as error:
            context.set_code(grpc.StatusCode.UNKNOWN)  # as Go's servers call an error without a code
            context.set_details(str(error))
            return b""
        return made

    return behaviour
