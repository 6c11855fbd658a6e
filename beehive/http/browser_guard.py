"""Protection of addresses without credentials from pages in browsers."""

import ipaddress
from collections.abc import Iterable

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.router import Admitted, AdmittingService, HttpService, admit

OTHER_SITE = "a page of another site may not use the certificate of its reader's browser"
_LOCAL = "localhost"
_ORIGIN_OF_CLIENTS = "http://localhost"


def is_from_page(request: Request, names: Iterable[str] = ()) -> bool:
    """Return whether a page in a browser may have sent the request.

    Either the browser says so, or DNS rebinding shows in `Host`: a foreign name, which its owner's DNS gave this
    machine's address; `localhost`, an address and the node's own `names` are not foreign.
    """
    host = request.header("host")
    name = host.rpartition(":")[0] if ":" in host.rpartition("]")[2] else host
    name = name.lower().removesuffix(".")
    known = name in ("", _LOCAL) or _is_address(name.removeprefix("[").removesuffix("]"))
    return is_sent_by_page(request) or not (known or name in {each.lower() for each in names})


def is_sent_by_page(request: Request) -> bool:
    """Return whether a browser states that it sends the request for a page.

    Scripts of other sites send `Origin`, and a library may (`_is_of_library`). An image or a link of a page has none;
    for these browsers say with `Sec-Fetch-Site` that it is not the address that somebody has typed (Fetch Metadata).
    """
    is_of_page = bool(request.header("origin")) and not _is_of_library(request)
    return is_of_page or request.header("sec-fetch-site") not in ("", "none")


def is_sent_by_another_site(request: Request) -> bool:
    """Return whether a browser states that it sends the request for a page of another site than this server's.

    A browser presents its reader's client certificate with such a request, too.
    """
    is_foreign = bool(request.header("origin")) and not _is_of_server(request) and not _is_of_library(request)
    return is_foreign or request.header("sec-fetch-site") in ("cross-site", "same-site")


def _is_of_server(request: Request) -> bool:
    return request.header("origin").rpartition("/")[2] == request.header("host")


def _is_of_library(request: Request) -> bool:
    """Return whether the `Origin` is one that libraries of websockets send of their own accord, and no browser's.

    It is the server's (websocket-client, and so Kubernetes' client for Python), or `http://localhost`, as
    golang.org/x/net/websocket for clients of Kubernetes. Browsers send no `Sec-Fetch-Site` with a WebSocket (Chromium
    150), so that its absence proves nothing: they are known by what all of them send, and scripts cannot leave out.
    """
    if not _is_of_server(request) and request.header("origin") != _ORIGIN_OF_CLIENTS:
        return False
    return not (
        request.header("user-agent").startswith("Mozilla/")
        or bool(request.header("accept-language"))
        or any(name.startswith(("sec-fetch-", "sec-ch-")) for name, _ in request.headers)
    )


class BrowserGuard(AdmittingService):
    """A guard that refuses requests of pages in browsers, and passes all others to another `HttpService`.

    A page may send requests to its own machine, and reads the answers when its own host name resolves
    to that machine (DNS rebinding).

    Args:
        service: serves the other requests.
        names: host names of the node, allowed in `Host`.
    """

    def __init__(self, service: HttpService, names: Iterable[str]) -> None:
        self._service = service
        self._names = frozenset(names)

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`. Raise HttpStatusError with 403 for a request that may come from a page."""
        if is_from_page(request, self._names):
            hint = f"ask by an address, localhost or {', '.join(sorted(self._names))}"
            raise HttpStatusError(403, "pages of browsers are not served, nor other names of this server", hint=hint)
        return admit(self._service, request)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
