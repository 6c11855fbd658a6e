"""The gRPC server behind `dmi.sock`; importing this loads gRPC's library."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc
import pykka

from beehive.sockets.activation.grpc_server import GrpcServer
from modules.edge.dmi.errors import MapperCallRefused
from modules.edge.dmi.reports import DeviceRefusal
from protos.dmi.v1beta1 import MANAGER, REFUSAL
from protos.dmi.v1beta1 import api_pb2 as dmi

LARGEST_REQUEST: Final = 2 * 1024 * 1024
"""Largest request in bytes: all values of a device together, in UTF-8."""

_MOST_CALLS: Final = 64
"""Calls at a time; further ones are refused with RESOURCE_EXHAUSTED."""

_PATIENCE: Final = 0.8
"""Seconds within which a call is answered, because mappers built with KubeEdge's framework wait for one second."""

_LONGEST_PATIENCE: Final = 5.0
_LONGEST_REFUSAL: Final = 300
"""Characters of a mapper's reason."""

_METHODS: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "MapperRegister": (dmi.MapperRegisterRequest, dmi.MapperRegisterResponse),
    "ReportDeviceStatus": (dmi.ReportDeviceStatusRequest, dmi.ReportDeviceStatusResponse),
    "ReportDeviceStates": (dmi.ReportDeviceStatesRequest, dmi.ReportDeviceStatesResponse),
}

Ask = Callable[[Any], "pykka.Future[Any]"]
"""Lets the module take a request; called on any thread. The future has the answer, or MapperCallRefused."""


def serve(ask: Ask) -> GrpcServer:
    """Serve DeviceManagerService. The server changes no state itself: each call waits for the module's answer."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            partial(_handle, ask),
            request_deserializer=request.FromString,
            response_serializer=answer.SerializeToString,
        )
        for name, (request, answer) in _METHODS.items()
    }
    return GrpcServer({MANAGER: handlers}, "dmi-server", most_calls=_MOST_CALLS, largest_request=LARGEST_REQUEST)


def _handle(ask: Ask, request: Any, context: grpc.ServicerContext) -> Any:
    left = context.time_remaining()
    patience = _LONGEST_PATIENCE if left is None else min(_LONGEST_PATIENCE, left * _PATIENCE)
    if isinstance(request, dmi.ReportDeviceStatesRequest) and (why := _refusal(context)):
        request = DeviceRefusal(request, why)
    try:
        return ask(request).get(timeout=max(0.05, patience))
    except MapperCallRefused as refused:
        context.abort(grpc.StatusCode[refused.refusal.name], refused.reason)
    except pykka.Timeout:
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the node is busy; try again in a second")


def _refusal(context: grpc.ServicerContext) -> str:
    """Return why a mapper does not take the device that it reports of; empty if it takes it."""
    given = dict(context.invocation_metadata() or ()).get(REFUSAL, b"")
    return given.decode(errors="replace")[:_LONGEST_REFUSAL] if isinstance(given, bytes) else ""
