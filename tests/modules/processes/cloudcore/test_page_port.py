"""The page on the secure port: who may see what, over real TLS, and in a browser."""

import http.client
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from websockets.frames import Frame as Message
from websockets.frames import Opcode
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol
from websockets.utils import accept_key

from modules.cloud.object_writes import WriteQuery
from modules.page.service import HEADERS
from modules.page.shells import KEY_PROTOCOL
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import CloudStreamConfig, TlsConfig
from modules.processes.cloudcore.page_port import hosts_of
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudstream.edges import Edge, edge_at
from tests.modules.processes.cloudcore.devices import People, device, model
from tests.modules.processes.cloudcore.stubs import Stub
from tests.modules.processes.cloudcore.test_secure_port import Secure
from tests.support.browser import browser, why_none
from tests.support.control_client import Apply
from tests.support.patience import PATIENCE

TOKENS = 'admins-token,alice,1,"system:masters"\nplain-token,bob,2\nviewer-token,vera,3\n'
TOKENS += "".join(f"{name}-token,{name},{name}\n" for name in ("nora", "dora", "ines"))
ALICE, BOB, VERA = "admins-token", "plain-token", "viewer-token"
QUESTIONS = (
    "me", "changes", "nodes/n1", "pods", "rollouts", "journal", "devices", "devices/default/hall",
    "history/default/hall/t", "explain/default/web", "log/default/web/main",
)  # fmt: skip
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
DEVICES = {"apiGroups": ["devices.kubeedge.io"], "resources": ["*"], "verbs": ["get", "list"]}
RBAC = "rbac.authorization.k8s.io"
ROLES = {
    "vera": ("ClusterRole", [NODES, PODS]),
    "nora": ("ClusterRole", [NODES]),
    "dora": ("Role", [PODS]),
    "ines": ("Role", [DEVICES]),
}
"""By user, what they may do: everywhere, or in the namespace default."""


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

    def context(self) -> ssl.SSLContext:
        """Return a context that knows the authority."""
        return ssl.create_default_context(cafile=str(self._secure.files.authority))

    def ask(self, path: str, method: str = "GET", *, body: bytes = b"", node: str = "", **headers: str) -> Answer:
        """Return the answer to a request; `_` is `-` in the names of headers."""
        context = self.context()
        if node:
            context.load_cert_chain(*self._secure.node_files(node))
        connection = http.client.HTTPSConnection("127.0.0.1", self._secure.port, timeout=PATIENCE, context=context)
        with closing(connection):
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body or None, given)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))

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


def granted(user: str, kind: str, rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a role and its binding to a user, both with the user's name."""
    reference = {"apiGroup": RBAC, "kind": kind, "name": user}
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
    own = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": user}}
    return [
        {**own, "kind": kind, "rules": rules},
        {**own, "kind": f"{kind}Binding", "roleRef": reference, "subjects": subjects},
    ]


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    """Start a cloudcore with the page on its secure port, a pod, and users with parts of the rights."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    tls = TlsConfig(directory=tmp_path / "tls", https_port=0)
    with Stub(
        tmp_path, tls=tls, secure_port=0, token_auth_file=tokens, page=True, page_allow=("exec",), controllers="none",
        cloud_stream=CloudStreamConfig(tunnel_port=0),
    ) as stub:  # fmt: skip
        made: list[dict[str, Any]] = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            *(
                {
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
                    "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "web:1"}]},
                }
                for name, namespace in (("web", "default"), ("covert", "kube-system"))
            ),
            *(each for user, (kind, rules) in ROLES.items() for each in granted(user, kind, rules)),
        ]  # fmt: skip
        for item in stub.client.run(Apply(made)):
            assert not item.error, item.error
        people = People(stub.client)
        people.wait()
        people.apply(model())
        people.apply(device("hall", "n1"))
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
    assert may == {"me", "changes", "nodes/n1", "pods", "rollouts", "explain/default/web"}
    assert '"user":"alice"' in visitor.ask("/page/v1/me", authorization=alice).body
    for path in ("changes", "journal", "devices", "pods"):
        assert visitor.ask(f"/page/v1/{path}", authorization=alice).status == 200
    assert visitor.ask("/page/v1/pods", "DELETE", authorization=alice).status == 405

    own = f"https://{visitor.host}"
    assert visitor.ask("/page/v1/session", "DELETE", authorization=alice, origin=own, x_edgecore_page="1").status == 200
    assert visitor.ask("/page/v1/me", authorization=alice).status == 401
    assert visitor.ask("/api/v1/pods", authorization=f"Bearer {ALICE}").status == 200, "the API is as without a page"


@pytest.mark.parametrize(
    ("user", "may", "forbidden", "hidden"),
    [
        ("nora", {"changes", "nodes/n1"}, {"pods", "devices"}, ("web", "covert", "hall", "default")),
        ("dora", {"changes", "pods", "rollouts", "explain/default/web"}, {"nodes", "pods", "devices"},
         ("covert", "kube-system", "hall", "never")),
        ("ines", {"changes", "devices", "devices/default/hall", "history/default/hall/t"},
         {"nodes", "pods", "devices"}, ("web", "covert", "kube-system", "never")),
    ],
)  # fmt: skip
def test_hidden_kinds_are_reported_as_forbidden_and_the_rest_is_shown(
    secure: Secure, user: str, may: set[str], forbidden: set[str], hidden: tuple[str, ...]
) -> None:
    """No row, count or sentence is made of what a user may not list; in its place stands the right that is missing."""
    visitor = Visitor(secure)
    key, alice = visitor.key(f"{user}-token"), visitor.key(ALICE)
    visitor.ask("/page/v1/pods", authorization=alice)  # nodes, pods and links have been read
    visitor.ask("/page/v1/devices", authorization=alice)
    wait_until(
        lambda: visitor.ask("/page/v1/changes", authorization=key).status == 200, "the devices are in the picture"
    )
    answers = {path: visitor.ask(f"/page/v1/{path}", authorization=key) for path in QUESTIONS}
    assert {path for path, answer in answers.items() if answer.status == 200} == {"me", *may}
    for path in may:
        assert not [each for each in hidden if each in answers[path].body], path
    fleet = msgspec.json.decode(answers["changes"].body)
    assert set(fleet["forbidden"]) == forbidden
    assert all(f'User "{user}" cannot list resource' in each for each in fleet["forbidden"].values())
    assert bool(fleet["set"]) == bool(fleet["head"]["sentence"]) == (user == "nora")
    assert bool(fleet["head"]["pods"]) == (user == "dora")
    if user == "dora":
        assert fleet["forbidden"]["pods"].endswith("shown are those in default")
        assert "forbidden" in msgspec.json.decode(answers["pods"].body)
    if user == "nora":
        assert msgspec.json.decode(answers["nodes/n1"].body)["sentence"] == "n1 has never been connected."


TUNNELS = "no stream can be opened: node n1"
"""Words of the refusal of a cloudcore to which the node has no tunnel."""


def shell(visitor: Visitor, key: str) -> ClientConnection:
    """Open a shell as the page does."""
    _, _, port = visitor.host.partition(":")
    return connect(
        f"wss://{visitor.host}/page/v1/shell/default/web/main",
        sock=socket.create_connection(("127.0.0.1", int(port)), PATIENCE),
        ssl=visitor.context(), server_hostname="127.0.0.1",
        origin=Origin(f"https://{visitor.host}"), compression=None, open_timeout=PATIENCE,
        subprotocols=[Subprotocol("v4.channel.k8s.io"), Subprotocol(KEY_PROTOCOL + key.removeprefix("Bearer "))],
    )  # fmt: skip


def told(visitor: Visitor, key: str) -> str:
    """Return why a shell is refused: the page reads it from the shell's result."""
    with shell(visitor, key) as opened:
        said = opened.recv(timeout=PATIENCE)
        assert isinstance(said, bytes)
        return str(msgspec.json.decode(said[1:])["message"])


def grant(visitor: Visitor, verbs: list[str]) -> None:
    """Give vera these rights to pods/exec, and no others to it."""
    rules = [NODES, PODS, *([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}] if verbs else [])]
    answer = visitor.ask(
        f"/apis/{RBAC}/v1/clusterroles/vera", "PATCH", body=msgspec.json.encode({"rules": rules}),
        authorization=f"Bearer {ALICE}", content_type="application/merge-patch+json",
    )  # fmt: skip
    assert answer.status == 200, answer.body


def test_a_shell_needs_the_option_and_the_rights(secure: Secure) -> None:
    """It is allowed with the right to create pods/exec only: who may only read opens none by a WebSocket, a GET."""
    visitor = Visitor(secure)
    alice, vera = visitor.key(ALICE), visitor.key(VERA)
    assert '"allowed":["exec"]' in visitor.ask("/page/v1/me", authorization=alice).body
    assert told(visitor, vera).startswith('pods "web" is forbidden: User "vera" cannot create resource "pods/exec"')
    for verbs, why in ((["create"], 'User "vera" cannot get resource "pods/exec"'), (["create", "get"], TUNNELS)):
        grant(visitor, verbs)
        assert why in told(visitor, vera)
    assert TUNNELS in told(visitor, alice)


def test_a_shell_goes_through_the_tunnel_and_ends_with_its_users_right(
    secure: Secure, caplog: pytest.LogCaptureFixture
) -> None:
    """In the user's name, without the page's key; its bytes are the node's, and TLS is the page's own."""
    caplog.set_level(logging.INFO)
    visitor = Visitor(secure)
    key = visitor.key(VERA)
    grant(visitor, ["create", "get"])
    asked: list[str] = []

    def serve(edge: Edge) -> None:
        frame, request = edge.opened()
        asked.extend((request.target, str(request.headers)))
        found = next(value for name, value in request.headers if name.lower() == "sec-websocket-key")
        edge.send(
            frame.connection,
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Accept: "
            + accept_key(found).encode() + b"\r\n\r\n" + Message(Opcode.BINARY, b"\x01hello").serialize(mask=False),
        )  # fmt: skip

    context = visitor.context()
    context.load_cert_chain(*secure.node_files("n1"))
    with edge_at(secure.tunnel_port, "n1", context) as edge:
        node = threading.Thread(target=serve, args=(edge,))
        node.start()
        with shell(visitor, key) as opened:
            node.join(PATIENCE)
            assert opened.recv(timeout=PATIENCE) == b"\x01hello"
            assert asked[0] == "/exec/default/web/main?command=sh&input=1&output=1&tty=1"
            assert key.removeprefix("Bearer ") not in asked[1]
            assert VERA not in asked[1]
            assert "vera (edgecore-page) asks node n1 for exec default web main" in caplog.text
            grant(visitor, [])
            said = opened.recv(timeout=PATIENCE)
            assert isinstance(said, bytes)
            assert 'User "vera" cannot create resource "pods/exec"' in msgspec.json.decode(said[1:])["message"]


def test_a_role_is_looked_up_with_each_request(secure: Secure) -> None:
    """A session keeps no rights: without its role binding the next request is refused."""
    visitor = Visitor(secure)
    vera, alice = visitor.key(VERA), f"Bearer {ALICE}"
    assert visitor.ask("/page/v1/pods", authorization=vera).status == 200
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/vera"
    assert visitor.ask(path, "DELETE", authorization=alice).status == 200
    refused = visitor.ask("/page/v1/pods", authorization=vera)
    assert (refused.status, 'User "vera" cannot list resource "pods"' in refused.body) == (403, True)


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
        window.wait(f"{said}.startsWith('The node has never connected')")
        assert "alice" in window.run("return document.getElementById('who').textContent")
        window.click("#who button")
        window.wait("document.querySelector('main').textContent.includes('You have signed out.')")
        window.keys(f"{BOB}\ue007", "#token")
        window.wait(f'{said}.includes(\'User "bob" cannot list resource "nodes"\')')
        assert window.run("return document.querySelectorAll('.row').length") == 0
        window.click("#who button")
        window.wait("Boolean(document.getElementById('token'))")
        window.keys("nora-token\ue007", "#token")
        window.wait(f"{said}.startsWith('The node has never connected')")
        missing = "[...document.querySelectorAll('.missing')].map((each) => each.textContent)"
        assert ['resource "pods"' in each for each in window.run(f"return {missing}")] == [True, False]
        assert window.run("return document.cookie + location.href").endswith("/page/")
        assert [each for each in window.console() if "Content Security Policy" in each or "Uncaught" in each] == []


@pytest.mark.skipif(bool(why_none()), reason=why_none() or "-")
def test_a_token_is_sent_again_while_there_is_no_answer(secure: Secure) -> None:
    """As in the moment when a notebook changes its network: the user would have to find the token again."""
    said = "(document.getElementById('sentence') || {textContent: ''}).textContent"
    broken_off = """const sent = fetch; let left = 2;
    window.fetch = (url, options) => url.endsWith("/session") && (options.body || "").includes("token") && left-- > 0
        ? Promise.reject(new TypeError("Failed to fetch")) : sent(url, options);"""
    with browser(1280, 900) as window:
        window.before_each_page(broken_off)
        window.open(f"{secure.url}/page/pods/default/web")
        window.wait(f"{said} === 'Sign in to see the fleet.'")
        window.keys(f"{ALICE}\ue007", "#token")
        window.wait(f"{said}.includes('default/web')")
        assert window.run("return document.getElementById('who').textContent").startswith("alice")


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


def test_sign_ins_are_entries_of_the_change_journal(secure: Secure) -> None:
    """With the user, the way and the address; a wrong token is nobody's. No token is in an entry."""
    visitor = Visitor(secure)
    visitor.key(ALICE)
    assert visitor.enter("wrong-token").status == 401
    assert visitor.enter("", node="n1").status == 401, "a node is no user of the page"
    found = secure.stub.client.changes(WriteQuery(kind="Page")).writes
    assert [(each.write.user, each.write.verb, each.write.fields) for each in found] == [
        ("system:node:n1", "sign-in refused", ("by: certificate", "from: 127.0.0.1")),
        ("system:anonymous", "sign-in refused", ("by: token", "from: 127.0.0.1")),
        ("alice", "signed in", ("by: token", "from: 127.0.0.1")),
    ]
