"""The users of the page on a port of cloudcore: of the embedded API server, or of a cluster."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple, Protocol

from beehive.http.errors import HttpStatusError
from beehive.http.router import HttpService
from modules.apimachinery.errors import ApiStatusError
from modules.cli.rest import RestClient
from modules.cloud.apiserver.access.service import Authenticates, forbidden
from modules.cloud.authentication.oidc.code_flow import CodeFlow
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.page.shells import ClosedDoor, ShellDoor
from modules.page.sight import Refusal
from modules.processes.cloudcore.in_process_client import Credentials, InProcessClient, LocalPeer, request_of

_ALLOWS: Final = "cloudcore run --page --page-allow exec"


class PageUser(NamedTuple):
    """A user who has signed in."""

    name: str
    refusal: Refusal
    """The user's rights."""
    client: RestClient
    """The Kubernetes API with the user's own credentials."""
    door: ShellDoor
    most_namespaces: int = 0
    """Namespaces whose rights are looked up; 0: as many as the page does."""


class PageUsers(Protocol):
    """An authenticator that finds the users of credentials."""

    def user(self, credentials: Credentials) -> PageUser | None:
        """Return the user, None for none. Raise HttpStatusError if it is not known who that is."""

    @property
    def flow(self) -> CodeFlow | None:
        """Signs browsers in at an identity provider; None without one."""

    def close(self) -> None:
        """Release its resources."""


class Doors(NamedTuple):
    """The checks and services behind the page on the secure port."""

    authenticator: Authenticates
    allowed: Callable[[User, AccessRequest], object | None]
    """Returns the grant that allows a request of a user who is no administrator, or None."""
    of_users: HttpService
    """The Kubernetes API as users have it, with their credentials."""
    shell: Callable[[str, Refusal, HttpService, Credentials], ShellDoor] | None = None
    """Returns a user's way to containers; None: the page opens no shells."""


class EmbeddedUsers:
    """The users of the embedded API server, by RBAC (`PageUsers`). Nodes are none.

    Args:
        doors: the Kubernetes API.
        flow: signs browsers in at an identity provider.
    """

    def __init__(self, doors: Doors, flow: CodeFlow | None = None) -> None:
        self.flow = flow
        self._doors = doors
        self._peer = LocalPeer()

    def user(self, credentials: Credentials) -> PageUser | None:
        """See `PageUsers`."""
        try:
            found = self._doors.authenticator.user(request_of("GET", "/page/", credentials))
        except ApiStatusError as error:
            if error.code == HTTPStatus.UNAUTHORIZED:
                return None
            raise HttpStatusError(error.code, error.message) from error
        if found is None or found.node:
            return None

        def refusal(asked: AccessRequest) -> str:
            is_allowed = found.is_administrator or self._doors.allowed(found, asked) is not None
            return "" if is_allowed else forbidden(found.name, asked).message

        api, shell = self._doors.of_users, self._doors.shell
        door = ClosedDoor(_ALLOWS) if shell is None else shell(found.name, refusal, api, credentials)
        return PageUser(found.name, refusal, InProcessClient(api, credentials, self._peer), door)

    def close(self) -> None:
        """See `PageUsers`."""
        self._peer.close()
