"""The contract between `HttpKubeApi` and transports, which carry requests over a connection."""

from typing import Protocol

import msgspec


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to an API server."""

    method: str
    path: str
    """From the server's root, percent-encoded, with the query: `/api/v1/pods?limit=500`."""
    headers: tuple[tuple[str, str], ...] = ()
    """Without Host and Content-Length, which the transport adds, as it does Authorization if it has a user."""
    body: bytes = b""
    timeout: float = 30.0
    """Seconds until the end of the response; for a stream, until its head."""
    stream: bool = False
    """Whether the body of the response comes piece by piece, without an end in time: a watch."""
    silence: float = 0.0
    """Seconds without a byte after which a stream counts as broken; 0: never."""


class ResponseHead(msgspec.Struct, frozen=True):
    """The beginning of a response."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case."""

    def header(self, name: str) -> str:
        """Return the first header of a name in lower case, or ""."""
        return next((value for key, value in self.headers if key == name), "")


class ApiResponse(msgspec.Struct, frozen=True):
    """A whole response."""

    head: ResponseHead
    body: bytes = b""


class ResponseListener(Protocol):
    """A receiver of a response. The methods are called one at a time, on the transport's thread: they must not wait."""

    def on_head(self, head: ResponseHead) -> None:
        """Take the beginning."""

    def on_data(self, data: bytes) -> None:
        """Take a piece of the body."""

    def on_end(self) -> None:
        """Take the end of a complete response; nothing follows."""

    def on_error(self, error: Exception) -> None:
        """Take the reason why there is no, or no complete, response (a TransportError); nothing follows."""


class Exchange(Protocol):
    """A request that was started."""

    def cancel(self) -> None:
        """End it; the listener gets no more calls, once a call that is under way has ended."""

    def pause(self) -> None:
        """Stop reading the response: the server waits when its buffers are full.

        The listener still gets what had been read when it paused.
        """

    def resume(self) -> None:
        """Read on."""


class KubeTransport(Protocol):
    """A transport of requests to one API server. Its methods may be called on any thread, and do not wait."""

    def start(self, request: ApiRequest, listener: ResponseListener) -> Exchange:
        """Send a request as soon as there is a connection."""

    def close(self) -> None:
        """End all exchanges; listeners that still wait get an error."""
