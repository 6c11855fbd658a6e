"""One connection to an API server, which carries one request at a time (HTTP/1.1 keep-alive, no pipelining)."""

import re
import selectors
import ssl
from typing import Final, NamedTuple

import h11

from modules.cloud.client.http.exchange import HttpExchange
from modules.cloud.client.http.network_stream import NetworkStream
from modules.cloud.client.http.response_reader import MAX_HEAD, Part, ResponseMark, ResponseReader
from modules.cloud.client.transport import ResponseHead
from modules.cloud.client.transport_errors import (
    KubeCutError,
    KubeProtocolError,
    KubeTooLargeError,
    KubeTransportError,
)

_BEFORE: Final = "before an answer came"
_NAME: Final = r"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE: Final = r"(?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?"
_IS_HEAD: Final = re.compile(rf"{_NAME} [\x21-\x7e]+ HTTP/1\.1\r\n(?:{_NAME}: {_VALUE}\r\n)+").fullmatch


class RequestHead(NamedTuple):
    """The method, target and headers of a request."""

    method: str
    target: str
    headers: list[tuple[str, str]]


def request_text(head: RequestHead, body: bytes) -> bytes:
    """Return a request as it is sent; its headers say the length of the body.

    Raises:
        ValueError: the method, the target or a header has characters that HTTP does not allow.
    """
    lines = "".join([f"{name}: {value}\r\n" for name, value in head.headers])
    text = f"{head.method} {head.target} HTTP/1.1\r\n{lines}"
    if _IS_HEAD(text) is None or text.count("\n") != len(head.headers) + 1:
        raise ValueError("a character that HTTP does not allow")
    return f"{text}\r\n".encode("ascii") + body


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
        self._reader = ResponseReader("")
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
        self._reader = ResponseReader(head.method)
        try:
            self._request = request_text(head, exchange.request.body)
        except ValueError:
            why = "its method, path or a header has characters that HTTP does not allow"
            raise KubeProtocolError("cannot send a request to the API server", self._server, why) from None
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
            self._reader.receive(data)
        if self.network.is_ended:
            self._reader.receive(b"")
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
            part = self._next_part()
            if part is None:
                return
            self._handle_part(exchange, part)

    def _next_part(self) -> Part:
        try:
            return self._reader.next()
        except h11.RemoteProtocolError as error:
            raise self._refused(error) from None

    def _handle_part(self, exchange: HttpExchange, part: ResponseHead | bytes | ResponseMark) -> None:
        match part:
            case bytes():
                exchange.data(part)
            case ResponseHead():
                self._check_length(part)
                exchange.head(part)
            case ResponseMark.END:
                self.is_complete = True
                exchange.end()
            case ResponseMark.CLOSED:
                raise self._cut(f"it was closed {_BEFORE}")

    def _check_length(self, head: ResponseHead) -> None:
        if sum([len(name) + len(value) + 4 for name, value in head.headers]) > MAX_HEAD:
            raise self._long_head()

    def _refused(self, error: h11.RemoteProtocolError) -> KubeTransportError:
        if error.error_status_hint == 431:
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
        if not self._reader.is_reusable or self.network.is_unwritable or self.network.unsent:
            return False
        self.is_kept = True
        return not self.network.is_ended

    def close(self) -> None:
        """Close it immediately."""
        self.is_closed = True
        self.network.close()
