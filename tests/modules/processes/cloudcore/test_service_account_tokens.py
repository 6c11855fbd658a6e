"""Tokens of service accounts at the secure port: real TLS sockets, RBAC, and what ends a token."""

import json
import logging
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.processes.cloudcore.config import TlsConfig
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.patience import PATIENCE

ADMIN = "admins-token"
NAMESPACE = "/api/v1/namespaces/default"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
REVIEWS = "/apis/authentication.k8s.io/v1"


class Port:
    """A secure port, and requests to it."""

    def __init__(self, stub: Stub, directory: Path) -> None:
        self.stub = stub
        self.ca = AuthorityFiles(directory / "tls").authority

    def ask(self, method: str, path: str, body: Any = None, token: str = ADMIN) -> tuple[int, Any]:
        """The status and the body of a response."""
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = HTTPSConnection("127.0.0.1", self.stub.core.api_port, timeout=PATIENCE, context=context)
        with closing(connection):
            headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text)

    @contextmanager
    def watching(self, path: str, token: str) -> Iterator[HTTPResponse]:
        """The response of a watch, which has begun."""
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = HTTPSConnection("127.0.0.1", self.stub.core.api_port, timeout=PATIENCE, context=context)
        with closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            assert answer.status == 200
            yield answer

    def made(self, path: str, body: Any) -> Any:
        """The created object."""
        status, found = self.ask("POST", path, body)
        assert status == 201, found
        return found

    def account(self, name: str = "app") -> None:
        """Make a service account that may read ConfigMaps of the namespace."""
        self.made(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        self.made(f"{ROLES}/roles", {"metadata": {"name": name}, "rules": [rule]})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        self.made(f"{ROLES}/rolebindings", {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference})

    def token(self, name: str = "app", **spec: Any) -> str:
        """A new token."""
        found = self.made(f"{NAMESPACE}/serviceaccounts/{name}/token", {"spec": spec})
        return str(found["status"]["token"])


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Port]:
    with _stub(tmp_path) as stub:
        yield Port(stub, tmp_path)


def _stub(directory: Path, **options: Any) -> Stub:
    tokens = directory / "tokens.csv"
    tokens.write_text(f'{ADMIN},alice,1,"system:masters"\n')
    tokens.chmod(0o600)
    tls = TlsConfig(directory=directory / "tls", https_port=0)
    return Stub(directory, tls=tls, secure_port=0, token_auth_file=tokens, **options)


def test_an_account_knows_who_it_is(port: Port) -> None:
    """`kubectl auth whoami`, and a TokenReview of an administrator."""
    port.account()
    token = port.token()
    body = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    status, found = port.ask("POST", f"{REVIEWS}/selfsubjectreviews", body, token)
    assert status == 201, found
    own = found["status"]["userInfo"]
    assert own["username"] == "system:serviceaccount:default:app"
    assert own["groups"] == ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    reviewed = port.made(f"{REVIEWS}/tokenreviews", {"spec": {"token": token}})
    assert reviewed["status"] == {"authenticated": True, "user": own, "audiences": ["https://kubernetes.default.svc"]}
    assert reviewed["spec"] == {"token": token}, "Python's client wants it"
    for spec in ({"token": token, "audiences": ["vault"]}, {"token": "wrong"}):
        assert port.made(f"{REVIEWS}/tokenreviews", {"spec": spec})["status"]["authenticated"] is False
    assert port.ask("POST", f"{REVIEWS}/tokenreviews", {"spec": {"token": token}}, token)[0] == 403
    for_vault = port.token(audiences=["vault"])
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=for_vault)[0] == 401
    reviewed = port.made(f"{REVIEWS}/tokenreviews", {"spec": {"token": for_vault, "audiences": ["vault"]}})
    assert reviewed["status"]["audiences"] == ["vault"]


def test_a_token_ends_with_its_account(port: Port) -> None:
    """As soon as the deletion is answered; and an account of the same name is another one."""
    port.account()
    token = port.token()
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=token)[0] == 200
    assert port.ask("DELETE", f"{NAMESPACE}/serviceaccounts/app")[0] == 200
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=token)[0] == 401
    port.made(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": "app"}})
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=token)[0] == 401
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=port.token())[0] == 200


def test_others_find_the_public_keys(port: Port) -> None:
    """Service accounts may read them; an anonymous client may not, as with kube-apiserver."""
    port.account()
    token = port.token()
    status, configuration = port.ask("GET", "/.well-known/openid-configuration", token=token)
    assert status == 200
    assert configuration["issuer"] == "https://kubernetes.default.svc"
    assert configuration["jwks_uri"] == f"https://127.0.0.1:{port.stub.core.api_port}/openid/v1/jwks"
    assert configuration["id_token_signing_alg_values_supported"] == ["ES256"]
    status, keys = port.ask("GET", "/openid/v1/jwks", token=token)
    assert (status, [key["kty"] for key in keys["keys"]]) == (200, ["EC"])
    assert "d" not in keys["keys"][0], "the private number"
    assert port.ask("GET", "/openid/v1/jwks", token="")[0] == 403


def test_a_dry_run_leaves_no_key_behind(port: Port) -> None:
    port.account()
    path = f"{NAMESPACE}/serviceaccounts/app/token"
    assert port.ask("POST", f"{path}?dryRun=All", {"spec": {}})[0] == 201
    assert port.ask("GET", "/openid/v1/jwks")[1] == {"keys": []}
    assert port.ask("GET", f"{NAMESPACE}/configmaps", token=port.token())[0] == 200


def test_tokens_outlive_a_restart_and_are_of_all_cloudcores_of_the_database(tmp_path: Path) -> None:
    database = str(tmp_path / "cloud.db")
    with _stub(tmp_path, database=database) as stub:
        port = Port(stub, tmp_path)
        port.account()
        token = port.token()
        other = _stub(tmp_path, database=database, control_socket=tmp_path / "second")
        with other:
            second = Port(other, tmp_path)
            assert second.ask("GET", f"{NAMESPACE}/configmaps", token=token)[0] == 200
            assert port.ask("GET", f"{NAMESPACE}/configmaps", token=second.token())[0] == 200
            assert len(second.ask("GET", "/openid/v1/jwks")[1]["keys"]) == 1
    with _stub(tmp_path, database=database) as stub:
        assert Port(stub, tmp_path).ask("GET", f"{NAMESPACE}/configmaps", token=token)[0] == 200


def test_no_token_is_logged(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    port.account()
    token = port.token()
    for wrong in (token, token[:-3], f"{token}.x"):
        port.ask("GET", f"{NAMESPACE}/secrets", token=wrong)
        port.ask("POST", f"{REVIEWS}/tokenreviews", {"spec": {"token": wrong}})
        port.ask("POST", f"{REVIEWS}/tokenreviews", {"spec": {"token": wrong, "audiences": [7]}})
    assert token[-40:-3] not in caplog.text
    assert token.split(".")[1] not in caplog.text


def test_a_revoked_node_has_no_share_in_the_tokens_of_its_pods(port: Port) -> None:
    """They are refused, also by reviews, and open watches end; tokens that are bound to no pod of it are not."""
    port.account()
    port.made("/api/v1/nodes", {"metadata": {"name": "n1"}})
    containers = [{"name": "c", "image": "i"}]
    spec = {"serviceAccountName": "app", "nodeName": "n1", "containers": containers}
    port.made(f"{NAMESPACE}/pods", {"metadata": {"name": "web"}, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web"}
    token, free = port.token(boundObjectRef=bound, expirationSeconds=365 * 24 * 3600), port.token()
    client = port.stub.client
    with port.watching(f"{NAMESPACE}/configmaps?watch=1", token) as watch:
        assert client.revoke("node", "n1") == ""
        with suppress(OSError, HTTPException):
            assert watch.read() == b"", "it has ended"

    def accepted(one: str) -> tuple[bool, bool]:
        """Whether the port takes a token, and a review of it."""
        review = port.made(f"{REVIEWS}/tokenreviews", {"spec": {"token": one}})
        return port.ask("GET", f"{NAMESPACE}/configmaps", token=one)[0] == 200, review["status"]["authenticated"]

    assert (accepted(token), accepted(free)) == ((False, False), (True, True))
    assert client.allow("node", "n1") == ""
    assert accepted(token) == (True, True)
