"""The page on the secure port: for the users of the Kubernetes API, with the rights that RBAC gives them.

One picture of the fleet serves all sessions. A user sees the parts of it that the user may list, which is looked up for
each request; the story of a pod and its logs are read with the user's own credentials. The credentials of a session are
checked again with each request, so a session ends with its token, its certificate and its user.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.http.errors import HttpStatusError
from beehive.http.forwarding import Fields
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream, Takeover
from beehive.http.router import HttpService
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.access.service import Authenticates, forbidden
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.rules import AccessRequest
from modules.page.api import About, FleetApi
from modules.page.devices import DeviceReader
from modules.page.feeds import Feeds
from modules.page.picture import Picture
from modules.page.pod_story import PodStories
from modules.page.service import HTTPS, Entrance, PageApi, PageService
from modules.page.sessions import Sessions
from modules.page.shells import EXEC, ClosedDoor, ShellDoor, ShellTarget
from modules.page.sight import Refusal
from modules.processes.cloudcore.in_process_client import (
    Credentials,
    InProcessClient,
    InProcessControl,
    LocalPeer,
    request_of,
)
from modules.processes.cloudcore.page_command import ControlLinks
from modules.processes.cloudcore.pod_client import PodClient
from modules.processes.common.page_shell import shell_url
from modules.processes.common.version import VERSION
from modules.tools.kubectl.rest import status_error

_PROGRAM: Final = "cloudcore"
_ALLOWS: Final = "cloudcore run --page --page-allow exec"


class Doors(NamedTuple):
    """The checks and services behind the page on the secure port."""

    authenticator: Authenticates
    allowed: Callable[[User, AccessRequest], object | None]
    """Returns the grant that allows a request of a user who is no administrator, or None."""
    of_users: HttpService
    """The Kubernetes API as users have it, with their credentials."""
    of_cloudcore: HttpService
    """The same for cloudcore itself, with cloudcore's own paths."""


class PagePort(HttpService):
    """Serves the page below `/page`, and all else of the secure port as without it (`HttpService`).

    Args:
        doors: the Kubernetes API.
        names: of this server, as its certificate has them.
        port: returns the port, which is known when it is listened on.
        clock: for ages and sessions.
        allowed: what the page may do beside reading, with its users' rights.
    """

    def __init__(
        self, doors: Doors, names: Iterable[str], port: Callable[[], int], clock: Clock, allowed: Sequence[str] = ()
    ) -> None:
        self._peer = peer = LocalPeer()
        own = InProcessClient(doors.of_cloudcore, Credentials(), peer)
        source = ControlLinks(InProcessControl(doors.of_cloudcore, Credentials()))
        picture, devices = Picture(clock.now, _PROGRAM), DeviceReader(own, clock)
        feeds = Feeds(picture, own, source, devices, clock)

        def api_of(user: User, credentials: Credentials) -> FleetApi:
            about = About(f"port {port()}", VERSION, _PROGRAM, user=user.name, allowed=allowed)
            stories = PodStories(_PROGRAM, InProcessClient(doors.of_users, credentials, peer))

            def refusal(asked: AccessRequest) -> str:
                is_allowed = user.is_administrator or doors.allowed(user, asked) is not None
                return "" if is_allowed else forbidden(user.name, asked).message

            door = UserDoor(user.name, refusal, doors.of_users, credentials) if EXEC in allowed else ClosedDoor(_ALLOWS)
            return FleetApi(picture, feeds, stories, devices, source, about, clock.now, refusal=refusal, door=door)

        self._feeds = feeds
        entrance = UserEntrance(doors, Sessions(clock), api_of)
        self._service = PageService(entrance, hosts_of(names, port()), clock, HTTPS)

    def serve(self, request: Request) -> Reply:
        """Return the reply to a request below `/page`."""
        return self._service.serve(request)

    def close(self) -> None:
        """End the feeds."""
        self._feeds.stop()
        self._peer.close()


class UserEntrance(Entrance):
    """Lets users in by a bearer token or a client certificate of the secure port; nodes are refused.

    Args:
        doors: the Kubernetes API.
        sessions: the keys.
        api_of: returns what answers a user with some credentials.
    """

    hint = "sign in again"

    def __init__(self, doors: Doors, sessions: Sessions, api_of: Callable[[User, Credentials], PageApi]) -> None:
        self._doors = doors
        self._sessions = sessions
        self._api_of = api_of

    def enter(self, request: Request, token: str) -> str:
        """See `Entrance`. A certificate is asked for by the page itself only."""
        if not token and request.header("sec-fetch-site") != "same-origin":
            raise HttpStatusError(403, "only the page itself may ask this")
        credentials = Credentials(f"Bearer {token}") if token else Credentials(certificate=request.certificate)
        user = self._user(credentials)
        return self._sessions.begin(credentials, user.name) if user is not None else ""

    def api(self, key: str, *, is_use: bool = True) -> PageApi | None:
        """See `Entrance`."""
        credentials = self._sessions.credentials(key, is_use=is_use)
        if not isinstance(credentials, Credentials):
            return None
        user = self._user(credentials)
        if user is None:
            self._sessions.end(key)
            return None
        return self._api_of(user, credentials)

    def leave(self, key: str) -> None:
        """See `Entrance`."""
        self._sessions.end(key)

    def _user(self, credentials: Credentials) -> User | None:
        """Return the user of credentials, None for none. Raise HttpStatusError if it is not known who that is."""
        try:
            user = self._doors.authenticator.user(request_of("GET", "/page/", credentials))
        except ApiStatusError as error:
            if error.code == HTTPStatus.UNAUTHORIZED:
                return None
            raise HttpStatusError(error.code, error.message) from error
        return None if user is None or user.node else user


class UserDoor(ShellDoor):
    """Leads a user to containers, who needs the rights to `create` and, as for `kubectl exec`, to `get` pods/exec.

    Args:
        user: the user's name.
        refusal: the user's rights.
        api: the Kubernetes API.
        credentials: of the user.
    """

    def __init__(self, user: str, refusal: Refusal, api: HttpService, credentials: Credentials) -> None:
        self.user = user
        self._refusal = refusal
        self._api = api
        self._credentials = credentials

    def check(self, where: ShellTarget) -> None:
        """See `ShellDoor`. A WebSocket is a GET, which must not let in who may only read (kube-apiserver from 1.35)."""
        for verb in ("create", "get"):
            asked = AccessRequest(
                verb=verb, resource="pods", subresource=EXEC, namespace=where.namespace, name=where.pod
            )
            if why := self._refusal(asked):
                raise HttpStatusError(403, why)

    def open(self, where: ShellTarget, fields: Fields) -> socket.socket:
        """See `ShellDoor`."""
        target = shell_url(PodClient(Path("this process")), where)
        request = request_of("GET", target, self._credentials, fields=fields)
        reply = self._api.serve(request)
        if isinstance(reply, Response):
            raise status_error(reply.status, reply.body)
        if isinstance(reply, Stream):
            reply.done()
            raise HttpStatusError(502, "the answer is no stream for a browser")
        ours, theirs = socket.socketpair()
        threading.Thread(target=_carry_on, args=(reply, theirs), name="page-shell", daemon=True).start()
        return ours


def _carry_on(reply: Takeover, connection: socket.socket) -> None:
    """Serve a stream of the API, until it or the shell ends."""
    with connection, contextlib.suppress(OSError):
        try:
            reply.carry_on(connection)
        finally:
            reply.done()


def hosts_of(names: Iterable[str], port: int) -> list[str]:
    """Return the valid headers `Host` for some names of a server; browsers leave the port of HTTPS out."""
    known = [f"[{name}]" if ":" in name else name for name in (*names, "localhost", "127.0.0.1")]
    return [f"{name}:{port}" for name in known] + (known if port == 443 else [])
