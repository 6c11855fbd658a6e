"""The HTTP of `httpGet` probes and hooks: the request's path and headers, and redirects. Pure.

h11 reads and writes the messages. A probe takes 0.21 ms of processor time, with the probed server; with string methods
of our own it took 0.12 ms, but these guessed the end of a chunked body and took malformed headers, which Go's client
refuses for a kubelet. 110 pods with a probe every ten seconds pay 0.1 % of a core for it.
"""

from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from edged.probes.targets import HttpTarget

if TYPE_CHECKING:
    from beehive.http.client import ResponseHead

MAX_HEAD = 64 * 1024
"""Bytes of a response's head that are read at most."""
MAX_BODY = 10 * 1024
"""Bytes of a body that are read at most (kubelet's maxRespBodyLength)."""
MAX_REDIRECTS = 10

_PORTS = {"http": 80, "https": 443}
_REDIRECTS = (301, 302, 303, 307, 308)
_VISIBLE = "!$%&'()*+,/:;=?@[]~"
"""Characters that a path and its query keep, beside letters and digits; `%` because it may be quoted already."""
_EXCLUDED = ("host", "connection", "content-length", "transfer-encoding", "trailer")
"""Headers that the request sets itself or a GET without a body cannot have (Go's reqWriteExcludeHeader)."""


def request_headers(target: HttpTarget) -> list[tuple[str, str]]:
    """Return all headers of the request for a target, `Host` first."""
    given = {name.lower(): value for name, value in target.headers}
    return [
        ("Host", given.get("host", "").strip() or _authority(target)),
        *((name, value.strip()) for name, value in target.headers if name.lower() not in _EXCLUDED),
        ("Connection", "close"),
    ]


def request_path(path: str) -> str:
    """Return a path with its query, quoted for the request line and without its fragment."""
    text = path.partition("#")[0]
    return quote(text if text.startswith("/") else f"/{text}", safe=_VISIBLE)


def redirected(target: HttpTarget, head: "ResponseHead") -> HttpTarget | None:
    """Return the target of a redirect, None for another response and for a redirect to another host.

    Another host's answer would not be the container's (kubelet's RedirectChecker).
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
