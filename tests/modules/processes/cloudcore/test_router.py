"""Callers of nodes at a cloudcore: real HTTP and TLS, and a scripted node on the websocket."""

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from beehive import Message
from modules.cloud.router import status_writer
from modules.cloud.router.paths import CallerPath
from modules.cloud.router.records import RuleRoute
from modules.cloud.router.routing_table import RoutingTable
from modules.processes.cloudcore.cli import main
from modules.processes.cloudcore.config import RouterConfig, TlsConfig
from modules.processes.common.exit_codes import ExitCode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.router.rules import from_url, to_topic
from tests.modules.processes.cloudcore.routes import RuleAuthors, call
from tests.modules.processes.cloudcore.stubs import CLOCK, Edge, Stub
from tests.support.patience import PATIENCE

TOKENS = 'admins-token,alice,1,"system:masters"\ncallers-token,carol,2,"kubeedge:router"\nplain-token,bob,3\n'


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    with Stub(tmp_path, router=RouterConfig(port=0)) as made:
        authors = RuleAuthors(made.client)
        authors.wait()
        authors.apply_endpoints()
        yield made


@contextmanager
def answering(edge: Edge, answer: Callable[[Message], Message]) -> Iterator[None]:
    """Let a node's servicebus answer one request, on a thread of its own; the rest is for nobody."""

    def serve() -> None:
        message = edge.receive()
        while message.route.source != "router_servicebus":
            message = edge.receive()
        edge.send(answer(message))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    thread.join()


def test_tricks_with_the_path_are_refused(stub: Stub) -> None:
    """Before a Rule is looked for; a web page is, too."""
    port = stub.core.callers_port
    for target in ("/svc/../../other", "/svc/%2e%2e/x", "//svc", "/svc%2fx", ""):
        assert call(port, f"/n1/cap{target}").status == 400, target
    assert [call(port, target).status for target in ("//n1/cap/svc", "/n1", "/")] == [400, 400, 400]
    for of_page in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert call(port, "/n1/cap/svc", headers=of_page).status == 403
    assert call(port, "/n1/cap/svc", headers={"Host": "evil.example"}).status == 403


def test_no_rule_calls_cloudcore_itself(stub: Stub) -> None:
    """Where it listens for programs of this machine, which need no credentials: a Rule's author may be nobody there."""
    RuleAuthors(stub.client).apply(from_url(f"http://[::ffff:127.0.0.1]:{stub.core.callers_port}/n1/cap/x"))
    asked = Message.new(
        CLOCK, source="servicebus", group="user", operation="upload", resource="http://cap.example/call",
        content=b'{"method":"GET","targetURL":"http://cap.example/call"}',
    )  # fmt: skip
    with stub.edge() as edge:
        answer = edge.answer_to(asked)
    assert answer.route.operation == "error"
    assert "is cloudcore's own: no Rule calls it" in answer.content_as(str)


class Secured:
    """A cloudcore with TLS and users."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._context = ssl.create_default_context(cafile=str(stub.directory / "tls" / "ca.crt"))

    def status(self, **headers: str) -> int:
        """The status that a caller gets for a path without a Rule."""
        return call(self._stub.core.callers_port, "/n1/cap/none", context=self._context, headers=headers).status

    def head_only(self) -> int:
        """The status for a request without credentials whose body never comes."""
        port = self._stub.core.callers_port
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=self._context)
        with closing(connection):
            connection.putrequest("POST", "/n1/cap/a")
            connection.putheader("Content-Length", "8000000")
            connection.endheaders()
            return connection.getresponse().status


def test_callers_need_credentials(tmp_path: Path) -> None:
    """With TLS: a token of an administrator or of the group; plain HTTP is not served."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    options = {"tls": TlsConfig(directory=tmp_path / "tls", https_port=0), "token_auth_file": tokens}
    with Stub(tmp_path, router=RouterConfig(port=0), **options) as stub:
        secured = Secured(stub)
        wait_until(lambda: secured.status(Authorization="Bearer admins-token") == 404, "the rules are known")
        assert secured.status(Authorization="Bearer callers-token") == 404
        assert secured.status(Authorization="Bearer plain-token") == 403
        assert secured.status(Authorization="Bearer wrong") == 401
        assert secured.status(Authorization="Basic YWRtaW5zLXRva2VuOg==") == 401
        assert secured.status() == 401
        assert secured.status(Origin="https://evil.example") == 403, "a browser has its reader's certificate"
        assert secured.head_only() == 401
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            call(stub.core.callers_port, "/n1/cap/none")


def test_without_credentials_it_listens_on_this_machine_only(capsys: pytest.CaptureFixture[str]) -> None:
    """`--router-listen 0.0.0.0:9443` needs `--tls`."""
    assert main(["run", "--router-listen", "0.0.0.0:9443"]) == ExitCode.USAGE
    assert "listen on 127.0.0.1, or add --tls" in capsys.readouterr().err


@pytest.mark.modules_fail
def test_a_failed_router_serves_again_on_its_port(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the Rules and the connected nodes again."""
    RuleAuthors(stub.client).apply(to_topic())
    port, find, failures = stub.core.callers_port, RoutingTable.for_caller, [KeyError("a fault")]

    def fail(table: RoutingTable, path: CallerPath) -> RuleRoute | None:
        if failures:
            raise failures.pop()
        return find(table, path)

    def serves() -> bool:
        try:
            return call(port, "/n1/cap/a").status == 200
        except (ConnectionError, http.client.HTTPException):
            return False

    with stub.edge():
        wait_until(serves, "the node is connected")
        monkeypatch.setattr(RoutingTable, "for_caller", fail)
        wait_until(lambda: not serves() and not failures, "the router fails")
        wait_until(serves, "it serves again")
    assert stub.core.hive.restarts()["router"] == 1
