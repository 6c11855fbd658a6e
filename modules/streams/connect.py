"""The JSON that opens a stream: a request for the node's server, with the fields of Go's `url.URL`.

Scheme and host are KubeEdge's constants and mean nothing here: a node takes path and query only, because otherwise the
cloud's end of the tunnel could reach any address that the node can. Only the headers that a stream needs are passed on;
KubeEdge sends the caller's credentials to every node.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec

from beehive.decoding import decode_json

MAX_CONNECT: Final = 128 * 1024
"""Bytes of the JSON: a command is in the query, and may be a script."""

MAX_TARGET: Final = 48 * 1024
"""Bytes of path and query."""

_PASSED: Final = frozenset({"accept", "connection", "upgrade", "user-agent", "x-stream-protocol-version"})
_PASSED_PREFIX: Final = "sec-websocket-"
_MAX_HEADERS: Final = 64
_MAX_VALUE: Final = 1024
_HOST: Final = "127.0.0.1:10350"
_METHODS: Final = ("GET", "POST")
_SAFE: Final = "/:@$&+,;=-._~"
"""Characters that Go's `URL.EscapedPath` leaves as they are, beside letters and digits."""
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_TARGET: Final = re.compile(r"[!-\"$-~]*")
"""Printable ASCII without blank and `#`."""
_VALUE: Final = re.compile(r"[ -~]*")

Header = tuple[str, str]


class ConnectError(ValueError):
    """A request that cannot be read, or must not be made."""


class StreamRequest(NamedTuple):
    """A request for the node's server."""

    connection: int
    """Number of its stream."""
    target: str
    """Path and query, encoded as in a request line."""
    headers: tuple[Header, ...] = ()
    """Headers that are passed on; several with one name stay apart."""
    method: str = "GET"


class _Url(msgspec.Struct):
    """Go's `url.URL`, in the order of its fields."""

    Path: str
    Scheme: str = "http"
    Opaque: str = ""
    User: dict[str, str] | None = None
    Host: str = _HOST
    Fragment: str = ""
    RawQuery: str = ""
    RawPath: str = ""
    RawFragment: str = ""
    ForceQuery: bool = False
    OmitHost: bool = False


class _Connect(msgspec.Struct):
    """KubeEdge's struct. Logs and metrics have no method."""

    MessID: Annotated[int, msgspec.Meta(ge=0)]
    url: _Url
    header: Mapping[str, list[str] | None] | None = None
    method: str | msgspec.UnsetType = msgspec.UNSET


def decode(data: bytes) -> StreamRequest:
    """Return the request in a connect frame's data.

    Raises:
        ConnectError: the JSON cannot be read, is too long, or its parts make no request.
    """
    if len(data) > MAX_CONNECT:
        raise ConnectError(f"the request is longer than {MAX_CONNECT} bytes")
    try:
        read = decode_json(data, _Connect)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConnectError(f"the request cannot be read: {error}") from None
    target = _path(read.url) + (f"?{read.url.RawQuery}" if read.url.RawQuery else "")
    if not target.startswith("/") or len(target) > MAX_TARGET or not _TARGET.fullmatch(target):
        raise ConnectError("the path or the query cannot be sent")
    method = read.method or "GET"
    if method not in _METHODS:
        raise ConnectError(f"no stream begins with the method {method[:20]!r}")
    fields = ((name, value) for name, values in (read.header or {}).items() for value in values or ())
    return StreamRequest(read.MessID, target, passed_on(fields), method)


def encode(request: StreamRequest, *, with_method: bool) -> bytes:
    """Return a connect frame's data; `with_method` for exec and attach, as KubeEdge writes it.

    Raises:
        ConnectError: the path is not UTF-8.
    """
    raw_path, _, query = request.target.partition("?")
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        raise ConnectError("the path is not UTF-8") from None
    url = _Url(Path=path, RawQuery=query, RawPath="" if quote(path, _SAFE) == raw_path else raw_path)
    header: dict[str, list[str]] = {}
    for name, value in request.headers:
        header.setdefault(name, []).append(value)
    method = request.method if with_method else msgspec.UNSET
    return msgspec.json.encode(_Connect(MessID=request.connection, url=url, header=header, method=method))


def passed_on(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return the headers that may pass, with names as Go writes them.

    Raises:
        ConnectError: they are too many, or one of them is too long or not printable.
    """
    passed: list[Header] = []
    for name, value in headers:
        lower = name.lower()
        if lower not in _PASSED and not lower.startswith(_PASSED_PREFIX):
            continue
        if not _TOKEN.fullmatch(name) or len(value) > _MAX_VALUE or not _VALUE.fullmatch(value):
            raise ConnectError(f"the header {lower[:64]!r} cannot be sent")
        passed.append((lower.title(), value))
    if len(passed) > _MAX_HEADERS:
        raise ConnectError(f"a request has at most {_MAX_HEADERS} headers")
    return tuple(passed)


def _path(url: _Url) -> str:
    """Return the path as Go's `URL.EscapedPath`: encoded as it came if that means the same."""
    if url.RawPath and unquote_to_bytes(url.RawPath) == url.Path.encode():
        return url.RawPath
    return quote(url.Path, _SAFE)
