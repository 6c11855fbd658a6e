"""What is in a token, and which requests for one are refused."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import ApiError, TooManyRequestsError
from modules.cloud.apiserver.tokens.issuer import TokenIssuer
from modules.cloud.authentication.settings import ServiceAccountSettings
from tests.modules.cloud.apiserver.tokens.accounts import ISSUER, Accounts, payload_of

DAY = 24 * 3600


def test_a_token_of_a_pod_has_kubernetes_claims(accounts: Accounts) -> None:
    made = accounts.request(kind="Pod", of="web", uid=accounts.uid("Pod", "web"), expirationSeconds=3607)
    claims, now = payload_of(made["status"]["token"]), int(accounts.clock.now())
    assert claims.pop("jti")
    assert claims == {
        "aud": [ISSUER],
        "exp": now + 3607,
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "sub": "system:serviceaccount:default:app",
        "kubernetes.io": {
            "namespace": "default",
            "node": {"name": "n1", "uid": accounts.uid("Node", "n1")},
            "pod": {"name": "web", "uid": accounts.uid("Pod", "web")},
            "serviceaccount": {"name": "app", "uid": accounts.uid("ServiceAccount", "app")},
        },
    }
    assert made["status"]["expirationTimestamp"] == "2027-01-15T09:00:07Z"
    assert (made["spec"]["audiences"], made["spec"]["expirationSeconds"]) == ([ISSUER], 3607)
    assert made["metadata"]["name"] == "app"


def test_an_unbound_token_is_valid_for_an_hour(accounts: Accounts) -> None:
    claims = payload_of(accounts.token())
    assert claims["exp"] - claims["iat"] == 3600
    assert set(claims["kubernetes.io"]) == {"namespace", "serviceaccount"}


def test_a_pod_on_an_unregistered_node_has_its_name_only(accounts: Accounts) -> None:
    accounts.delete("Node", "n1")
    assert payload_of(accounts.token(kind="Pod", of="web"))["kubernetes.io"]["node"] == {"name": "n1", "uid": ""}


def test_a_token_is_bound_to_a_secret_or_a_node(accounts: Accounts) -> None:
    bound = payload_of(accounts.token(kind="Secret", of="key"))["kubernetes.io"]
    assert bound["secret"] == {"name": "key", "uid": accounts.uid("Secret", "key")}
    bound = payload_of(accounts.token(kind="Node", of="n1"))["kubernetes.io"]
    assert bound["node"] == {"name": "n1", "uid": accounts.uid("Node", "n1")}
    assert "pod" not in bound


def test_the_audiences_are_the_wanted_or_the_servers() -> None:
    accounts = Accounts(ServiceAccountSettings("https://cloud.example", ("api", "other")))
    claims = payload_of(accounts.token())
    assert (claims["iss"], claims["aud"]) == ("https://cloud.example", ["api", "other"])
    assert payload_of(accounts.token(audiences=["vault"]))["aud"] == ["vault"]


def test_no_token_is_valid_for_more_than_a_year(accounts: Accounts) -> None:
    """kube-apiserver's `--service-account-max-token-expiration`: the answer says for how long it is."""
    made = accounts.request(expirationSeconds=400 * DAY)
    claims = payload_of(made["status"]["token"])
    assert claims["exp"] - claims["iat"] == 365 * DAY


@pytest.mark.parametrize(
    ("request_of", "code", "words"),
    [
        ({"name": "none"}, 404, 'serviceaccounts "none" not found'),
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32 seconds"),
        ({"expirationSeconds": "600"}, 400, "expirationSeconds"),
        ({"audiences": "vault"}, 400, "audiences"),
        ({"kind": "Pod", "of": "none"}, 404, 'pods "none" not found'),
        ({"kind": "Pod", "of": "web", "uid": "other"}, 409, "the UID in the bound object reference"),
        ({"name": "second", "kind": "Pod", "of": "web"}, 400, "to pod running with different serviceaccount name"),
        ({"kind": "ConfigMap", "of": "web"}, 400, "cannot bind token to object of type v1, Kind=ConfigMap"),
    ],
)
def test_a_request_that_is_refused(accounts: Accounts, request_of: dict[str, Any], code: int, words: str) -> None:
    accounts.account("second")
    with pytest.raises(ApiError) as refused:
        accounts.request(**request_of)
    assert (refused.value.status()["code"], words in refused.value.message) == (code, True), refused.value.message


def test_the_request_is_about_the_account_of_its_path(accounts: Accounts) -> None:
    for metadata in ({"name": "second"}, {"name": "app", "namespace": "other"}):
        with pytest.raises(ApiError, match="must match"):
            accounts.issuer.issue(
                accounts.cluster.storage, accounts.clock, "default", "app", {"metadata": metadata, "spec": {}}
            )


def test_no_token_is_issued_that_is_refused_because_of_its_node(accounts: Accounts) -> None:
    """Times in tokens are whole seconds: the second of a replacement is the former machine's."""
    now = int(accounts.clock.now())
    issuer = TokenIssuer(refuses=lambda node, issued_at: node == "n1" and issued_at <= now)
    accounts.issuer = issuer
    with pytest.raises(TooManyRequestsError, match="replaced just now"):
        accounts.token(kind="Pod", of="web")
    assert accounts.token()
    now -= 1
    assert accounts.token(kind="Pod", of="web")
