"""A gRPC server behind an `ActivatedServer`; importing this loads gRPC's library."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import grpc

from beehive.sockets.activation.private_socket import PrivateSocket

_STOP_SECONDS: Final = 5.0
"""For the end of calls that were cancelled."""

LEAST_OPENED: Final = 32
"""Calls at a time whose request has not come, where there are fewer places: see `CallPlaces`."""


class CallPlaces:
    """The places for calls: for those whose request has not come, and for the others. Thread-safe.

    gRPC keeps a thread for each call from its beginning, so that a client that begins calls and sends no requests would
    leave none for others, until it ends.

    Args:
        most_calls: calls at a time that have their request. As many, but at least `LEAST_OPENED`, may wait for it; one
            more ends the oldest of these: an honest client sends it at once, but may begin all of its calls before.
    """

    def __init__(self, most_calls: int) -> None:
        self._lock = threading.Lock()
        self._opened: dict[grpc.ServicerContext, None] = {}
        """The calls whose request has not come, the oldest first."""
        self.most_opened = max(LEAST_OPENED, most_calls)
        """Calls whose request has not come."""
        self._free = threading.Semaphore(most_calls)

    def bounded(self, handler: "grpc.RpcMethodHandler[Any, Any]") -> "grpc.RpcMethodHandler[Any, Any]":
        """Return the handler of a method with one request, as one that takes a place for each call."""
        decode = handler.request_deserializer or bytes

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._admitted(requests, decode, context) as request:
                return handler.unary_unary(request, context)

        def stream(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
            with self._admitted(requests, decode, context) as request:
                yield from handler.unary_stream(request, context)

        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(stream, None, handler.response_serializer)
        return grpc.stream_unary_rpc_method_handler(answer, None, handler.response_serializer)

    @contextmanager
    def _admitted(
        self, requests: Iterator[bytes], decode: Callable[[bytes], Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        """Wait for the request of a call, and give the call a place. Raises gRPC's error of a call that has ended.

        It is decoded here, since gRPC does not end a stream whose request it cannot decode.
        """
        content = self._request(requests, context)
        try:
            request = decode(content)
        except Exception:  # noqa: BLE001 - whatever the decoder raises
            context.abort(grpc.StatusCode.INTERNAL, "the request cannot be decoded")
        if not self._free.acquire(blocking=False):
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls are under way")
        try:
            yield request
        finally:
            self._free.release()

    def _request(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        with self._lock:
            self._opened[context] = None
            oldest = next(iter(self._opened)) if len(self._opened) > self.most_opened else None
            if oldest is not None:
                del self._opened[oldest]
        if oldest is not None:
            oldest.cancel()
        try:
            for request in requests:
                return request
        finally:
            with self._lock:
                self._opened.pop(context, None)
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "the call ended without a request")
        return b""


class GrpcServer:
    """A server of gRPC on a private socket, on threads of its own (`StartedServer`)."""

    def __init__(
        self,
        services: "Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]]",
        name: str,
        *,
        most_calls: int,
        largest_request: int,
    ) -> None:
        """Begin to answer calls. Raises RuntimeError or OSError when that fails.

        Args:
            services: the handlers of each method, by the service's full name; each method takes one request.
            name: prefix of the threads' names.
            most_calls: at a time, of all clients together; further ones are refused with RESOURCE_EXHAUSTED. Each has a
                thread, so only as many threads exist as calls were ever under way at one time.
            largest_request: in bytes.
        """
        places = CallPlaces(most_calls)
        threads = most_calls + places.most_opened
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        limits = [("grpc.max_receive_message_length", largest_request), ("grpc.max_concurrent_streams", threads)]
        self._server = grpc.server(self._threads, options=limits)
        for service, handlers in services.items():
            bounded = {method: places.bounded(handler) for method, handler in handlers.items()}
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, bounded),))
        self.socket = PrivateSocket(lambda path: self._server.add_insecure_port(f"unix:{path}"))
        self._server.start()

    def stop(self, grace_seconds: float | None) -> None:
        """Refuse new calls, give running ones the grace, then cancel them."""
        self._server.stop(grace_seconds).wait(_STOP_SECONDS + (grace_seconds or 0.0))
        self._threads.shutdown(wait=False)

    def join(self) -> None:
        """Wait for the threads of calls."""
        self._threads.shutdown()
