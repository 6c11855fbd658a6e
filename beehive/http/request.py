"""A request to the local server: bounded, decoded once, with a path whose parts are safe as names.

A path's parts are looked up as names of Kubernetes objects, so a part that is empty, has a slash or a zero byte, or
means a directory (`..`) is refused before a handler sees it.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

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

    @property
    def path(self) -> str:
        """The path, decoded, without a slash at its end."""
        return "/" + "/".join(self.parts)

    def first(self, name: str) -> str:
        """Return the first value of a field of the query, "" without one."""
        return next((value for key, value in self.query if key == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of a field of the query, in order."""
        return tuple(value for key, value in self.query if key == name)

    def flag(self, name: str) -> bool:
        """Return whether a switch of the query is on: present, and neither `false` nor `0`, as Kubernetes reads it."""
        values = self.all(name)
        return bool(values) and values[0] not in ("false", "0")

    def header(self, name: str) -> str:
        """Return the first header with this name (lower case), "" without one."""
        return next((value for key, value in self.headers if key == name), "")


def read_request(
    exchange: "ServerExchange",
    receive: "Receive",
    max_body: int = 0,
    admit: Callable[[Request], None] | None = None,
    send: Callable[[bytes], object] = lambda _: None,
) -> Request:
    """Return the request of an exchange.

    Args:
        exchange: with a bound of `MAX_HEAD`.
        receive: returns the connection's next bytes.
        max_body: bytes of a body that are read; 0 leaves the body in `Request.rest`, as does a request that upgrades
            the connection.
        admit: is given the request before its body is read; a HttpStatusError refuses it.
        send: sends bytes to a client that waits for `100 Continue` before it sends the body (RFC 9110 §10.1.1).

    Raises:
        HttpStatusError: 400 for a malformed request, 404 for a path with too many parts, 413 and 431 for a body and
            a head that are too long.
    """
    from beehive.http.server import body_length  # noqa: PLC0415 - h11, with the first request

    try:
        head = exchange.read_head(receive)
        request = request_from(head, exchange.rest)
        if admit is not None:
            admit(request)
        if not max_body or request.header("upgrade"):
            return request
        if not head.header("transfer-encoding"):  # a body in chunks has no length before its end
            body_length(head, max_body)
        send(exchange.go_ahead())
        return msgspec.structs.replace(request, body=exchange.read_body(receive, max_body), rest=b"")
    except HttpError as error:
        raise _refusal(error, max_body) from error


def _refusal(error: HttpError, max_body: int) -> HttpStatusError:
    """Return the answer to a request that breaks the protocol or a bound; of a body, in kube-apiserver's words."""
    if error.status == 413:
        return HttpStatusError(413, "Request entity too large", f"limit is {max_body}")
    if error.status == 431:
        return HttpStatusError(431, "the request is too long", hint=f"at most {MAX_HEAD} bytes")
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
    if not all(_IS_FIELD_VALUE(value) for _, value in head.headers):
        raise HttpStatusError(400, "a header cannot be read")
    path, _, query = head.target.partition("?")
    return Request(
        method=head.method,
        target=head.target,
        parts=_parts(path),
        query=_query(query),
        headers=head.headers,
        rest=rest,
    )


def _parts(path: str) -> tuple[str, ...]:
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
