"""A gRPC connection to a plug-in's socket.

Calls block the calling thread, which is a worker's or another actor's of its own, never the module's. Deadlines are
gRPC's: what is waited for is another process, as with the container runtime.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message import Message

from edged.cri.errors import redact
from edged.plugins.errors import PluginCallError

_MOST_BYTES: Final = 4 * 1024 * 1024
"""Of one answer; gRPC's default, and what kubelet and the drivers' libraries leave it at."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.default_authority", "localhost"),  # Go servers reject a socket's path in :authority
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # back-off is the pod's
    ("grpc.use_local_subchannel_pool", 1),  # a plug-in that comes again on its path is connected to at once
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
)

Answer = TypeVar("Answer", bound=Message)


class PluginSocket:
    """See the module's docstring. Thread-safe; connects on the first call; `close` ends calls that are under way."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
            method: see above.
            request: its message.
            answer: the type of what it answers.
            seconds: after which the call has failed.
            on: what errors name; the socket's path unless given.
            secrets: what must not appear in them.

        Raises:
            PluginCallError
        """
        with self._told(method, on, secrets):
            made: Callable[..., Any] = self._channel.unary_unary(
                f"/{method}", request_serializer=_serialize, response_deserializer=answer.FromString
            )
            response: Answer = made(request, timeout=seconds)
        return response

    def stream(self, method: str, request: Message, answer: type[Answer]) -> Iterator[Answer]:
        """Call a method that answers again and again, until the plug-in or `close` ends it. Raises PluginCallError."""
        with self._told(method):
            made: Callable[..., Any] = self._channel.unary_stream(
                f"/{method}", request_serializer=_serialize, response_deserializer=answer.FromString
            )
            yield from made(request)

    @contextmanager
    def _told(self, method: str, on: str = "", secrets: Iterable[str] = ()) -> Iterator[None]:
        name, about = method.rpartition("/")[2], on or str(self._path)
        try:
            yield
        except grpc.RpcError as failure:
            # without its cause, whose text may hold what was redacted
            raise PluginCallError(name, about, failure.code().name, redact(failure.details() or "", secrets)) from None
        except ValueError:
            if not self._closed:
                raise
            raise PluginCallError(name, about, "CANCELLED", "the connection was closed") from None

    def close(self) -> None:
        """Let go of the plug-in; later calls raise PluginCallError."""
        self._closed = True
        self._channel.close()


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
