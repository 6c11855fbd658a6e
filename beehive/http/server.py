"""The server's side of an exchange."""

from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Final, NamedTuple

import h11

from beehive.http.errors import HttpError
from beehive.http.events import PIECE_BYTES, SMALL_PIECES, Receive, next_event

_LENGTH_DIGITS: Final = 12
_UNREAD: Final = (h11.IDLE, h11.SEND_BODY, h11.ERROR)
_STATUSES: Final = frozenset(status.value for status in HTTPStatus)


class RequestHead(NamedTuple):
    """The request line and the headers of a request."""

    method: str
    target: str
    """Path and query, encoded."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case."""
    version: str
    """`1.0` or `1.1`."""

    def header(self, name: str) -> str:
        """Return the first header with this name (lower case), "" without one."""
        return next((value for key, value in self.headers if key == name), "")


class ServerExchange:
    """The requests of a connection that a server has accepted, one at a time, and their responses.

    Example:
        exchange = ServerExchange(max_head=64 * 1024)
        head = exchange.read_head(lambda: connection.recv(16 * 1024))
        connection.sendall(exchange.response(200, [("Content-Length", "2")]) + exchange.data(b"ok") + exchange.end())

    Args:
        max_head: bytes of request line and headers; a longer head is answered with 431.
    """

    def __init__(self, max_head: int) -> None:
        self._connection = h11.Connection(h11.SERVER, max_head)
        self._max_head = max_head
        self._received = 0
        self.is_head = False
        """Whether the request is a HEAD: its response has no body."""

    @property
    def rest(self) -> bytes:
        """The bytes received after the head, or after the body once `read_body` has returned it."""
        return self._connection.trailing_data[0]

    @property
    def is_unread(self) -> bool:
        """Whether the client may still send a part of the request, or has sent bytes after it."""
        with suppress(h11.RemoteProtocolError):
            while isinstance(self._connection.next_event(), h11.Data):
                pass
        return self._connection.their_state in _UNREAD or bool(self.rest)

    def read_head(self, receive: Receive) -> RequestHead:
        """Return the head of the request.

        Raises:
            HttpError: 400 for bytes that are not an HTTP/1 request, 431 for a head that is too long.
        """
        event = next_event(self._connection, self._counted(receive))
        if not isinstance(event, h11.Request):
            raise HttpError(400, f"{type(event).__name__} instead of a request")
        self.is_head = event.method == b"HEAD"
        if self._received - len(self.rest) > self._max_head:
            raise HttpError(431, "the head is too long")
        version = event.http_version.decode()
        if not version.startswith("1."):
            raise HttpError(400, f"HTTP/{version} is not supported")
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
        if {"content-length", "transfer-encoding"} <= dict(headers).keys():
            raise HttpError(400, "the body has two lengths: Content-Length and Transfer-Encoding")
        return RequestHead(event.method.decode("latin-1"), event.target.decode("latin-1"), headers, version)

    def read_body(self, receive: Receive, limit: int | None = None) -> bytes:
        """Return the whole body.

        Args:
            receive: returns the connection's next bytes.
            limit: bytes of a body in chunks; None for one whose length `body_length` has checked.

        Raises:
            HttpError: 400; the connection ends before the body is complete, or it comes in too many pieces. 413; it
                exceeds the limit.
        """
        body, pieces = bytearray(), 0
        while isinstance(event := next_event(self._connection, self._counted(receive)), h11.Data):
            body += event.data
            pieces += 1
            if limit is not None and pieces > SMALL_PIECES + len(body) // PIECE_BYTES:
                raise HttpError(400, f"a body has at most {SMALL_PIECES} pieces of less than {PIECE_BYTES} bytes")
            if limit is not None and len(body) > limit:
                raise HttpError(413, f"a body has at most {limit} bytes")
        return bytes(body)

    def go_ahead(self) -> bytes:
        """Return `100 Continue` for a client that waits for it before it sends the body, else nothing."""
        if not self._connection.they_are_waiting_for_100_continue:
            return b""
        return self._connection.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    def response(self, status: int, headers: Iterable[tuple[str, str]], *, keeps: bool = False) -> bytes:
        """Return the head of the response.

        A body without `Content-Length` is sent in chunks to a client of HTTP/1.1, and ends with the connection for one
        of HTTP/1.0.

        Args:
            status: HTTP status.
            headers: without `Connection`, which is added.
            keeps: whether to keep the connection open for another request, if this one was read to its end and the
                client keeps it open too.

        Raises:
            h11.LocalProtocolError: a header has a line break or another byte that no header may have.
        """
        reason = HTTPStatus(status).phrase if status in _STATUSES else ""
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        if not keeps or self._connection.their_state is not h11.DONE:
            encoded.append((b"Connection", b"close"))
        return self._connection.send(h11.Response(status_code=status, headers=encoded, reason=reason.encode()))

    def data(self, piece: bytes) -> bytes:
        """Return a piece of the response's body as it is sent; nothing to a HEAD."""
        return b"" if self.is_head else self._connection.send(h11.Data(data=piece))

    def end(self) -> bytes:
        """Return the bytes that end the response's body: the last chunk, or nothing."""
        return self._connection.send(h11.EndOfMessage())

    def next_request(self) -> bool:
        """Prepare for another request after a whole response; return whether the connection can carry one: it can if
        the request was read to its end and neither side closes the connection.
        """
        if (self._connection.our_state, self._connection.their_state) != (h11.DONE, h11.DONE):
            return False
        self._connection.start_next_cycle()
        self._received = len(self.rest)
        return True

    def receive(self, data: bytes) -> None:
        """Take the first bytes of a request, which the server has read while it waited for one."""
        self._connection.receive_data(data)
        self._received += len(data)

    def _counted(self, receive: Receive) -> Receive:
        """Count bytes; raise HttpError at the connection's end, where the request is incomplete and h11 would accept no
        response.
        """

        def received() -> bytes:
            data = receive()
            if not data:
                raise HttpError(400, "the connection ended before the request did")
            self._received += len(data)
            return data

        return received


def body_length(head: RequestHead, limit: int) -> int:
    """Return how many bytes the request's body has.

    Raises:
        HttpError: 413 for more than `limit`, 411 for a body without a stated length.
    """
    if head.header("transfer-encoding"):
        raise HttpError(411, "a body needs a Content-Length")
    return stated_length(head.header("content-length"), limit)


def stated_length(text: str, limit: int) -> int:
    """Return the number in the header `Content-Length`, 0 for "". Raise HttpError, 413, for more than `limit`."""
    if len(text) > _LENGTH_DIGITS or int(text or "0") > limit:
        raise HttpError(413, f"a body has at most {limit} bytes")
    return int(text or "0")
