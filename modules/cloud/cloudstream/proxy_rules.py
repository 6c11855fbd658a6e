"""What a proxied request and its answer keep, and what is changed: headers, redirects, links. Pure.

The rules are those of kube-apiserver's proxy (`UpgradeAwareHandler` and its transport) for redirects and links. Beyond
them, what a pod says is kept apart from the server that says it: a browser takes the answer for a document of this
server's origin, where the page and its session live. So the answer is a document of no origin (the CSP directive
`sandbox`), and sets nothing for the origin.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from beehive.http.forwarding import Fields, passed_on
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort, ProxiedPath

LONGEST_PAGE: Final = 1 << 20
"""Bytes of a page whose links are changed; a longer one passes as it is."""
_OF_THE_CLIENT: Final = ("authorization", "cookie", "accept-encoding", "forwarded")
"""Headers of a request that are not for pods; a compressed page could not be read."""
_PREFIXES: Final = ("impersonate-", "x-remote-", "x-forwarded-")
_OF_THE_ORIGIN: Final = (
    "set-cookie", "set-cookie2", "clear-site-data", "strict-transport-security", "public-key-pins", "expect-ct",
    "alt-svc", "service-worker-allowed", "www-authenticate", "nel", "report-to", "reporting-endpoints",
    "origin-agent-cluster", "x-content-type-options",
)  # fmt: skip
"""Headers of an answer that would hold for this server, or make a browser ask for a password in its name."""
_CROSS_ORIGIN: Final = "access-control-"
SANDBOX: Final = ("Content-Security-Policy", "sandbox")
"""A browser gives a document with it no origin, and runs no script of it (CSP level 3 §6.2)."""
_WITHOUT_EFFECT: Final = ("GET", "HEAD", "OPTIONS")
_HTML: Final = "text/html"
_TAG: Final = re.compile(rb"<[A-Za-z][^<>]{0,4096}>")
_LINK: Final = re.compile(
    rb"""(?i)(\s(?:action|background|cite|classid|codebase|data|formaction|href|icon|longdesc|manifest|poster|profile"""
    rb"""|src|usemap)\s*=\s*["']?)(/(?!/)[^\s"'>]*)"""
)


def request_headers(fields: Iterable[tuple[str, str]], port: PodPort, path: ProxiedPath) -> Fields:
    """Return the headers of a request for a pod, out of those of the client's, whose names are in lower case."""
    known = tuple(fields)
    host = next((value for name, value in known if name == "host"), "")
    kept = tuple(each for each in passed_on(known, *_OF_THE_CLIENT) if not each[0].startswith(_PREFIXES))
    forwarded = (("X-Forwarded-Host", host), ("X-Forwarded-Uri", path.prefix + path.target.partition("?")[0]))
    return (("Host", address_of(port)), *kept, *passed_on(forwarded))


def address_of(port: PodPort) -> str:
    """Return the pod's address and the port, as in a URL."""
    return f"[{port.host}]:{port.port}" if ":" in port.host else f"{port.host}:{port.port}"


def response_headers(fields: Iterable[tuple[str, str]], port: PodPort, path: ProxiedPath) -> Fields:
    """Return the headers of an answer for the client: a redirect within the pod stays below the proxy's path."""
    kept = [
        (name, _location(value, port, path) if name.lower() == "location" else value)
        for name, value in passed_on(fields, *_OF_THE_ORIGIN)
        if not name.lower().startswith(_CROSS_ORIGIN)
    ]
    return (*kept, SANDBOX)


def _location(value: str, port: PodPort, path: ProxiedPath) -> str:
    for scheme in ("http", "https"):
        inside = value.removeprefix(f"{scheme}://{address_of(port)}") or "/"
        if inside != value and inside.startswith("/"):
            return path.prefix + inside
    return path.prefix + value if value.startswith("/") and not value.startswith("//") else value


def repeats_elsewhere(method: str, status: int, headers: Iterable[tuple[str, str]], path: ProxiedPath) -> bool:
    """Return whether a redirect makes a client repeat a write at a path that is not the pod's: clients do so with the
    user's credentials where that is a path of this server, whatever name it has there (RFC 9110 §15.4).

    Args:
        method: of the request.
        status: of the answer.
        headers: for the client (`response_headers`).
        path: of the request.
    """
    if method in _WITHOUT_EFFECT or not 300 <= status < 400 or status == HTTPStatus.SEE_OTHER:
        return False
    return any(name.lower() == "location" and not _is_below(value, path.prefix) for name, value in headers)


def _is_below(location: str, prefix: str) -> bool:
    """Return whether a location, which may be relative, leads to a path below a prefix in each client's reading."""
    way = unquote(location.partition("?")[0].partition("#")[0])
    begins = way.startswith(f"{prefix}/") or not (way.startswith("/") or ":" in way)
    return begins and way.isprintable() and "\\" not in way and ".." not in way.split("/")


def is_page(fields: Iterable[tuple[str, str]]) -> bool:
    """Return whether an answer is a page whose links can be changed."""
    known = {name.lower(): value.lower() for name, value in fields}
    return known.get("content-type", "").partition(";")[0].strip() == _HTML and "content-encoding" not in known


def with_links(page: bytes, prefix: str) -> bytes:
    """Return a page whose links to paths of its server lead to paths below the prefix, as long as it gets longer by
    `LONGEST_PAGE` at most.
    """
    added = prefix.encode()
    left = LONGEST_PAGE // len(added)

    def longer(link: "re.Match[bytes]") -> bytes:
        nonlocal left
        left -= 1
        return link[1] + added + link[2] if left >= 0 else link[0]

    def below(found: "re.Match[bytes]") -> bytes:
        return _LINK.sub(longer, found[0])

    return _TAG.sub(below, page)
