"""The page on the secure port: who may see what, over real TLS, and in a browser."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from beehive.http.errors import HttpStatusError
from modules.page.service import HEADERS
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import TlsConfig
from modules.processes.cloudcore.control_client import Apply
from modules.processes.cloudcore.page_port import hosts_of, rights_of
from tests.modules.processes.cloudcore.stubs import DEADLINE, Stub
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.browser import browser, why_none

TOKENS = 'admins-token,alice,1,"system:masters"\nplain-token,bob,2\nviewer-token,vera,3\n'
ALICE, BOB, VERA = "admins-token", "plain-token", "viewer-token"
QUESTIONS = (
    "me", "changes", "nodes/n1", "pods", "rollouts", "journal", "devices", "devices/default/hall",
    "history/default/hall/t", "explain/default/web", "log/default/web/main",
)  # fmt: skip
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
]


class Answer(NamedTuple):
    """An answer of the secure port."""

    status: int
    body: str
    headers: dict[str, str]


class Visitor:
    """A browser's requests to the page, made by hand."""

    def __init__(self, secure: Secure) -> None:
        self._secure = secure
        self.host = f"127.0.0.1:{secure.port}"

    def ask(self, path: str, method: str = "GET", *, body: bytes = b"", node: str = "", **headers: str) -> Answer:
        """Return the answer to a request; `_` is `-` in the names of headers."""
        context = ssl.create_default_context(cafile=str(self._secure.files.authority))
        if node:
            context.load_cert_chain(*self._secure.node_files(node))
        connection = http.client.HTTPSConnection("127.0.0.1", self._secure.port, timeout=DEADLINE, context=context)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, given)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))
        finally:
            connection.close()

    def enter(self, token: str, node: str = "", **headers: str) -> Answer:
        """Sign in."""
        own = {"origin": f"https://{self.host}", "x_edgecore_page": "1", "sec_fetch_site": "same-origin"}
        body = msgspec.json.encode({"token": token})
        return self.ask("/page/v1/session", "POST", body=body, node=node, **{**own, **headers})

    def key(self, token: str) -> str:
        """Return the header of a new session."""
        answer = self.enter(token)
        assert answer.status == 200, answer.body
        return f"Bearer {msgspec.json.decode(answer.body)['key']}"


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    """Start a cloudcore with the page on its secure port, a pod, and a user who may list nodes and pods."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    with Stub(tmp_path, tls=tls, secure_port=0, token_auth_file=tokens, page=True, controllers="none") as stub:
        made: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
                "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1"}]},
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "viewers"},
                "rules": RULES,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "viewers"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "viewers"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "vera"}],
            },
        ]  # fmt: skip
        for item in stub.client.run(Apply(made)):
            assert not item.error, item.error
        yield Secure(stub, tmp_path)


def test_who_may_see_what(secure: Secure) -> None:
    """Nobody sees anything without a session, and with one only what RBAC allows its user to read."""
    visitor = Visitor(secure)
    files = visitor.ask("/page/")
    assert (files.status, "n1" in files.body) == (200, False)
    assert set(HEADERS) <= set(files.headers.items())
    for path in QUESTIONS:
        for credentials in ("", f"Bearer {ALICE}", "Bearer wrong"):  # a token of the API is no key of the page
            assert visitor.ask(f"/page/v1/{path}", authorization=credentials).status == 401

    assert [visitor.enter(token).status for token in ("", "wrong")] == [401, 401]
    for wrong in (
        {"origin": "https://evil.example"}, {"host": "evil.example"}, {"x_edgecore_page": ""},
        {"sec_fetch_site": "cross-site"}, {"origin": f"http://{visitor.host}"},
    ):  # fmt: skip
        assert visitor.enter(ALICE, **wrong).status in (403, 421)
    assert visitor.enter("", node="n1").status == 401, "a node is no user of the page"
    assert visitor.enter("", node="n1", sec_fetch_site="none").status == 403, "a certificate opens by the page only"

    bob, vera, alice = (visitor.key(token) for token in (BOB, VERA, ALICE))
    for path in QUESTIONS:
        refused = visitor.ask(f"/page/v1/{path}", authorization=bob)
        assert refused.status == (200 if path == "me" else 403), path
        assert path == "me" or 'User "bob" cannot' in refused.body
    may = {path for path in QUESTIONS if visitor.ask(f"/page/v1/{path}", authorization=vera).status == 200}
    assert may == {"me", "nodes/n1", "pods", "rollouts", "explain/default/web"}
    assert 'cannot list resource "devices"' in visitor.ask("/page/v1/changes", authorization=vera).body
    assert '"user":"alice"' in visitor.ask("/page/v1/me", authorization=alice).body
    for path in ("changes", "journal", "devices", "pods"):
        assert visitor.ask(f"/page/v1/{path}", authorization=alice).status == 200
    assert visitor.ask("/page/v1/pods", "DELETE", authorization=alice).status == 405

    own = f"https://{visitor.host}"
    assert visitor.ask("/page/v1/session", "DELETE", authorization=alice, origin=own, x_edgecore_page="1").status == 200
    assert visitor.ask("/page/v1/me", authorization=alice).status == 401
    assert visitor.ask("/api/v1/pods", authorization=f"Bearer {ALICE}").status == 200, "the API is as without a page"


def test_a_role_is_looked_up_with_each_request(secure: Secure) -> None:
    """A session keeps no rights: without its role binding the next request is refused."""
    visitor = Visitor(secure)
    vera, alice = visitor.key(VERA), f"Bearer {ALICE}"
    assert visitor.ask("/page/v1/pods", authorization=vera).status == 200
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/viewers"
    assert visitor.ask(path, "DELETE", authorization=alice).status == 200
    refused = visitor.ask("/page/v1/pods", authorization=vera)
    assert (refused.status, 'User "vera" cannot list resource "nodes"' in refused.body) == (403, True)


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_user_signs_in_with_a_token_and_out_again(secure: Secure) -> None:
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
    with browser(1280, 900) as window:
        window.open(f"{secure.url}/page/pods/default/web")
        window.wait(f"{said} === 'Sign in to see the fleet.'")
        window.keys("wrong\ue007", "#token")
        window.wait("document.querySelector('main').textContent.includes('The server does not know this token.')")
        window.keys(f"{ALICE}\ue007", "#token")
        window.wait(f"{said}.includes('default/web')")
        window.run("[...document.querySelectorAll('nav a')].find((each) => each.textContent === 'Fleet').click()")
        window.wait(f"{said}.startsWith('0 of 1 nodes are connected; 1 never connected')")
        assert "alice" in window.run("return document.getElementById('who').textContent")
        window.click("#who button")
        window.wait("document.querySelector('main').textContent.includes('You have signed out.')")
        window.keys(f"{BOB}\ue007", "#token")
        window.wait(f'{said}.includes(\'User "bob" cannot list resource "nodes"\')')
        assert window.run("return document.querySelectorAll('.row').length") == 0
        assert window.run("return document.cookie + location.href").endswith("/page/")
        assert [each for each in window.console() if "Content Security Policy" in each or "Uncaught" in each] == []


def test_every_question_has_its_rights() -> None:
    assert all(isinstance(rights_of(path.split("/")), list) for path in QUESTIONS)
    for parts in (["else"], [], ["nodes"], ["history", "a", "b"]):
        with pytest.raises(HttpStatusError):
            rights_of(parts)


def test_the_names_of_the_server_have_its_port() -> None:
    assert hosts_of(["cloud", "fd00::1"], 6443) == [
        "cloud:6443", "[fd00::1]:6443", "localhost:6443", "127.0.0.1:6443",
    ]  # fmt: skip
    assert "cloud" in hosts_of(["cloud"], 443)


@pytest.mark.parametrize("options", [[], ["--tls"], ["--insecure-port", "0"], ["--tls", "--insecure-port", "0"]])
def test_the_page_is_served_on_the_secure_port_only(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--page", *options, "--root", str(tmp_path)]) == 2
    assert "--page is served on the secure port" in capsys.readouterr().err
