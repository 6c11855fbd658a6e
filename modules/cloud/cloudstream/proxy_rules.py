"""What a proxied request and its answer keep, and what is changed: headers, redirects, links. Pure.

The rules are those of kube-apiserver's proxy (`UpgradeAwareHandler` and its transport) for redirects and links. Beyond
them, what a pod says is kept apart from the server that says it: a browser takes the answer for a document of this
server's origin, where the page and its session live. So the answer is a document of no origin (the CSP directive
`sandbox`), and sets nothing for the origin.
"""

import re
from collections.abc import Iterable
from typing import Final

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


def is_page(fields: Iterable[tuple[str, str]]) -> bool:
    """Return whether an answer is a page whose links can be changed."""
    known = {name.lower(): value.lower() for name, value in fields}
    return known.get("content-type", "").partition(";")[0].strip() == _HTML and "content-encoding" not in known


def with_links(page: bytes, prefix: str) -> bytes:
    """Return a page whose links to paths of its server lead to paths below the prefix."""

    def below(found: "re.Match[bytes]") -> bytes:
        return _LINK.sub(lambda link: link[1] + prefix.encode() + link[2], found[0])

    return _TAG.sub(below, page)
