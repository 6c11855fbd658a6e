"""Users of an identity provider at the secure port: a provider over TLS, cloudcore, RBAC and the real kubectl."""

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from modules.cloud.authentication.oidc import module
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.authentication.oidc.provider import (
    Provider,
    claims,
    rsa_key,
    running_provider,
    signed,
)
from tests.modules.processes.cloudcore.stubs import CLOCK, Stub
from tests.support.patience import PATIENCE

_KUBECTL = shutil.which("kubectl")
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings"
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_DISCOVERY = "/.well-known/openid-configuration"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments"


class Cloud:
    """A cloudcore that trusts a provider."""

    def __init__(self, stub: Stub, provider: Provider, directory: Path) -> None:
        self.stub = stub
        self.provider = provider
        self.ca = AuthorityFiles(directory / "tls").authority
        self.url = f"https://127.0.0.1:{stub.core.api_port}"

    def token(self, kid: str = "k1", number: int = 0, **changes: Any) -> str:
        """A token of the provider's."""
        return signed(claims(self.provider.issuer, CLOCK.now(), **changes), key=rsa_key(number), kid=kid)

    def ask(self, token: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body of a GET, or of a POST with a body."""
        context = ssl.create_default_context(cafile=str(self.ca))
        connection = HTTPSConnection("127.0.0.1", self.stub.core.api_port, timeout=PATIENCE, context=context)
        with closing(connection):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(
                "GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def can(self, token: str, verb: str, group: str, resource: str, namespace: str) -> bool:
        """What `kubectl auth can-i` asks."""
        asked = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        status, found = self.ask(token, _REVIEWS, {"spec": {"resourceAttributes": asked}})
        assert status == 201, found
        return bool(found["status"]["allowed"])

    def grant(self, kind: str, name: str) -> None:
        """Give a user or a group the namespace `shop`."""
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        metadata = {"name": f"to-{kind.lower()}"}
        self.made("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        self.made(_BINDINGS, {"metadata": metadata, "subjects": [subject], "roleRef": reference})

    def made(self, path: str, body: Any) -> Any:
        """What the administrator at the control socket makes."""
        status, text = self.stub.client.request("POST", path, json.dumps(body).encode())
        assert status == 201, text
        return json.loads(text)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """With groups that are prefixed, and a provider that may be asked at any time."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    with running_provider(tmp_path) as provider:
        settings = provider.settings(username_prefix="idp:", groups_prefix="idp:")
        tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
        with Stub(tmp_path, tls=tls, secure_port=0, oidc=settings) as stub:
            yield Cloud(stub, provider, tmp_path)


def test_a_user_of_a_provider_has_the_rights_of_the_group(cloud: Cloud) -> None:
    """And no more. The provider makes no administrator, whatever it writes into a token."""
    token = cloud.token(groups=["shop", "system:masters"])
    status, found = cloud.ask(token, _WHOAMI, {})
    assert status == 201, found
    expected = ["idp:shop", "idp:system:masters", "system:authenticated"]
    assert found["status"]["userInfo"] == {"username": "idp:carol", "uid": "", "groups": expected}
    assert not cloud.can(token, "create", "apps", "deployments", "shop")
    status, refusal = cloud.ask(token, _DEPLOYMENTS)
    assert status == 403
    assert 'User "idp:carol" cannot list resource "deployments" in API group "apps"' in refusal["message"]
    cloud.grant("Group", "idp:shop")
    assert cloud.can(token, "create", "apps", "deployments", "shop")
    assert not cloud.can(token, "create", "apps", "deployments", "default")
    assert cloud.ask(token, _DEPLOYMENTS)[0] == 200
    assert cloud.ask(cloud.token(groups=["bakery"]), _DEPLOYMENTS)[0] == 403
    for wrong in (cloud.token(exp=1), cloud.token(aud="other"), cloud.token(number=1), token[:-4]):
        assert cloud.ask(wrong, _DEPLOYMENTS)[0] == 401


def test_tokens_of_both_issuers_are_accepted(cloud: Cloud) -> None:
    """A TokenReview knows the provider's too; they are for the API server, and for nobody else."""
    cloud.grant("User", "system:serviceaccount:shop:default")
    path = "/api/v1/namespaces/shop/serviceaccounts/default/token"
    account = cloud.made(path, {"spec": {}})["status"]["token"]
    assert cloud.ask(account, _DEPLOYMENTS)[0] == 200
    for audiences, is_known in (((), True), (("vault",), False)):
        spec = {"token": cloud.token(), "audiences": audiences}
        assert cloud.made(_TOKENS, {"spec": spec})["status"].get("authenticated", False) is is_known


def test_a_start_without_the_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its users get 503 until it answers, and everybody else is served."""
    monkeypatch.setattr(module, "PAUSE", 0.0)
    with running_provider(tmp_path) as provider:
        provider.documents[_DISCOVERY] = (503, b"")
        tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
        with Stub(tmp_path, tls=tls, secure_port=0, oidc=provider.settings()) as stub:
            cloud = Cloud(stub, provider, tmp_path)
            status, refusal = cloud.ask(cloud.token(), _WHOAMI, {})
            assert (status, refusal["reason"]) == (503, "ServiceUnavailable")
            assert cloud.ask("wrong", _WHOAMI, {})[0] == 401
            del provider.documents[_DISCOVERY]
            wait_until(lambda: cloud.ask(cloud.token(), _WHOAMI, {})[0] != 503, "the keys are fetched")
            assert cloud.ask(cloud.token(), _WHOAMI, {})[0] == 201


@pytest.mark.skipif(_KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_with_a_token_of_the_provider(cloud: Cloud, tmp_path: Path) -> None:
    """As the page says, by a credential plug-in that prints the token."""
    cloud.grant("User", "idp:carol")
    plugin = tmp_path / "bin" / "idp-login"
    plugin.parent.mkdir()
    status = {"token": cloud.token()}
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    plugin.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(credential)}\nEOF\n")
    plugin.chmod(0o700)

    def kubectl(*arguments: str) -> str:
        path = f"{plugin.parent}:{os.environ['PATH']}"
        environment = {"HOME": str(tmp_path), "PATH": path, "KUBECONFIG": str(tmp_path / "kubeconfig")}
        done = subprocess.run(
            [str(_KUBECTL), *arguments], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return done.stdout + done.stderr

    kubectl("config", "set-cluster", "cloud", "--server", cloud.url, "--certificate-authority", str(cloud.ca))
    options = ("--exec-api-version=client.authentication.k8s.io/v1", "--exec-command=idp-login")
    kubectl("config", "set-credentials", "carol", *options, "--exec-interactive-mode=Never")
    kubectl("config", "set-context", "cloud", "--cluster=cloud", "--user=carol")
    kubectl("config", "use-context", "cloud")
    assert "idp:carol" in kubectl("auth", "whoami")
    assert kubectl("auth", "can-i", "create", "deployments.apps", "-n", "shop") == "yes\n"
    assert kubectl("auth", "can-i", "list", "pods", "-n", "kube-system") == "no\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--oidc-groups-claim", "groups"], "both --oidc-issuer-url and --oidc-client-id"),
        (["--oidc-issuer-url", "https://a.example", "--oidc-client-id", "edge"], "add --tls and --secure-port 6443"),
        (["--oidc-required-claim", "a"], "both --oidc-issuer-url"),
    ],
)
def test_options_that_are_not_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    assert main(["run", "--root", str(tmp_path), *options]) == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--oidc-issuer-url", "http://a.example"], "--oidc-issuer-url is a URL https://"),
        (["--oidc-groups-prefix", "system:"], "--oidc-groups-prefix: names that begin with system:"),
        (["--oidc-signing-algs", "RS256, HS256"], "--oidc-signing-algs are some of RS256"),
        (["--oidc-required-claim", "=b"], "--oidc-required-claim is CLAIM=VALUE"),
        (["--service-account-issuer", "https://a.example"], "are two issuers"),
    ],
)
def test_options_that_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    """No port is taken: it is a mistake that names its option."""
    given = ["--oidc-issuer-url", "https://a.example", "--oidc-client-id", "edge", *options]
    port = ["--tls", "--secure-port", "0", "--listen", "127.0.0.1:0", "--https-listen", "127.0.0.1:0"]
    assert main(["run", "--root", str(tmp_path), *port, *given]) == 2
    assert why in capsys.readouterr().err
