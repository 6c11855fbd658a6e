"""Whose share of streams a request takes: its user's, who is not free to choose it."""

import msgspec
import pytest

from beehive.http.connections import Client
from beehive.http.request import Request
from beehive.http.responses import Reply, json
from beehive.http.router import Admitted
from modules.cloud.apiserver.access.service import AccessService, UserAccess
from modules.cloud.authentication.users import ADMINISTRATORS, User
from modules.cloud.authorization.rbac.index import RbacIndex
from tests.modules.cloud.apiserver.endpoints.serving import not_asked

HEALTH = Request(method="GET", target="/healthz", parts=("healthz",), address="192.0.2.7")
"""Everybody may ask for it."""
_ACCOUNT = "system:serviceaccount:"


class Served:
    """Serves everything."""

    def serve(self, _request: Request) -> Reply:
        return json(b"{}")


class Known:
    """Knows one user, whatever the credentials look like; None: there are none."""

    def __init__(self, user: User | None) -> None:
        self._user = user

    def user(self, _request: Request) -> User | None:
        return self._user


def client_of(user: User | None, request: Request = HEALTH) -> Client | None:
    users = UserAccess(RbacIndex(), lambda _: Served())
    decided = AccessService(Known(user), Served(), lambda _: Served(), not_asked, users=users).admit(request)
    assert isinstance(decided, Admitted)
    return decided.client


@pytest.mark.parametrize(
    ("user", "client"),
    [
        (None, Client("192.0.2.7")),
        (User("alice"), Client("alice")),
        (User("root", groups=(ADMINISTRATORS,)), Client("root", is_privileged=True)),
        (User("system:node:n1", groups=("system:nodes",)), Client("system:node:n1", is_privileged=True)),
        (User("system:kube-scheduler"), Client("system:kube-scheduler", is_privileged=True)),
        (User(f"{_ACCOUNT}shop:a"), Client(f"{_ACCOUNT}shop")),
        (User(f"{_ACCOUNT}shop:b"), Client(f"{_ACCOUNT}shop")),
        (User(f"{_ACCOUNT}kube-system:a"), Client(f"{_ACCOUNT}kube-system:a", is_privileged=True)),
        (User(f"{_ACCOUNT}kube-systems:a"), Client(f"{_ACCOUNT}kube-systems")),
    ],
    ids=lambda each: each.name if each else "nobody",
)
def test_the_share_of_a_user(user: User | None, client: Client) -> None:
    assert client_of(user) == client


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_credentials_in_another_spelling_have_no_other_share(scheme: str) -> None:
    spelt = msgspec.structs.replace(HEALTH, headers=(("authorization", f"{scheme} token"),))
    assert client_of(User("alice"), spelt) == Client("alice")


def test_a_user_that_impersonates_others_takes_its_own_share() -> None:
    as_bob = (("impersonate-user", "bob"), ("impersonate-group", ADMINISTRATORS))
    asked = Request(method="GET", target="/api/v1/pods", parts=("api", "v1", "pods"), headers=as_bob)
    assert client_of(User("root", groups=(ADMINISTRATORS,)), asked) == Client("root", is_privileged=True)
