"""As much of HTTP/1.1 as a probe needs: a GET, the head of an answer, and how much of a body follows. Pure.

The standard library's client costs the agent's memory the e-mail package (measured for `edged.server.http`).
"""

from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from edged.probes.errors import NetworkError
from edged.probes.targets import HttpTarget

MAX_HEAD = 64 * 1024
"""Bytes of an answer's head that are read at most."""
MAX_BODY = 10 * 1024
"""Bytes of a body that are read at most (kubelet's maxRespBodyLength)."""
MAX_REDIRECTS = 10

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 303, 307, 308)
_VISIBLE = "!$%&'()*+,/:;=?@[]~"
"""What stays as it is in a path and its query, beside letters and digits; `%` because it may be quoted already."""


class Head(NamedTuple):
    """The head of an answer; of its headers those that matter here, in lower case."""

    status: int
    headers: dict[str, str]


def request(target: HttpTarget) -> bytes:
    """The request for a target."""
    given = {name.lower(): value for name, value in target.headers}
    lines = [
        f"GET {request_path(target.path)} HTTP/1.1",
        f"Host: {given.get('host') or _authority(target)}",
        *(f"{name}: {value}" for name, value in target.headers if name.lower() not in ("host", "connection")),
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "replace")


def request_path(path: str) -> str:
    """A path with its query as it may stand in a request: what would break the line is quoted, a fragment left out."""
    text = path.partition("#")[0]
    return quote(text if text.startswith("/") else f"/{text}", safe=_VISIBLE)


def parse_head(head: bytes) -> Head:
    """The head of an answer, without the empty line. Raises NetworkError."""
    first, *rest = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not (parts[1].isascii() and parts[1].isdigit()):
        raise NetworkError("read an HTTP answer", "", "it does not begin with an HTTP/1 status line")
    pairs = (line.partition(":") for line in rest)
    return Head(int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in pairs})


def body_ends(head: Head, body: bytes) -> bool:
    """Whether nothing more of the body is to be read; a server need not close the connection to end it."""
    if len(body) >= MAX_BODY or head.status in (204, 304):
        return True
    if head.headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return body.endswith(b"0\r\n\r\n")
    length = head.headers.get("content-length", "")
    return length.isascii() and length.isdigit() and len(body) >= int(length)


def redirected(target: HttpTarget, head: Head) -> HttpTarget | None:
    """Where an answer sends on to; None when it does not, or to another host: that is not followed, because the answer
    is the container's and the other host's is not (kubelet's RedirectChecker).
    """
    location = head.headers.get("location", "")
    if head.status not in _REDIRECTS or not location:
        return None
    try:
        split = urlsplit(urljoin(f"{target.scheme}://{_authority(target)}{request_path(target.path)}", location))
        port = split.port or _PORTS.get(split.scheme, 0)
    except ValueError:
        return None
    if split.scheme not in _PORTS or split.hostname != target.host.lower():
        return None
    path = split.path + (f"?{split.query}" if split.query else "")
    return target._replace(scheme=split.scheme, port=port, path=path)


def _authority(target: HttpTarget) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == _PORTS.get(target.scheme) else f"{host}:{target.port}"
