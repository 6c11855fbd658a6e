"""The client's side of an exchange."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import h11

from beehive.http.errors import HttpError, reason_of
from beehive.http.events import PIECE_BYTES, SMALL_PIECES, Receive, next_event

_SWITCHING: Final = 101
_MOST_PIECES: Final = 4 * SMALL_PIECES
"""Pieces of a body that may be small: some applications write in chunks of a line."""
_MOST_INFORMATIONAL: Final = 100
"""Informational responses before an answer: a server that says nothing else would be listened to for ever."""


class ResponseHead(NamedTuple):
    """The status and the headers of a response."""

    status: int
    headers: dict[str, str]
    """Names in lower case; of several headers with one name, the last."""
    fields: tuple[tuple[str, str], ...] = ()
    """All headers in order, names in lower case."""


class ClientExchange:
    """One request and its response on a connection that a client has opened.

    Example:
        exchange = ClientExchange(max_head=64 * 1024)
        connection.sendall(exchange.request("GET", "/healthz", [("Host", "127.0.0.1:10350")]))
        head = exchange.read_head(lambda: connection.recv(4096))

    Args:
        max_head: bytes of status line and headers that are read. One read may exceed it.
    """

    def __init__(self, max_head: int) -> None:
        self._connection = h11.Connection(h11.CLIENT, max_head)

    def request(self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
        """Return the whole request.

        Args:
            method: `GET` and the like.
            target: path and query, encoded.
            headers: with `Host`; `Content-Length` is added for a body.
            body: bytes after the head.

        Raises:
            HttpError: a header's name or value cannot be sent.
        """
        encoded = [(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in headers]
        if body:
            encoded.append((b"Content-Length", b"%d" % len(body)))
        send = self._connection.send
        try:
            head = send(h11.Request(method=method, target=target, headers=encoded))
            return head + (send(h11.Data(data=body)) if body else b"") + send(h11.EndOfMessage())
        except h11.LocalProtocolError as error:
            raise HttpError(error.error_status_hint, reason_of(error)) from error

    @property
    def rest(self) -> bytes:
        """The bytes received after the head of a response that switches protocols."""
        return self._connection.trailing_data[0]

    def read_head(self, receive: Receive) -> ResponseHead:
        """Return the head of the response; responses with a status below 200 are skipped, except 101, after which the
        connection has another protocol.

        Raises:
            HttpError: the answer is not HTTP/1, its head is too long, the connection ends before it is complete, or
            more than 100 responses are skipped.
        """
        event = next_event(self._connection, receive)
        skipped = 0
        while isinstance(event, h11.InformationalResponse) and event.status_code != _SWITCHING:
            skipped += 1
            if skipped > _MOST_INFORMATIONAL:
                raise HttpError(502, f"more than {_MOST_INFORMATIONAL} informational responses")
            event = next_event(self._connection, receive)
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise HttpError(502, "closed before an answer came")
        return _head(event)

    def feed(self, data: bytes) -> Iterator[ResponseHead | bytes]:
        """Take the connection's next bytes, `b""` at its end; yield the head, then the body's pieces, as they are
        complete. For a caller that does not wait for the connection. Responses with a status below 200 are skipped.

        Raises:
            HttpError: as `read_head` and `read_body`.
        """
        try:
            self._connection.receive_data(data)
            while isinstance(
                event := self._connection.next_event(), h11.InformationalResponse | h11.Response | h11.Data
            ):
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.Response):
                    yield _head(event)
        except h11.RemoteProtocolError as error:
            raise HttpError(error.error_status_hint, reason_of(error)) from error

    @property
    def complete(self) -> bool:
        """Whether the response has been received to its end."""
        return self._connection.their_state not in (h11.SEND_RESPONSE, h11.SEND_BODY)

    def read_body(self, receive: Receive, limit: int) -> bytes:
        """Return the body, or its beginning of at least `limit` bytes: the rest is not received.

        Raises:
            HttpError: the body breaks the protocol, the connection ends before it is complete, or it comes in too many
            pieces.
        """
        body, pieces = bytearray(), 0
        while len(body) < limit and isinstance(event := next_event(self._connection, receive), h11.Data):
            body += event.data
            pieces += 1
            if pieces > _MOST_PIECES + len(body) // PIECE_BYTES:
                raise HttpError(502, f"more than {_MOST_PIECES} pieces of less than {PIECE_BYTES} bytes")
        return bytes(body)

    def read_pieces(self, receive: Receive, most: int = 1) -> tuple[bytes, int]:
        """Return the next pieces of the body as one, and how many they are; `b""` after the last.

        Args:
            receive: as elsewhere; called only if no piece has been received.
            most: pieces, such as chunks.

        Raises:
            HttpError: as `read_body`.
        """
        body, count = bytearray(), 0
        event = h11.PAUSED if self.complete else next_event(self._connection, receive)
        while isinstance(event, h11.Data):
            body += event.data
            count += 1
            if count == most:
                break
            event = next_event(self._connection, receive, waits=False)
        return bytes(body), count


def _head(event: h11.Response | h11.InformationalResponse) -> ResponseHead:
    fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers)
    return ResponseHead(event.status_code, dict(fields), fields)
