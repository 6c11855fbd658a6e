"""A gRPC server behind an `ActivatedServer`; importing this loads gRPC's library."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from beehive.socket_activation.private_socket import PrivateSocket

_STOP_SECONDS: Final = 5.0
"""For the end of calls that were cancelled."""


class GrpcServer:
    """Serves gRPC on a private socket, on threads of its own (`StartedServer`)."""

    def __init__(
        self,
        services: "Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]",
        name: str,
        *,
        threads: int,
        most_calls: int | None,
        largest_request: int,
    ) -> None:
        """Begin to answer calls. Raises RuntimeError or OSError when that fails.

        Args:
            services: the handlers of each method, by the service's full name.
            name: prefix of the threads' names.
            threads: their maximum; only as many exist as calls were ever under way at one time.
            most_calls: running and waiting ones; gRPC refuses further ones with RESOURCE_EXHAUSTED. None: any number.
            largest_request: in bytes.
        """
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        limit = ("grpc.max_receive_message_length", largest_request)
        self._server = grpc.server(self._threads, options=[limit], maximum_concurrent_rpcs=most_calls)
        for service, handlers in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(handlers)),))
        self.socket = PrivateSocket(lambda path: self._server.add_insecure_port(f"unix:{path}"))
        self._server.start()

    def stop(self, grace_seconds: float | None) -> None:
        """Refuse new calls, give running ones the grace, then cancel them."""
        self._server.stop(grace_seconds).wait(_STOP_SECONDS + (grace_seconds or 0.0))
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the threads of calls."""
        self._threads.shutdown()
