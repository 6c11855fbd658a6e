"""gRPC around the methods: status codes for errors, explanations for missing methods, threads for blocking calls.

Importing this loads gRPC's library, so the first call on the socket does.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from beehive.sockets.activation.grpc_server import GrpcServer
from modules.runtimes.cri_server.local_calls import REQUEST_LIMIT, failure_of
from modules.runtimes.cri_server.methods import CriMethods
from modules.runtimes.engine.driver import Method, OnEnd
from modules.runtimes.engine.errors import NotProvidedError, RequestRefusedError
from protos.cri.v1 import api_pb2 as cri

_MOST_CALLS = 1000
"""Calls at a time, each with a thread. A StopContainer lasts for its grace period, an ExecSync for its run time (an
endless hook as long as its container runs), an event stream (at most `event_stream.STREAM_LIMIT`) while it is open.
"""

Behaviour = Callable[[Any, grpc.ServicerContext], Any]

_ITEMS: Final = 64
"""Items in one message."""

_LISTINGS: Final = {
    "StreamPodSandboxes": ("ListPodSandbox", "items"),
    "StreamContainers": ("ListContainers", "containers"),
    "StreamContainerStats": ("ListContainerStats", "stats"),
    "StreamPodSandboxStats": ("ListPodSandboxStats", "stats"),
    "StreamPodSandboxMetrics": ("ListPodSandboxMetrics", "pod_metrics"),
    "StreamImages": ("ListImages", "images"),
}
"""By streamed method, the listing whose request has the same fields, and the field of the answer that it sends."""


def serve(methods: CriMethods) -> GrpcServer:
    """Serve the methods of a runtime. The engine must be closed before the server's `join`, so that its threads end."""
    answers = {name: _answering(method) for name, method in methods.table().items()}
    answers |= {name: _watching_client(method) for name, method in methods.watching().items()}
    answers |= _listing("RuntimeService", methods.table())
    answers["GetContainerEvents"] = _streaming(methods.events)
    images = {name: _watching_client(method) for name, method in methods.images().items()}
    listed = {name: partial(_never_cancelled, method) for name, method in methods.images().items()}
    images |= _listing("ImageService", listed)
    services = {}
    for name, behaviours in (("RuntimeService", answers), ("ImageService", images)):
        service = cri.DESCRIPTOR.services_by_name[name]
        services[service.full_name] = {
            method.name: _handler(method, behaviours.get(method.name) or _refusing(method.name, methods.why_not))
            for method in service.methods
        }
    return GrpcServer(services, "cri-server", most_calls=_MOST_CALLS, largest_request=REQUEST_LIMIT)


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


def streamed_listings(
    service: str, methods: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Callable[[Any], Iterator[Any]]]:
    """Return the streamed methods of a service (`RuntimeService` or `ImageService`) whose listings are in `methods`.

    They send the answer of the listing of the same name in small messages (StreamContainers and others), so that it is
    not limited by the size of one gRPC message.
    """
    known = cri.DESCRIPTOR.services_by_name[service].methods_by_name
    return {
        name: _streamed(methods[listing], field, GetMessageClass(known[name].output_type))
        for name, (listing, field) in _LISTINGS.items()
        if name in known and listing in methods
    }


def _streamed(listing: Callable[[Any], Any], field: str, answer: type[Any]) -> Callable[[Any], Iterator[Any]]:
    into = answer.DESCRIPTOR.fields[0].name

    def stream(request: Any) -> Iterator[Any]:
        items = getattr(listing(request), field)
        for at in range(0, len(items), _ITEMS):
            yield answer(**{into: items[at : at + _ITEMS]})

    return stream


def _listing(service: str, methods: Mapping[str, Method]) -> dict[str, Behaviour]:
    """Return the streamed listings of a service."""

    def behaviour(stream: Callable[[Any], Iterator[Any]], request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with _errors_to_status(context):
            yield from stream(request)

    return {name: partial(behaviour, stream) for name, stream in streamed_listings(service, methods).items()}


def _never_cancelled(method: Callable[[Any, OnEnd], Any], request: Any) -> Any:
    return method(request, lambda _: None)


def _refusing(name: str, why_not: Mapping[str, str]) -> Behaviour:
    why = why_not.get(name) or why_not[""]

    def behaviour(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(
            grpc.StatusCode[NotProvidedError.status.name], f"edgecore's container runtime does not offer {name}: {why}"
        )

    return behaviour


@contextmanager
def _errors_to_status(context: grpc.ServicerContext) -> Iterator[None]:
    try:
        yield
    except (RequestRefusedError, OSError) as error:
        status, text = failure_of(error)
        context.abort(grpc.StatusCode[status.name], text)
