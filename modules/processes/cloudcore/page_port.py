"""The page on a port of cloudcore: for the users of the Kubernetes API, with the rights that they have there.

One picture of the fleet serves all sessions. A user sees the parts of it that the user may list, which is looked up for
each request; the story of a pod and its logs are read with the user's own credentials. The credentials of a session are
checked again with each request, so a session ends with its token, its certificate and its user.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from beehive.clock import Clock
from beehive.http.authority import bracketed
from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Reply
from beehive.http.router import Admitted, AdmittingService, HttpService
from modules.cloud.authentication.oidc.code_flow import CodeFlow, SignInCode
from modules.cloud.authentication.users import ANONYMOUS, user_of_certificate
from modules.page.api import About, FleetApi, WatchedFleet
from modules.page.pod_story import PodStories
from modules.page.service import HTTPS, Entrance, PageApi, PageService, SignInAnswer, no_provider
from modules.page.sessions import Sessions
from modules.processes.cloudcore.in_process_client import Credentials, InProcessClient, InProcessControl, LocalPeer
from modules.processes.cloudcore.page_command import ControlLinks
from modules.processes.cloudcore.page_users import PageUser, PageUsers
from modules.processes.cloudcore.sign_ins import SignIns
from modules.processes.common.version import VERSION

_PROGRAM: Final = "cloudcore"


class PagePort(AdmittingService):
    """The service of the page below `/page` (`HttpService`).

    Args:
        users: who may sign in.
        of_cloudcore: the Kubernetes API as cloudcore itself has it, with cloudcore's own paths.
        names: of this server, as its certificate has them.
        port: returns the port, which is known when it is listened on.
        clock: for ages and sessions.
        sign_ins: notes who signs in.
        allowed: what the page may do beside reading, with its users' rights.
        cloud: what the cloud is called; "" for no name.
    """

    def __init__(
        self,
        users: PageUsers,
        of_cloudcore: HttpService,
        names: Iterable[str],
        port: Callable[[], int],
        clock: Clock,
        sign_ins: SignIns,
        *,
        allowed: Sequence[str] = (),
        cloud: str = "",
    ) -> None:
        self._users = users
        self._peer = LocalPeer()
        own = InProcessClient(of_cloudcore, Credentials(), self._peer)
        source = ControlLinks(InProcessControl(of_cloudcore, Credentials()))
        fleet = WatchedFleet(own, source, clock, _PROGRAM, VERSION)

        def api_of(user: PageUser) -> FleetApi:
            about = About(cloud or f"port {port()}", VERSION, _PROGRAM, user=user.name, allowed=allowed)
            stories = PodStories(_PROGRAM, user.client)
            return FleetApi(
                fleet, stories, about, refusal=user.refusal, door=user.door, most_namespaces=user.most_namespaces
            )

        self._feeds = fleet.feeds
        entrance = UserEntrance(users, Sessions(clock), api_of, sign_ins)
        self._service = PageService(entrance, hosts_of(names, port()), clock, HTTPS)

    def admit(self, request: Request) -> Admitted | Reply:
        """See `AdmittingService`; of a request below `/page`."""
        return self._service.admit(request)

    def close(self) -> None:
        """End the feeds."""
        self._feeds.stop()
        self._peer.close()
        self._users.close()


class UserEntrance(Entrance):
    """The entrance for users with a bearer token or a client certificate; nodes are refused.

    Args:
        users: who may sign in.
        sessions: the keys.
        api_of: returns what answers a user.
        sign_ins: notes who signs in.
    """

    hint = "sign in again"

    def __init__(
        self, users: PageUsers, sessions: Sessions, api_of: Callable[[PageUser], PageApi], sign_ins: SignIns
    ) -> None:
        self._sign_ins = sign_ins
        self._users = users
        self._sessions = sessions
        self._api_of = api_of

    def enter(self, request: Request, token: str) -> str:
        """See `Entrance`. A certificate is asked for by the page itself only."""
        if not token and request.header("sec-fetch-site") != "same-origin":
            raise HttpStatusError(403, "only the page itself may ask this")
        credentials = Credentials(f"Bearer {token}") if token else Credentials(certificate=request.certificate)
        return self._begun(credentials, request, "token" if token else "certificate")

    def sign_in(self) -> bytes:
        """See `Entrance`."""
        return msgspec.json.encode(self._flow().sign_in())

    def come_back(self, request: Request, answer: SignInAnswer, redirect_uri: str) -> str:
        """See `Entrance`."""
        given = SignInCode(answer.code, answer.verifier, answer.nonce)
        credentials = Credentials(f"Bearer {self._flow().exchange(given, redirect_uri, request.address)}")
        return self._begun(credentials, request, "identity provider")

    def _flow(self) -> CodeFlow:
        if self._users.flow is None:
            raise no_provider()
        return self._users.flow

    def _begun(self, credentials: Credentials, request: Request, by: str) -> str:
        user = self._users.user(credentials)
        if user is None:
            certified = user_of_certificate(credentials.certificate)
            self._sign_ins.refused(request, by, certified.name if certified is not None else ANONYMOUS.name)
            return ""
        self._sign_ins.succeeded(request, by, user.name)
        return self._sessions.begin(credentials, user.name)

    def api(self, key: str, *, is_use: bool = True) -> PageApi | None:
        """See `Entrance`."""
        credentials = self._sessions.credentials(key, is_use=is_use)
        if not isinstance(credentials, Credentials):
            return None
        user = self._users.user(credentials)
        if user is None:
            self._sessions.end(key)
            return None
        return self._api_of(user)

    def leave(self, key: str) -> None:
        """See `Entrance`."""
        self._sessions.end(key)


def hosts_of(names: Iterable[str], port: int) -> list[str]:
    """Return the valid headers `Host` for some names of a server; browsers leave the port of HTTPS out."""
    known = [bracketed(name) for name in (*names, "localhost", "127.0.0.1")]
    return [f"{name}:{port}" for name in known] + (known if port == 443 else [])
