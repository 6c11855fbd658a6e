"""A request as the local server understands it: bounded, decoded once, and with paths that cannot climb.

Pure: bytes in, `Request` or `RequestError` out. What is looked up by a path's parts are names of Kubernetes objects, so
a part that is empty, has a slash or a zero byte, or means a directory (`..`), is refused before any handler sees it.
"""

from typing import Final
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from edged.server.errors import RequestError

MAX_HEAD: Final = 64 * 1024
"""Bytes of request line and headers: a command to execute is in the query, and may be a script."""

_MAX_PART = 253
_MAX_PARTS = 8
_MAX_FIELDS = 4096
_LENGTH_DIGITS = 12
_END: Final = b"\r\n\r\n"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked."""

    method: str
    target: str
    """Path and query as they came."""
    parts: tuple[str, ...]
    """Of the path, decoded."""
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case."""
    chunks: bool = True
    """Whether the client knows chunked bodies (HTTP/1.1)."""
    rest: bytes = b""
    """What the client sent after the head."""
    body: bytes = b""
    """Of a server that takes bodies."""

    @property
    def path(self) -> str:
        """Decoded, without a slash at its end."""
        return "/" + "/".join(self.parts)

    def first(self, name: str) -> str:
        """The first value of a query's field; empty without one."""
        return next((value for key, value in self.query if key == name), "")

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a query's field, in order."""
        return tuple(value for key, value in self.query if key == name)

    def flag(self, name: str) -> bool:
        """A switch in the query, read as Kubernetes does: there, and neither `false` nor `0`."""
        values = self.all(name)
        return bool(values) and values[0] not in ("false", "0")

    def header(self, name: str) -> str:
        """The first header of a name (lower case); empty without one."""
        return next((value for key, value in self.headers if key == name), "")


def parse(data: bytes) -> Request:
    """The request that begins with these bytes, which have the whole head.

    Raises:
        RequestError: 400; it is no request, or one that goes too far.
    """
    head, _, rest = data.partition(_END)
    line, *fields = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        raise RequestError(400, "this is an HTTP/1.1 server")
    path, _, query = words[1].partition("?")
    return Request(
        method=words[0],
        target=words[1],
        parts=_parts(path),
        query=_query(query),
        headers=tuple(_field(field) for field in fields if field),
        chunks=words[2] != "HTTP/1.0",
        rest=rest,
    )


def has_head(data: bytes) -> bool:
    """Whether the head is complete. Raises RequestError (431) when it is too long."""
    if _END in data:
        return True
    if len(data) > MAX_HEAD:
        raise RequestError(431, "the request is too long", hint=f"at most {MAX_HEAD} bytes")
    return False


def body_length(request: Request, most: int) -> int:
    """How many bytes the request's body has.

    Raises:
        RequestError: 413 when they are more than `most`, 411 when the client does not say how many they are.
    """
    if request.header("transfer-encoding"):
        raise RequestError(411, "a body is taken with its Content-Length", request.path)
    text = request.header("content-length") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) < _LENGTH_DIGITS):
        raise RequestError(400, "the Content-Length is no number", request.path)
    if int(text) > most:
        raise RequestError(413, "the body is too long", request.path, f"at most {most} bytes")
    return int(text)


def _parts(path: str) -> tuple[str, ...]:
    raw = path.strip("/").split("/") if path.strip("/") else []
    if len(raw) > _MAX_PARTS:
        raise RequestError(404, "no path has so many parts")
    return tuple(_part(part) for part in raw)


def _part(raw: str) -> str:
    try:
        part = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        part = ""
    if not part or len(part) > _MAX_PART or part in (".", "..") or "/" in part or not part.isprintable():
        raise RequestError(400, "the path has a part that names nothing")
    return part


def _query(query: str) -> tuple[tuple[str, str], ...]:
    try:
        return tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict"))
    except (ValueError, UnicodeDecodeError):
        raise RequestError(400, "the query cannot be read", hint=f"at most {_MAX_FIELDS} fields, in UTF-8") from None


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip() or not value.isprintable():
        raise RequestError(400, "a header cannot be read")
    return name.lower(), value.strip()
