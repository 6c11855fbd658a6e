"""gRPC around the methods: status codes for errors, explanations for missing methods, threads for blocking calls."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from edged.embedded.engine import Engine
from edged.embedded.errors import NotProvidedError, RequestRefusedError, StateDirectoryError
from edged.embedded.service import Method, RuntimeMethods, image_methods
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_THREADS = 1000
"""Upper limit; only as many threads exist as calls were ever under way at one time. A StopContainer keeps one for its
grace period, an ExecSync for its run time (an endless hook as long as its container runs), an event stream (at most
`event_stream.STREAM_LIMIT`) while it is open. Without a free thread nothing could be stopped any more.
"""

_SOCKET_MODE = 0o600
_ADDRESS_LIMIT = 107
_REQUEST_LIMIT = 16 * 1024 * 1024

OnEnd = Callable[[Callable[[], None]], object]
"""Registers a callback for the end of a call, however it ends."""

Behaviour = Callable[[Any, grpc.ServicerContext], Any]

_WHY_NOT = {
    "Exec": "streaming commands are not offered; ExecSync is",
    "Attach": "the standard streams of containers go to their log only",
    "PortForward": "pods share this machine's network: connect to the port directly",
}


class Server:
    """Serves an engine on a unix socket that only this user can open."""

    def __init__(self, engine: Engine, address: Path) -> None:
        """Bind the socket. Raises StateDirectoryError when that fails."""
        self._address = address
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="embedded-runtime")
        limit = ("grpc.max_receive_message_length", _REQUEST_LIMIT)
        self._server = grpc.server(self._threads, options=[limit])
        runtime = RuntimeMethods(engine)
        answers = {name: _answering(method) for name, method in runtime.table().items()}
        answers["ExecSync"] = _watching_client(runtime.exec_sync)
        self._add("RuntimeService", answers | {"GetContainerEvents": _streaming(runtime.events)})
        self._add("ImageService", {name: _answering(method) for name, method in image_methods(engine).items()})
        self._bind()

    def start(self) -> None:
        """Begin to answer calls."""
        self._server.start()

    def stop(self, grace_seconds: float) -> None:
        """Refuse new calls, give running ones `grace_seconds`, then cancel them."""
        self._server.stop(grace_seconds).wait()
        self._address.unlink(missing_ok=True)

    def join(self) -> None:
        """Wait for the threads of cancelled calls; the engine must be closed first, so that they end."""
        self._threads.shutdown()

    def _add(self, name: str, behaviours: dict[str, Behaviour]) -> None:
        service = cri.DESCRIPTOR.services_by_name[name]
        handlers = {
            method.name: _handler(method, behaviours.get(method.name) or _refusing(method.name))
            for method in service.methods
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))

    def _bind(self) -> None:
        attempt = f'listen on "{self._address}"'
        if len(str(self._address)) > _ADDRESS_LIMIT:
            reason = f"a unix socket's path holds {_ADDRESS_LIMIT} bytes"
            raise StateDirectoryError(attempt, reason, "configure a shorter path")
        try:
            self._address.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._address.unlink(missing_ok=True)
            self._server.add_insecure_port(f"unix://{self._address}")
            self._address.chmod(_SOCKET_MODE)
        except (OSError, RuntimeError) as error:
            raise StateDirectoryError(attempt, str(error)) from error


def _handler(method: MethodDescriptor, behaviour: Behaviour) -> "grpc.RpcMethodHandler[Any, Any]":
    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    return make(
        behaviour,
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


def _answering(method: Method) -> Behaviour:
    def behaviour(request: Any, context: grpc.ServicerContext) -> Any:
        with _errors_to_status(context):
            return method(request)

    return behaviour


def _watching_client(method: Callable[[Any, OnEnd], Any]) -> Behaviour:
    def behaviour(request: Any, context: grpc.ServicerContext) -> Any:
        with _errors_to_status(context):
            return method(request, context.add_callback)

    return behaviour


def _streaming(method: Callable[[OnEnd], Iterator[Any]]) -> Behaviour:
    def behaviour(_: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with _errors_to_status(context):
            events = method(context.add_callback)
            context.send_initial_metadata(())  # tells the client that from now on it misses nothing
            yield from events

    return behaviour


def _refusing(name: str) -> Behaviour:
    why = _WHY_NOT.get(name, "containers that are plain processes have nothing behind it")

    def behaviour(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(NotProvidedError.status, f"the embedded runtime does not offer {name}: {why}")

    return behaviour


@contextmanager
def _errors_to_status(context: grpc.ServicerContext) -> Iterator[None]:
    try:
        yield
    except RequestRefusedError as error:
        context.abort(error.status, str(error))
    except OSError as error:
        _log.exception("the machine refused something to the embedded runtime")
        context.abort(grpc.StatusCode.INTERNAL, str(error))
