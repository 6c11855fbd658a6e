"""Who may call, which of a request reaches a node, and what callers get of its answer."""

from typing import Any

import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, text
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.coordination.known_cloudcores import CLOUDCORES_ORGANIZATION
from modules.cloud.identities.known import NOT_YET
from modules.cloud.router.callers import CALLERS, AuthenticatedCallers, Callers, LoopbackCallers
from modules.cloud.router.rest_service import (
    NODE_HEADER,
    SECONDS_HEADER,
    RestAnswer,
    RestCall,
    RestService,
    response_of,
)


def certificate(*organizations: str) -> dict[str, Any]:
    """A client certificate, as TLS returns it."""
    names = [("commonName", "c1"), *(("organizationName", each) for each in organizations)]
    return {"subject": tuple((name,) for name in names)}


CLOUDCORE = certificate(CLOUDCORES_ORGANIZATION)
HOST = ("host", "127.0.0.1:9443")


def request(*headers: tuple[str, str], method: str = "GET", of: Any = None, target: str = "/n1/cap/a") -> Request:
    return Request(method=method, target=target, parts=("n1", "cap", "a"), headers=(HOST, *headers), certificate=of)


class Nobody:
    """Lets no caller in (`Callers`)."""

    def check(self, _request: Request, _api: object) -> None:
        """Refuse."""
        raise ApiStatusError(401, "Unauthorized")


class Carol:
    """Knows one user, by any credentials (`Authenticator`)."""

    def __init__(self, *groups: str) -> None:
        self._groups = groups

    def user(self, asked: Request) -> User | None:
        """Return the user, if there are credentials."""
        return User("carol", groups=self._groups) if asked.header("authorization") else None


def authenticated(*groups: str) -> AuthenticatedCallers:
    found: Any = Carol(*groups)
    return AuthenticatedCallers(found)


class Refusing:
    """Knows why a certificate is refused (`KnownIdentities`)."""

    def __init__(self, why: str) -> None:
        self._why = why

    def refusal(self, of: Any) -> str:
        """Return why, of any certificate."""
        return self._why if of else ""


def api(_call: ApiCall) -> ApiResult:
    raise AssertionError("nobody asks the API server")


def admitted(callers: Callers, asked: Request, known: Any = None) -> int:
    """The status of the refusal; 0 without one."""
    try:
        RestService(callers, lambda _: RestAnswer(200, b""), api, known).admit(asked)
    except HttpStatusError as refusal:
        return refusal.status
    return 0


@pytest.mark.parametrize(
    ("callers", "asked", "status"),
    [
        (Nobody(), request(of=CLOUDCORE), 0),
        (Nobody(), request(of=certificate(CLOUDCORES_ORGANIZATION, "other")), 401),
        (Nobody(), request(of=certificate()), 401),
        (LoopbackCallers(), request(), 0),
        (LoopbackCallers(), request(("sec-fetch-site", "same-origin")), 403),
        (LoopbackCallers(), Request(method="GET", target="/", parts=(), headers=(("host", "evil.example"),)), 403),
        (authenticated(CALLERS), request(("authorization", "Bearer t")), 0),
        (authenticated(ADMINISTRATORS), request(("authorization", "Bearer t")), 0),
        (authenticated("other"), request(("authorization", "Bearer t")), 403),
        (authenticated(CALLERS), request(), 401),
        (authenticated(CALLERS), request(("origin", "https://evil.example")), 403),
        (authenticated(CALLERS), request(("origin", "https://evil.example"), ("authorization", "Bearer t")), 0),
        (authenticated(CALLERS), request(("origin", "https://evil.example"), ("authorization", "Basic eDp5")), 403),
        (
            authenticated(CALLERS),
            request(("origin", "https://evil.example"), ("authorization", "Bearer t"), of=certificate("x", "carol")),
            403,
        ),
    ],
)
def test_who_may_call(callers: Callers, asked: Request, status: int) -> None:
    """Administrators, members of the group, other cloudcores; no page by its reader's certificate."""
    assert admitted(callers, asked) == status


@pytest.mark.parametrize(("why", "status"), [("it was revoked", 401), (NOT_YET, 503)])
def test_a_refused_certificate_is_refused_before_anything_else(why: str, status: int) -> None:
    assert admitted(LoopbackCallers(), request(of=CLOUDCORE), Refusing(why)) == status
    assert admitted(LoopbackCallers(), request(), Refusing(why)) == 0


class Streams:
    """Serves other cloudcores (`PassedStreams`)."""

    def reply(self, node: str, _request: Request) -> Response:
        """Name the node."""
        return text(200, f"streams of {node}")


def served(asked: Request) -> tuple[Response, list[RestCall]]:
    """The response to an admitted request, and what the router was asked."""
    calls: list[RestCall] = []

    def ask(call: RestCall) -> RestAnswer:
        calls.append(call)
        return RestAnswer(200, b"done")

    response = RestService(LoopbackCallers(), ask, api, None, Streams()).serve(asked)
    assert isinstance(response, Response)
    return response, calls


INTERNAL = ((SECONDS_HEADER, "2.5"), ("x-mine", "1"), ("authorization", "Bearer t"))


@pytest.mark.parametrize(("of", "seconds"), [(None, None), (certificate("other"), None), (CLOUDCORE, 2.5)])
def test_no_credentials_reach_a_node_and_only_a_cloudcore_sets_the_time(of: Any, seconds: float | None) -> None:
    _, calls = served(request(*INTERNAL, (NODE_HEADER, "n2"), of=of) if of is None else request(*INTERNAL, of=of))
    assert [(each.headers, each.seconds) for each in calls] == [((("x-mine", "1"),), seconds)]


def test_streams_of_a_node_are_only_for_other_cloudcores() -> None:
    response, calls = served(request((NODE_HEADER, "n2"), of=CLOUDCORE))
    assert (response.body, calls) == (b"streams of n2", [])
    assert len(served(request((NODE_HEADER, "n2"), of=certificate("other")))[1]) == 1


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request(method="TRACE"), 405),
        (request(("upgrade", "websocket")), 501),
        (request(target="/n1/cap"), 400),
        (request(target="/n1/cap/%2e%2e/a"), 400),
    ],
)
def test_what_is_no_call_of_a_node_reaches_none(asked: Request, status: int) -> None:
    response, calls = served(asked)
    assert (response.status, calls) == (status, [])


def test_a_node_s_page_runs_no_code_and_sets_no_cookie() -> None:
    """All nodes answer from one host: a page of one would read the others' with the caller's rights."""
    told = (
        ("Content-Type", "text/html"),
        ("Set-Cookie", "session=1; Path=/"),
        ("content-security-policy", "default-src *"),
        ("X-Content-Type-Options", ""),
        ("X-Mine", "1"),
    )
    response = response_of(RestAnswer(200, b"<script>", told))
    assert (response.status, response.content_type, response.body) == (200, "text/html", b"<script>")
    assert response.headers == (
        ("X-Mine", "1"),
        ("Content-Security-Policy", "sandbox"),
        ("X-Content-Type-Options", "nosniff"),
    )
    assert response_of(RestAnswer(204, b"nothing")).body == b""
