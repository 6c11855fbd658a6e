"""A channel of gRPC to the socket of a container runtime; importing this loads gRPC's library."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import grpc
from grpc.experimental import ChannelOptions

from protos.status import CallError, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from google.protobuf.message import Message

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""kubelet's and containerd's limit for one message, both ways."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.default_authority", "localhost"),  # Go servers reject a socket's path in :authority
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # edged has its own back-off
    ("grpc.use_local_subchannel_pool", 1),  # a closed client leaves nothing behind for the next one
    (ChannelOptions.SingleThreadedUnaryStream, 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),  # gRPC's default of 120 s would outlast a restart of the runtime
)

Answer = TypeVar("Answer", bound="Message")


class Channel:
    """A channel for calls by gRPC's paths; their failures are CallErrors. Thread-safe."""

    def __init__(self, socket: Path) -> None:
        """Connect on the first call. The runtime has gRPC's 20 s to accept a connection, as with a kubelet: the server
        of a runtime inside edgecore may have to start first.
        """
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)

    def unary(self, path: str, answer: type[Answer]) -> Callable[..., Answer]:
        """Return the method of this path. It takes the request and a timeout; raises CallError, and ValueError when the
        channel is closed.
        """
        method = self._channel.unary_unary(path, request_serializer=_serialize, response_deserializer=answer.FromString)

        def call(request: Message, timeout: float | None = None) -> Answer:
            with _call_errors():
                response: Answer = method(request, timeout=timeout)
            return response

        return call

    def stream(self, path: str, request: Message, answer: type[Answer]) -> Any:
        """Begin a call that answers with a stream. Raises ValueError when the channel is closed."""
        method = self._channel.unary_stream(
            path, request_serializer=_serialize, response_deserializer=answer.FromString
        )
        return method(request)

    def read(self, call: Any, opened: Callable[[], None], each: Callable[[Any], None]) -> None:
        """Read a stream to its end; call `opened` when it was accepted, `each` with every answer. Raises CallError."""
        try:
            with _call_errors():
                call.initial_metadata()
                if call.is_active():
                    opened()
                for message in call:
                    each(message)
        finally:
            call.cancel()

    def close(self) -> None:
        """End the calls under way; later ones raise ValueError."""
        self._channel.close()


@contextmanager
def _call_errors() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as failure:
        raise CallError(StatusCode[failure.code().name], failure.details() or "") from None


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
