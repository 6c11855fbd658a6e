"""A gRPC server on a unix socket whose answers the test decides."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import grpc
from google.protobuf.message import Message

from protos.cri.v1 import api_pb2 as pb
from tests.support.patience import PATIENCE

_METHODS = {
    f"{service.name}/{method.name}": getattr(pb, method.input_type.name)
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
_STREAMS = {
    f"{service.name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if method.server_streaming
}


class FakeServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Serves the given handlers (`"RuntimeService/Version": function`) in the given versions of CRI. Other methods
    answer UNIMPLEMENTED, in the words of Go's gRPC, as real runtimes do. `called` has the path of each
    call.
    """

    def __init__(self, socket: Path, api_versions: tuple[str, ...], handlers: dict[str, Any]) -> None:
        self.endpoint = f"unix://{socket}"
        self.api_versions = api_versions
        self.handlers = handlers
        self.called: list[str] = []
        self._server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{socket}")

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """gRPC's hook: returns the handler of this call."""
        self.called.append(call.method)
        service, _, method = call.method.lstrip("/").partition("/")
        version, _, name = service.rpartition(".")
        key = f"{name}/{method}"
        handler = self.handlers.get(key) if version in self.api_versions else _unknown(service)
        make = grpc.unary_stream_rpc_method_handler if key in _STREAMS else grpc.unary_unary_rpc_method_handler
        return make(
            handler or _unknown_method(method),
            request_deserializer=_METHODS[key].FromString,
            response_serializer=_serialize,
        )

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait(PATIENCE)


def version_answer(request: Any, context: grpc.ServicerContext) -> Message:
    """The handler of Version."""
    return pb.VersionResponse(version="0.1.0", runtime_name="fake", runtime_version="1", runtime_api_version="v1")


def failing(code: grpc.StatusCode, details: str) -> Callable[[Any, grpc.ServicerContext], Message]:
    """A handler that answers with an error."""

    def handler(request: Any, context: grpc.ServicerContext) -> Message:
        context.abort(code, details)
        raise AssertionError

    return handler


def _unknown(service: str) -> Callable[[Any, grpc.ServicerContext], Message]:
    return failing(grpc.StatusCode.UNIMPLEMENTED, f"unknown service {service}")


def _unknown_method(method: str) -> Callable[[Any, grpc.ServicerContext], Message]:
    return failing(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method} for service")


def _serialize(answer: Message) -> bytes:
    return answer.SerializeToString()
