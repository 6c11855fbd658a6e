"""The Kubernetes API over plain HTTP on the loopback interface: programs of this machine only, no web pages."""

from typing import Final

from beehive.http.browser_guard import is_sent_by_page
from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.router import Admitted, AdmittingService, HttpService, admit
from modules.apimachinery.errors import ApiStatusError

_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


class LoopbackService(AdmittingService):
    """A service that refuses requests that a browser makes for a web page, and those as another user (`HttpService`).

    Every client that can connect is an administrator. So a web page must not reach the port through its reader's
    browser: neither under a host name that resolves to 127.0.0.1, nor across origins. `kubectl proxy` refuses foreign
    hosts likewise.

    Args:
        administrators: the service behind it.
    """

    def __init__(self, administrators: HttpService) -> None:
        self._administrators = administrators

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`."""
        if not is_local(request.header("host")):
            return ApiStatusError(403, "this port is served under the names localhost and 127.0.0.1 only").response()
        if is_sent_by_page(request):
            return ApiStatusError(403, "this port is not for web pages").response()
        if any(name.startswith("impersonate-") for name, _ in request.headers):
            why = "everybody may do everything at this port, and nobody is another user: ask the secure port"
            return ApiStatusError(403, why).response()
        return admit(self._administrators, request)


def is_local(host: str) -> bool:
    """Return whether a `Host` header names the loopback interface, with any port."""
    name, colon, port = host.rpartition(":")
    return host in _HOSTS or (bool(colon) and port.isdecimal() and name in _HOSTS)
