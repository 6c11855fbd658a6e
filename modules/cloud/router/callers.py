"""Authenticates the callers of nodes over HTTP, by the credentials of the Kubernetes API. Other cloudcores, which have
checked their callers, may call, too.
"""

from collections.abc import Callable
from typing import Final, Protocol

from beehive.http.browser_guard import is_sent_by_page
from beehive.http.request import Request
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.access.loopback_service import is_local
from modules.cloud.authentication.authenticator import Authenticator
from modules.cloud.authentication.users import user_of_certificate
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import CLOUDCORES_ORGANIZATION

CALLERS: Final = "kubeedge:router"
"""The group of users who may call nodes, beside administrators."""


CallApi = Callable[[ApiCall], ApiResult]
"""Makes an API call; blocks."""


class Callers(Protocol):
    """An authorizer of callers, on the threads of connections."""

    def check(self, request: Request, api: CallApi) -> None:
        """Return if the request may be served. Raise ApiStatusError if not."""


def is_cloudcore(request: Request) -> bool:
    """Return whether a cloudcore with a certificate of the same authority passes a request on. It is trusted: the
    holder of the authority's key could impersonate any node anyway.
    """
    user = user_of_certificate(request.certificate)
    return user is not None and user.groups == (CLOUDCORES_ORGANIZATION,)


class LoopbackCallers:
    """Programs of this machine, as at `--insecure-port`; no web pages (`Callers`)."""

    def check(self, request: Request, _api: CallApi) -> None:
        """Refuse requests that a browser sends for a web page."""
        if not is_local(request.header("host")):
            raise ApiStatusError(403, "this port is served under the names localhost and 127.0.0.1 only")
        if is_sent_by_page(request):
            raise ApiStatusError(403, "this port is not for web pages")


class AuthenticatedCallers:
    """Users of the embedded API server: administrators, and members of the group `kubeedge:router` (`Callers`).

    Args:
        authenticator: finds the user of a request by its certificate or token.
    """

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def check(self, request: Request, _api: CallApi) -> None:
        """Demand credentials, and the right."""
        user = self._authenticator.user(request)
        if user is None:
            raise ApiStatusError(401, "Unauthorized")
        if not user.is_administrator and CALLERS not in user.groups:
            why = f'User "{user.name[:253]}" is neither in the group {CALLERS} nor an administrator'
            raise ApiStatusError(403, f"calls of nodes are forbidden: {why}")
