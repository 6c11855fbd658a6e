"""A gRPC connection to a plug-in's socket."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from edged.cri.errors import redact
from edged.errors import PluginCallError

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Largest answer in bytes: gRPC's default, which kubelet and the drivers' libraries keep."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.default_authority", "localhost"),  # Go servers reject a socket's path in :authority
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # the pod has its own back-off
    ("grpc.use_local_subchannel_pool", 1),  # a new plug-in on the same path is connected immediately
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),  # the least is gRPC's 20 s: it is also a connection's time to be answered
)

Answer = TypeVar("Answer", bound=Message)


class PluginSocket:
    """A connection to one plug-in. Thread-safe; connects on the first call; `close` ends the calls under way.

    Calls block the calling thread, a worker's or another actor's own, never the module's. Deadlines are gRPC's: another
    process is waited for, as with the container runtime.
    """

    def __init__(self, path: Path) -> None:
        import grpc  # noqa: PLC0415 - 21 MB, with the first plug-in

        self._path = path
        self._failure: Any = grpc.RpcError
        self._channel = grpc.insecure_channel(f"unix:{path}", options=_OPTIONS)
        self._closed = False

    def call(
        self,
        method: str,
        request: Message,
        answer: type[Answer],
        seconds: float,
        *,
        on: str = "",
        secrets: Iterable[str] = (),
    ) -> Answer:
        """Call `package.Service/Method`.

        Args:
            method: as above.
            request: its message.
            answer: type of the answer.
            seconds: time-out.
            on: subject in errors; the socket's path by default.
            secrets: texts that no error may contain.

        Raises:
            PluginCallError
        """
        with self._plugin_errors(method, on, secrets):
            made: Callable[..., Any] = self._channel.unary_unary(
                f"/{method}", request_serializer=_serialize, response_deserializer=answer.FromString
            )
            response: Answer = made(request, timeout=seconds)
        return response

    def stream(self, method: str, request: Message, answer: type[Answer]) -> Iterator[Answer]:
        """Call a streaming method; yield its answers until the plug-in or `close` ends it. Raises PluginCallError."""
        with self._plugin_errors(method):
            made: Callable[..., Any] = self._channel.unary_stream(
                f"/{method}", request_serializer=_serialize, response_deserializer=answer.FromString
            )
            yield from made(request)

    @contextmanager
    def _plugin_errors(self, method: str, on: str = "", secrets: Iterable[str] = ()) -> Iterator[None]:
        name, about = method.rpartition("/")[2], on or str(self._path)
        try:
            yield
        except self._failure as failure:
            # without its cause, whose text may contain the secrets
            raise PluginCallError(name, about, failure.code().name, redact(failure.details() or "", secrets)) from None
        except ValueError:
            if not self._closed:
                raise
            raise PluginCallError(name, about, "CANCELLED", "the connection was closed") from None

    def close(self) -> None:
        """Close the connection; later calls raise PluginCallError."""
        self._closed = True
        self._channel.close()


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
