"""A request to the local server: bounded, decoded once, with a path whose parts are safe as names.

A path's parts are looked up as names of Kubernetes objects, so a part that is empty, has a slash or a zero byte, or
means a directory (`..`) is refused before a handler sees it.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from beehive.http.connections import Client
from beehive.http.errors import HttpError, HttpStatusError

if TYPE_CHECKING:
    from beehive.http.events import Receive
    from beehive.http.server import RequestHead, ServerExchange

MAX_HEAD: Final = 64 * 1024
"""Bytes of request line and headers: a command to execute is in the query, and may be a script."""

MAX_PART: Final = 253
"""Characters of a part of a path, decoded."""
_MAX_PARTS: Final = 64
_MAX_FIELDS: Final = 4096
_IS_FIELD_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*").fullmatch
"""A header's value has tabs and bytes of any encoding, but no control characters (RFC 9110 §5.5)."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as a handler receives it."""

    method: str
    target: str
    """Path and query, encoded."""
    parts: tuple[str, ...]
    """The parts of the path, decoded."""
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case."""
    rest: bytes = b""
    """The bytes that the client sent after the head, for a handler that takes the connection over."""
    body: bytes = b""
    """Empty unless the server reads bodies."""
    certificate: Mapping[str, Any] | None = None
    """The verified client certificate, `beehive.sockets.tls.peer_certificate`; None without one."""
    address: str = ""
    """The client's IP address; "" on a unix socket, and within this process."""
    client: Client | None = None
    """Who asks, as the server tells its clients apart; None before it has decided, and within this process."""

    @property
    def path(self) -> str:
        """The path, decoded, without a slash at its end."""
        return "/" + "/".join(self.parts)

    @property
    def has_body(self) -> bool:
        """Whether there is a body, read or not. What follows a request that upgrades the connection is none."""
        is_announced = bool(self.header("transfer-encoding")) or self.header("content-length") not in ("", "0")
        return bool(self.body) or (is_announced and not self.header("upgrade"))

    def first(self, name: str) -> str:
        """Return the first value of a field of the query, "" without one."""
        return dict(reversed(self.query)).get(name, "")

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field of the query, in order."""
        return tuple(value for key, value in self.query if key == name)

    def flag(self, name: str) -> bool:
        """Return whether a switch of the query is on: present, and neither `false` nor `0`, as Kubernetes reads it."""
        values = self.all(name)
        return bool(values) and values[0] not in ("false", "0")

    def header(self, name: str) -> str:
        """Return the first header with this name (lower case), "" without one."""
        return dict(reversed(self.headers)).get(name, "")


def read_request(exchange: "ServerExchange", receive: "Receive") -> Request:
    """Return the request of an exchange, by its head; what has come after the head is in `Request.rest`.

    Args:
        exchange: with a bound of `MAX_HEAD`.
        receive: returns the connection's next bytes.

    Raises:
        HttpStatusError: 400 for a malformed request, 404 for a path with too many parts, 431 for a head that is too
            long.
    """
    try:
        return request_from(exchange.read_head(receive), exchange.rest)
    except HttpError as error:
        if error.status == 431:
            raise HttpStatusError(431, "the request is too long", hint=f"at most {MAX_HEAD} bytes") from error
        raise _unread(error) from error


def read_body(
    request: Request,
    exchange: "ServerExchange",
    receive: "Receive",
    most: int,
    send: Callable[[bytes], object] = lambda _: None,
) -> Request:
    """Return a request with its body. That of a request that upgrades the connection is left in `Request.rest`.

    Args:
        request: as `read_request` has returned it.
        exchange: its exchange.
        receive: returns the connection's next bytes.
        most: bytes that the body may have.
        send: sends bytes to a client that waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).

    Raises:
        HttpStatusError: 413 for a body that is too long, in kube-apiserver's words; 400 for a malformed one.
    """
    from beehive.http.server import stated_length  # noqa: PLC0415 - h11, with the first request

    if request.header("upgrade"):
        return request
    try:
        stated_length(request.header("content-length"), most)
        send(exchange.go_ahead())
        return msgspec.structs.replace(request, body=exchange.read_body(receive, most), rest=b"")
    except HttpError as error:
        if error.status == 413:
            raise HttpStatusError(413, "Request entity too large", f"limit is {most}") from error
        raise _unread(error) from error


def _unread(error: HttpError) -> HttpStatusError:
    return HttpStatusError(error.status, "this is an HTTP/1.1 server", hint=error.reason)


def request_from(head: "RequestHead", rest: bytes) -> Request:
    """Return the request with a head.

    Args:
        head: the request line and the headers.
        rest: the bytes after them.

    Raises:
        HttpStatusError: 400 for a malformed request, 404 for a path with too many parts.
    """
    if not head.target.startswith("/"):
        raise HttpStatusError(400, "this is an HTTP/1.1 server")
    if not _IS_FIELD_VALUE("".join([value for _, value in head.headers])):
        raise HttpStatusError(400, "a header cannot be read")
    path, _, query = head.target.partition("?")
    return Request(
        method=head.method,
        target=head.target,
        parts=parts_of(path),
        query=_query(query),
        headers=head.headers,
        rest=rest,
    )


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a path, each decoded once. Raises HttpStatusError as `request_from`."""
    raw = path.strip("/").split("/") if path.strip("/") else []
    if len(raw) > _MAX_PARTS:
        raise HttpStatusError(404, "no path has so many parts")
    return tuple(_part(part) for part in raw)


def _part(raw: str) -> str:
    try:
        part = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        part = ""
    if not part or len(part) > MAX_PART or part in (".", "..") or "/" in part or not part.isprintable():
        raise HttpStatusError(400, "the path has a part that names nothing")
    return part


def _query(query: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise HttpStatusError(400, "the query cannot be read", hint=f"at most {_MAX_FIELDS} fields, in UTF-8") from None
