"""Secrets of service accounts are filled, and go with their accounts, as by kube-controller-manager 1.32."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.limits import OBJECT_BYTES
from modules.cloud.apiserver.account_secrets import TYPE, keep_account_secrets, may_lack_token
from modules.cloud.apiserver.tokens.signing_keys import LONGEST_LIFE
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from tests.modules.cloud.apiserver.tokens.accounts import Accounts, payload_of
from tests.support.presence import present

AUTHORITY = "-----BEGIN CERTIFICATE-----"
SECRET = ObjectKey("Secret", "default", "login")
_OF = "kubernetes.io/service-account"


def of_account(account: str = "app", **fields: Any) -> JsonObject:
    metadata = {"name": "login", "namespace": "default", "annotations": {f"{_OF}.name": account, "a": "b"}}
    return {"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "type": TYPE, **fields}


def kept(accounts: Accounts, authority: str = AUTHORITY) -> JsonObject | None:
    keep_account_secrets(accounts.cluster, authority)
    return accounts.cluster.storage.find(SECRET)


def data_of(secret: JsonObject | None) -> dict[str, str]:
    assert secret is not None
    return {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}


@pytest.fixture
def accounts() -> Accounts:
    return Accounts()


def test_a_secret_has_a_token_of_its_account_that_does_not_expire(accounts: Accounts) -> None:
    accounts.create(of_account())
    secret = present(kept(accounts))
    assert secret["metadata"]["annotations"] == {
        f"{_OF}.name": "app",
        f"{_OF}.uid": accounts.uid("ServiceAccount", "app"),
        "a": "b",
    }
    data = data_of(secret)
    assert (data["ca.crt"], data["namespace"]) == (AUTHORITY, "default")
    assert "exp" not in payload_of(data["token"])
    for _ in range(2):
        assert present(accounts.user(data["token"])).user.name == "system:serviceaccount:default:app"
        accounts.clock.jump_wall(2 * LONGEST_LIFE)
        accounts.token()
    assert kept(accounts) == secret


def test_a_secret_that_has_no_room_for_a_token_keeps_no_other_waiting(
    accounts: Accounts, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody who may make Secrets can make one. The log says so once, and again if it had room meanwhile."""
    large = of_account(data={"a": base64.b64encode(bytes(1024 * 1024)).decode()})
    room = OBJECT_BYTES - len(msgspec.json.encode(large)) - 400
    large["metadata"] |= {"name": "large", "annotations": {**large["metadata"]["annotations"], "b": "b" * room}}
    for each in (large, of_account()):
        accounts.create(each)
    for _ in range(3):
        assert "token" in data_of(kept(accounts))
    assert caplog.text.count("is left as it is") == 1
    for data in (None, large["data"]):
        accounts.cluster.replace({**accounts.cluster.storage.get(key_of(large)), "data": data})
        kept(accounts)
    assert caplog.text.count("is left as it is") == 2


@pytest.mark.parametrize("gone", [("Secret", "login"), ("ServiceAccount", "app")])
def test_its_token_is_void_without_the_secret_or_the_account(accounts: Accounts, gone: tuple[str, str]) -> None:
    accounts.create(of_account())
    token = data_of(kept(accounts))["token"]
    accounts.delete(*gone)
    assert accounts.user(token) is None
    assert kept(accounts) is None, "it goes with its account"


@pytest.mark.parametrize("token", ["", "bWluZQ==", "4pi6"])
def test_a_token_that_is_taken_from_its_secret_is_void(accounts: Accounts, token: Any) -> None:
    """The next one takes its place."""
    accounts.create(of_account())
    first = data_of(kept(accounts))["token"]
    for data in ({"token": token}, {}):
        live = accounts.cluster.storage.get(SECRET)
        accounts.cluster.replace({**live, "data": data})
        assert accounts.user(first) is None
    second = data_of(kept(accounts))["token"]
    assert accounts.user(first) is None
    assert accounts.user(second) is not None


def test_a_secret_of_no_account_goes(accounts: Accounts) -> None:
    accounts.create(of_account("nobody"))
    assert kept(accounts) is None
    other = of_account()
    other["metadata"]["annotations"][f"{_OF}.uid"] = "of-an-account-before"
    accounts.create(other)
    assert kept(accounts) is None


def test_what_is_there_stays_but_the_authority(accounts: Accounts) -> None:
    given = {"token": "bWluZQ==", "ca.crt": "b2xk", "more": "eA=="}
    accounts.create(of_account(data=given))
    found = {"token": "mine", "more": "x", "namespace": "default"}
    assert data_of(kept(accounts, "")) == {**found, "ca.crt": "old"}
    assert data_of(kept(accounts)) == {**found, "ca.crt": AUTHORITY}


def test_others_stay_as_they_are(accounts: Accounts) -> None:
    accounts.create(of_account(type="Opaque"))
    assert not data_of(kept(accounts))
    accounts.delete("Secret", "login")
    accounts.create(of_account(immutable=True))
    assert not data_of(kept(accounts)), "nobody may change it"


@pytest.mark.parametrize(
    ("type_", "obj", "may"),
    [
        (EventType.ADDED, of_account(), True),
        (EventType.MODIFIED, of_account(), True),
        (EventType.DELETED, of_account(), False),
        (EventType.ADDED, of_account(type="Opaque"), False),
        (EventType.DELETED, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "app"}}, True),
        (EventType.ADDED, {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "app"}}, False),
    ],
)
def test_which_changes_may_concern_one(type_: EventType, obj: JsonObject, *, may: bool) -> None:
    assert may_lack_token(ObjectEvent(type_, key_of(obj), obj, None)) is may
