"""Which tokens are accepted, and until when."""

import base64
import json
from typing import Any

import msgspec
import pytest

from beehive.decoding import convert
from beehive.trace.redact import Redactor
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.tokens.claims import AccountClaims, BoundObjects
from modules.cloud.apiserver.tokens.signing_keys import SIGNS_FOR
from modules.cloud.apiserver.tokens.verification import ServiceAccountTokens, refuses_none
from modules.cloud.authentication.settings import ServiceAccountSettings
from modules.cloud.client.calls import ApiCall
from tests.modules.cloud.apiserver.tokens.accounts import ISSUER, Accounts, payload_of
from tests.support.presence import present

DAY = 24 * 3600


def test_a_token_is_its_accounts_user(accounts: Accounts) -> None:
    found = present(accounts.user(accounts.token(kind="Pod", of="web")))
    user = found.user
    assert (user.name, user.uid) == ("system:serviceaccount:default:app", accounts.uid("ServiceAccount", "app"))
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:default")
    extra = {name.rpartition("/")[2]: values[0] for name, values in user.extra}
    assert extra.pop("credential-id").startswith("JTI=")
    uids = {"pod-uid": accounts.uid("Pod", "web"), "node-uid": accounts.uid("Node", "n1")}
    assert extra == {"node-name": "n1", "pod-name": "web", **uids}
    assert found.audiences == (ISSUER,)


def test_a_token_expires(accounts: Accounts) -> None:
    token = accounts.token(expirationSeconds=600)
    accounts.clock.jump_wall(599)
    assert accounts.user(token) is not None
    accounts.clock.jump_wall(1)
    assert accounts.user(token) is None


def test_a_token_of_a_clock_that_is_ahead_is_accepted_for_a_minute(accounts: Accounts) -> None:
    token = accounts.token()
    accounts.clock.jump_wall(-60)
    assert accounts.user(token) is not None
    accounts.clock.jump_wall(-1)
    assert accounts.user(token) is None


@pytest.mark.parametrize(
    ("bound", "gone"),
    [
        (("", ""), ("ServiceAccount", "app")),
        (("Pod", "web"), ("ServiceAccount", "app")),
        (("Pod", "web"), ("Pod", "web")),
        (("Secret", "key"), ("Secret", "key")),
        (("Node", "n1"), ("Node", "n1")),
    ],
)
def test_a_token_ends_with_its_objects(accounts: Accounts, bound: tuple[str, str], gone: tuple[str, str]) -> None:
    """It does not live on with another object of the same name."""
    token = accounts.token("app", *bound)
    assert accounts.user(token) is not None
    live = accounts.cluster.storage.get(next(key for key in accounts.cluster.storage if (key.kind, key.name) == gone))
    accounts.delete(*gone)
    assert accounts.user(token) is None
    metadata = {name: live["metadata"][name] for name in ("name", "namespace") if name in live["metadata"]}
    accounts.create({**live, "metadata": metadata})
    assert accounts.user(token) is None, "another uid"


def test_the_node_of_a_pod_may_go(accounts: Accounts) -> None:
    token = accounts.token(kind="Pod", of="web")
    accounts.delete("Node", "n1")
    assert accounts.user(token) is not None


def test_a_pod_that_is_being_deleted_has_its_token_until_the_end_and_a_minute(accounts: Accounts) -> None:
    token = accounts.token(kind="Pod", of="web", expirationSeconds=3600)
    key = next(key for key in accounts.cluster.storage if (key.kind, key.name) == ("Pod", "web"))
    accounts.cluster.delete(key, 30)
    accounts.clock.jump_wall(90)
    assert accounts.user(token) is not None
    accounts.clock.jump_wall(1)
    assert accounts.user(token) is None


def test_a_token_is_for_its_audiences(accounts: Accounts) -> None:
    token = accounts.token(audiences=["vault", "db"])
    assert accounts.user(token) is None, "the API server is not among them"
    assert present(accounts.user(token, "other", "db")).audiences == ("db",)
    assert accounts.user(accounts.token(), "db") is None


def test_tokens_of_others_are_not_accepted(accounts: Accounts) -> None:
    other = Accounts()
    assert accounts.user(other.token()) is None, "another key"
    renamed = Accounts(ServiceAccountSettings("https://other"))
    renamed.issuer, renamed.store = accounts.issuer, accounts.store
    assert renamed.user(renamed.token()) is None, "another issuer"


def _changed(token: str, part: int, change: dict[str, Any]) -> str:
    parts = token.split(".")
    text = base64.urlsafe_b64decode(parts[part] + "=" * (-len(parts[part]) % 4))
    changed = json.dumps({**json.loads(text), **change}).encode()
    parts[part] = base64.urlsafe_b64encode(changed).rstrip(b"=").decode()
    return ".".join(parts)


def test_a_changed_token_is_not_accepted(accounts: Accounts) -> None:
    token = accounts.token()
    head, payload, signature = token.split(".")
    forged = [
        _changed(token, 1, {"sub": "system:serviceaccount:kube-system:default"}),
        _changed(token, 1, {"exp": payload_of(token)["exp"] + DAY}),
        _changed(token, 0, {"alg": "none"}),
        _changed(token, 0, {"alg": "HS256"}),
        _changed(token, 0, {"kid": "other"}),
        _changed(token, 0, {"crit": ["x"]}),
        f"{head}.{payload}.",
        f"{head}.{payload}",
        f"{head}.{payload}.{signature[:-4]}AAAA",
        f"{head}.{payload}.{signature}=",
        f"{head}.{payload}.{signature}.",
        f"{head}. {payload}.{signature}",
        "a" * 100_000,
        "",
        "é.é.é",
    ]
    assert [each[:20] for each in forged if accounts.user(each) is not None] == []


def test_a_token_of_a_retired_key_is_accepted_until_it_expires(accounts: Accounts) -> None:
    accounts.token()
    accounts.clock.jump_wall(SIGNS_FOR - 1)
    long, short = accounts.token(expirationSeconds=365 * DAY), accounts.token()
    accounts.clock.jump_wall(1)
    new = accounts.token()
    assert new.split(".")[0] != long.split(".")[0]
    assert all(accounts.user(each) is not None for each in (long, short, new))
    accounts.clock.jump_wall(DAY)
    assert (accounts.user(long) is not None, accounts.user(short)) == (True, None)
    assert not any(b"PRIVATE" in key.pem for key in accounts.store.signing_keys() if key.retired)


def test_no_token_is_in_a_trace(accounts: Accounts) -> None:
    """Neither an answered TokenRequest's nor that of a node's TokenReview on the bus."""
    token = accounts.token()
    review = ApiCall(
        verb="create", api_version="authentication.k8s.io/v1", plural="tokenreviews", body={"spec": {"token": token}}
    )
    for content in (accounts.request(), review):
        recorded = Redactor(key=b"k" * 32).json(msgspec.json.encode(content))
        assert b"redacted:" in recorded
        assert token.split(".")[1].encode() not in recorded
        assert b"eyJ" not in recorded, "the beginning of each token"


class Server:
    """The API server, as connections ask it."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self.questions = 0
        self.is_away = False
        self.seconds = 0.0
        """That a question takes."""
        self.lost: list[BoundObjects] = []

    def token_keys(self) -> dict[str, bytes]:
        self.questions += 1
        if self.seconds:
            self.accounts.clock.fire_next(self.accounts.clock.monotonic() + self.seconds)
        if self.is_away:
            raise ApiStatusError(503, "away")
        return self.accounts.issuer.public_keys()

    def is_void(self, claims: AccountClaims) -> bool:
        return claims.bound in self.lost


def test_a_connection_asks_for_unknown_keys_once_a_second(accounts: Accounts) -> None:
    server = Server(accounts)
    tokens = ServiceAccountTokens(accounts.settings, server, accounts.clock, refuses_none)
    token = accounts.token()
    assert [tokens.authenticate(token, ()) is not None for _ in range(3)] == [True] * 3
    assert server.questions == 1
    foreign = Accounts().token()
    assert tokens.authenticate(foreign, ()) is None
    assert tokens.authenticate("no token", ()) is None
    assert server.questions == 1, "anybody can send unknown ids"
    accounts.clock.fire_next(1.0)
    server.is_away = True
    for _ in range(2):
        with pytest.raises(ApiStatusError):
            tokens.authenticate(foreign, ())
    assert server.questions == 2, "no more often while it does not answer"
    assert tokens.authenticate(token, ()) is not None


def test_no_valid_token_is_refused_before_the_keys_are_known(accounts: Accounts) -> None:
    """After a restart of cloudcore, with an API server that loads: its clients would take 401 for the end of their
    tokens. However long it does not answer, it is asked again a second later.
    """
    server = Server(accounts)
    server.is_away, server.seconds = True, 30.0
    tokens = ServiceAccountTokens(accounts.settings, server, accounts.clock, refuses_none)
    token = accounts.token()
    for _ in range(2):
        with pytest.raises(ApiStatusError):
            tokens.authenticate(token, ())
    assert server.questions == 1
    server.is_away, server.seconds = False, 0.0
    accounts.clock.fire_next(accounts.clock.monotonic() + 1.0)
    assert tokens.authenticate(token, ()) is not None


def test_a_connection_asks_about_the_objects_each_time(accounts: Accounts) -> None:
    server = Server(accounts)
    tokens = ServiceAccountTokens(accounts.settings, server, accounts.clock, refuses_none)
    token = accounts.token(kind="Pod", of="web")
    assert tokens.authenticate(token, ()) is not None
    server.lost = [convert(payload_of(token)["kubernetes.io"], BoundObjects)]
    assert tokens.authenticate(token, ()) is None


def test_the_tokens_of_the_pods_of_a_refused_node_are_refused_from_then_on(accounts: Accounts) -> None:
    """A token that was accepted too; the same account's token without a pod is not the node's."""
    refused: set[tuple[str, float]] = set()
    tokens = ServiceAccountTokens(
        accounts.settings, Server(accounts), accounts.clock, lambda node, issued_at: (node, issued_at) in refused
    )
    of_pod, free = accounts.token(kind="Pod", of="web"), accounts.token()
    for is_refused in (False, True):
        assert [tokens.authenticate(each, ()) is None for each in (of_pod, free)] == [is_refused, False]
        assert [tokens.is_refused(each) for each in (of_pod, free)] == [is_refused, False]
        refused.add(("n1", payload_of(of_pod)["iat"]))
    accounts.clock.jump_wall(DAY)
    assert tokens.is_refused(of_pod), "a connection that outlives its token ends, too"
