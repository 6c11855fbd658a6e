"""One connection to an API server, which carries one request at a time (HTTP/1.1 keep-alive, no pipelining)."""

import selectors
import ssl
from typing import Final, NamedTuple

import h11

from modules.cloud.client.http.exchange import HttpExchange
from modules.cloud.client.http.network_stream import NetworkStream
from modules.cloud.client.transport import ResponseHead
from modules.cloud.client.transport_errors import (
    KubeCutError,
    KubeProtocolError,
    KubeTooLargeError,
    KubeTransportError,
)

MAX_HEAD: Final = 64 * 1024
"""Bytes of the longest head of a response: status line and headers."""
_BEFORE: Final = "before an answer came"


class RequestHead(NamedTuple):
    """The method, target and headers of a request."""

    method: str
    target: str
    headers: list[tuple[str, str]]


class HttpConnection:
    """A connection from its opening to its end, for the transport's thread only.

    Args:
        network: its bytes.
        context: its TLS; a request of another user must not use it.
        server: the server's URL, for errors.
    """

    def __init__(self, network: NetworkStream, context: ssl.SSLContext | None, server: str) -> None:
        self.network = network
        self.context = context
        self._server = server
        self._protocol = h11.Connection(h11.CLIENT, MAX_HEAD)
        self._request = b""
        self.exchange: HttpExchange | None = None
        self.is_kept = False
        """Whether it has carried a request before the present one."""
        self.is_complete = False
        """Whether the present response has ended."""
        self.has_answered = False
        """Whether a byte came since the present request was sent."""
        self.is_closed = False

    @property
    def wanted(self) -> int:
        """The selector's events it waits for."""
        is_reading = self.exchange is None or not self.exchange.is_paused or not self.network.is_open
        reads = is_reading and not self.network.is_ended
        return self.network.wanted | (selectors.EVENT_READ if reads else 0)

    def carry(self, exchange: HttpExchange, head: RequestHead) -> None:
        """Send a request, once the connection is open.

        Raises:
            KubeProtocolError: it cannot be sent as HTTP.
        """
        self.exchange, self.is_complete, self.has_answered = exchange, False, False
        try:
            encoded = h11.Request(method=head.method, target=head.target, headers=head.headers)
            parts = [self._protocol.send(encoded)]
            if exchange.request.body:
                parts.append(self._protocol.send(h11.Data(data=exchange.request.body)))
            parts.append(self._protocol.send(h11.EndOfMessage()))
        except (h11.LocalProtocolError, UnicodeEncodeError):
            why = "its method, path or a header has characters that HTTP does not allow"
            raise KubeProtocolError("cannot send a request to the API server", self._server, why) from None
        self._request = b"".join(part or b"" for part in parts)
        self._send()

    def _send(self) -> None:
        if self._request and self.network.is_open and self.exchange is not None:
            request, self._request = self._request, b""
            self.exchange.is_sent = True
            self.network.send(request)

    def on_event(self, happened: int) -> None:
        """Go on after the selector's events.

        Raises:
            KubeTransportError: the connection cannot go on.
        """
        if happened & selectors.EVENT_WRITE:
            self.network.on_writable()
        if happened & selectors.EVENT_READ:
            self._read()
        self._send()

    def _read(self) -> None:
        data = self.network.receive()
        if self.exchange is None:
            if data or self.network.is_ended:
                raise self._cut("it was closed while no request used it")
            return
        if data:
            self.has_answered = True
            self._protocol.receive_data(data)
        if self.network.is_ended:
            self._protocol.receive_data(b"")
        if data or self.network.is_ended:
            self.deliver()

    def deliver(self) -> None:
        """Pass the received parts of the response on, until the exchange is paused.

        Raises:
            KubeTransportError: the response is cut, too long, or not HTTP.
        """
        while (exchange := self.exchange) is not None and not (
            self.is_complete or exchange.is_paused or exchange.is_cancelled
        ):
            event = self._next_event()
            if event is h11.NEED_DATA:
                return
            self._take(exchange, event)

    def _next_event(self) -> object:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise self._refused(error) from None

    def _take(self, exchange: HttpExchange, event: object) -> None:
        match event:
            case h11.Response():
                exchange.head(self._head(event))
            case h11.Data():
                exchange.data(bytes(event.data))
            case h11.EndOfMessage():
                self.is_complete = True
                exchange.end()
            case h11.InformationalResponse():
                pass
            case _:
                raise self._cut(f"it was closed {_BEFORE}")

    def _head(self, event: h11.Response) -> ResponseHead:
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        if sum(len(name) + len(value) + 4 for name, value in headers) > MAX_HEAD:
            raise self._long_head()
        return ResponseHead(event.status_code, headers)

    def _refused(self, error: h11.RemoteProtocolError) -> KubeTransportError:
        if self._protocol.their_state is h11.ERROR and error.error_status_hint == 431:
            return self._long_head()
        if self.network.is_ended:
            return self._cut(f"it was closed {'in the middle of a response' if self.has_answered else _BEFORE}")
        why = "what came is not HTTP/1.1: check the server's URL and port"
        return KubeProtocolError("cannot read the API server's response", self._server, why)

    def _long_head(self) -> KubeTooLargeError:
        why = f"its head is longer than {MAX_HEAD} bytes: is this an API server?"
        return KubeTooLargeError("the API server's response is too long", self._server, why)

    def _cut(self, why: str) -> KubeCutError:
        return KubeCutError("the connection to the API server broke", self._server, why)

    def release(self) -> bool:
        """Part with an exchange whose response is complete; return whether the connection can carry another."""
        self.exchange = None
        extra, is_ended = self._protocol.trailing_data
        states = self._protocol.our_state, self._protocol.their_state
        if states != (h11.DONE, h11.DONE) or extra or is_ended or self.network.is_unwritable or self.network.unsent:
            return False
        self._protocol.start_next_cycle()
        self.is_kept = True
        return not self.network.is_ended

    def is_usable(self) -> bool:
        """Return whether an idle connection is still open, as far as it is known here."""
        try:
            self._read()
        except KubeTransportError:
            return False
        return not self.is_closed

    def close(self) -> None:
        """Close it at once."""
        self.is_closed = True
        self.network.close()
