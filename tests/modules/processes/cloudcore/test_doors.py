"""Who is let in by the page and the API, each check alone."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.testing import Harness
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.identities.known import NOT_YET
from modules.page.shells import ShellTarget
from modules.processes.cloudcore.api_tokens import ApiTokens
from modules.processes.cloudcore.page_doors import UserDoor
from modules.processes.cloudcore.page_port import UserEntrance
from modules.processes.cloudcore.page_users import EmbeddedUsers
from modules.processes.cloudcore.sign_ins import SignIns


@pytest.mark.parametrize(
    ("refused", "asked"), [("", ["create", "get"]), ("get", ["create", "get"]), ("create", ["create"])]
)
def test_a_shell_is_for_those_who_may_both_create_and_get_it(refused: str, asked: list[str]) -> None:
    verbs = list[str]()

    def refusal(access: Any) -> str:
        verbs.append(access.verb)
        return "no" if access.verb == refused else ""

    door = UserDoor("alice", refusal, Mock(), Mock())
    if refused:
        with pytest.raises(HttpStatusError):
            door.check(ShellTarget("ns", "p", "app"))
    else:
        door.check(ShellTarget("ns", "p", "app"))
    assert verbs == asked


@pytest.mark.parametrize("code", [401, 403, 503])
def test_only_credentials_that_are_refused_are_nobody(code: int) -> None:
    """An API server that knows nothing yet refuses nobody."""
    authenticator = Mock(**{"user.side_effect": ApiStatusError(code, "of this test")})
    users = EmbeddedUsers(cast("Any", SimpleNamespace(authenticator=authenticator)))
    if code == 401:
        assert users.user(Mock(authorization="", certificate=None)) is None
    else:
        with pytest.raises(HttpStatusError) as caught:
            users.user(Mock(authorization="", certificate=None))
        assert caught.value.status == code


@pytest.mark.parametrize(
    ("site", "token", "enters"),
    [("same-origin", "", True), ("", "", False), ("cross-site", "", False), ("", "t", True)],
)
def test_only_the_page_itself_asks_for_a_certificate(site: str, token: str, *, enters: bool) -> None:
    """A browser adds it to the request of any site."""
    entrance = UserEntrance(Mock(), Mock(), Mock(), Mock())
    entrance._begun = Mock(return_value="session")  # type: ignore[method-assign]
    headers = (("sec-fetch-site", site),) if site else ()
    request = Request(method="POST", target="/page/v1/session", parts=(), headers=headers)
    if enters:
        assert entrance.enter(request, token) == "session"
    else:
        with pytest.raises(HttpStatusError, match="only the page itself"):
            entrance.enter(request, token)


@pytest.mark.parametrize(
    ("ends", "why", "code"),
    [
        ("Nov 19 00:00:00 2026 GMT", "", 401), ("Nov 21 00:00:00 2026 GMT", "", 0), ("", "revoked", 401),
        ("", NOT_YET, 503), ("", "", 0),
    ],
)  # fmt: skip
def test_a_certificate_is_looked_at_with_each_request(ends: str, why: str, code: int) -> None:
    """By the clock on the wall: a session may outlive it."""
    clock = SimpleNamespace(now=lambda: 1795132800.0, monotonic=lambda: 5.0)
    tokens = SimpleNamespace(_clock=clock, _identities=SimpleNamespace(refusal=lambda _: why))
    if code:
        with pytest.raises(ApiStatusError) as caught:
            ApiTokens._check(cast("Any", tokens), {"notAfter": ends})
        assert caught.value.code == code
    else:
        ApiTokens._check(cast("Any", tokens), {"notAfter": ends})


def test_sign_ins_are_in_the_audit_log_with_their_end() -> None:
    ended = list[int]()
    audit = Mock(**{"begin.side_effect": lambda _: SimpleNamespace(end=ended.append)})
    with Harness() as bee:
        signs = SignIns(bee.clock, lambda _: None, audit)
        request = Request(method="POST", target="/page/v1/session", parts=())
        signs.succeeded(request, "token", "alice")
        signs.refused(request, "token", "system:anonymous")
    assert ended == [200, 401]
