"""The gRPC server behind `dmi.sock`; importing this loads gRPC's library."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import pykka

from beehive.socket_activation import PrivateSocket
from modules.edge.dmi.errors import MapperCallRefused
from protos.dmi.v1beta1 import MANAGER
from protos.dmi.v1beta1 import api_pb2 as dmi

LARGEST_REQUEST: Final = 2 * 1024 * 1024
"""Largest request in bytes: all values of a device together, in UTF-8."""

_THREADS: Final = 8
_MOST_CALLS: Final = 64
"""Largest number of running and waiting calls; gRPC refuses further ones with RESOURCE_EXHAUSTED."""

_PATIENCE: Final = 0.8
"""Seconds within which a call is answered, because mappers built with KubeEdge's framework wait for one second."""

_LONGEST_PATIENCE: Final = 5.0
_STOP_SECONDS: Final = 5.0

_METHODS: Final[dict[str, tuple[type[Any], type[Any]]]] = {
    "MapperRegister": (dmi.MapperRegisterRequest, dmi.MapperRegisterResponse),
    "ReportDeviceStatus": (dmi.ReportDeviceStatusRequest, dmi.ReportDeviceStatusResponse),
    "ReportDeviceStates": (dmi.ReportDeviceStatesRequest, dmi.ReportDeviceStatesResponse),
}


class GrpcServer:
    """Serves DeviceManagerService. It changes no state itself: each call waits for the module's answer."""

    def __init__(self, ask: "Callable[[Any], pykka.Future[Any]]") -> None:
        """Begin to answer calls. Raises RuntimeError or OSError when that fails.

        Args:
            ask: lets the module take a request; called on any thread. The future has the answer, or MapperCallRefused.
        """
        self._ask = ask
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="dmi-server")
        options = [("grpc.max_receive_message_length", LARGEST_REQUEST), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(self._threads, options=options, maximum_concurrent_rpcs=_MOST_CALLS)
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._take, request_deserializer=kinds[0].FromString, response_serializer=kinds[1].SerializeToString
            )
            for name, kinds in _METHODS.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(MANAGER, handlers),))
        self.socket = PrivateSocket(lambda path: self._server.add_insecure_port(f"unix://{path}"))
        self._server.start()

    def stop(self, grace_seconds: float | None) -> None:
        """Refuse new calls, and end the running ones after the grace."""
        self._server.stop(grace_seconds).wait(_STOP_SECONDS)
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the threads of calls."""
        self._threads.shutdown()

    def _take(self, request: Any, context: grpc.ServicerContext) -> Any:
        left = context.time_remaining()
        patience = _LONGEST_PATIENCE if left is None else min(_LONGEST_PATIENCE, left * _PATIENCE)
        try:
            return self._ask(request).get(timeout=max(0.05, patience))
        except MapperCallRefused as refused:
            context.abort(grpc.StatusCode[refused.refusal.name], refused.reason)
        except pykka.Timeout:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "the node is busy; try again in a second")
