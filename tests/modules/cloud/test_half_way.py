"""What records, streams, sign-ins and servers of the cloud leave when a call fails unforeseen."""

import socket
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from beehive.errors import StartError
from beehive.http.connections import Phase
from beehive.http.errors import HttpStatusError
from beehive.http.responses import Stream
from beehive.http.server import RequestHead
from beehive.simulation import Simulation
from beehive.testing import Harness
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints import web_socket_streams
from modules.cloud.apiserver.endpoints.web_socket_streams import in_web_socket
from modules.cloud.audit.recording import AuditRecord
from modules.cloud.authentication.oidc.code_flow import CodeFlow, SignInCode
from modules.cloud.cloudhub.certificates import https
from modules.cloud.cloudhub.certificates.https import _Server
from modules.cloud.cloudstream import opening
from modules.cloud.cloudstream.errors import NoTunnelError
from modules.cloud.cloudstream.module import CloudStream
from modules.cloud.cloudstream.opening import Gathering, NodeStreams
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.server import WebsocketServer
from tests.modules.cloud.cloudstream.test_tunnels import Node
from tests.support.failing import Failing, PlannedError, census

NOTHING: Any = None


def _fail(*_: object, **__: object) -> Any:
    raise MemoryError


def _record(monkeypatch: pytest.MonkeyPatch) -> tuple[AuditRecord, list[int]]:
    """A record, and the codes that it has been told."""
    record, told = AuditRecord(cast("Any", object()), NOTHING, 0.0, "id"), list[int]()
    monkeypatch.setattr(record, "end", lambda code, **_: told.append(code))
    return record, told


@pytest.mark.parametrize(("error", "code"), [(HttpStatusError(409, "write"), 409), (RuntimeError("of this test"), 500)])
def test_a_request_that_fails_is_in_the_audit_log(monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
    record, told = _record(monkeypatch)
    with pytest.raises(type(error)):
        record.run(Failing(0, error).call(_fail))
    assert told == [code]


def test_a_stream_whose_end_fails_has_ended_in_the_audit_log(monkeypatch: pytest.MonkeyPatch) -> None:
    record, told = _record(monkeypatch)
    stream = cast("Stream", record.run(lambda: Stream("text/plain", NOTHING, _fail)))
    with pytest.raises(MemoryError):
        stream.done()
    assert told == [200, 200]


def test_an_answer_that_cannot_be_sent_in_messages_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log or watch would be read for nobody."""
    ended = list[str]()
    error = ApiStatusError(400, "no handshake")
    monkeypatch.setattr(web_socket_streams, "_handshake", Failing(0, error).call(_fail))
    with pytest.raises(ApiStatusError):
        in_web_socket(
            cast("Any", SimpleNamespace(flag=lambda _: True)),
            Stream("text/plain", NOTHING, lambda: ended.append("log")), NOTHING,
        )  # fmt: skip
    assert ended == ["log"]


def test_a_sign_in_that_fails_gives_its_place_back() -> None:
    flow = cast("Any", CodeFlow.__new__(CodeFlow))
    flow._endpoints = lambda: SimpleNamespace(token_endpoint="")
    flow._counting, flow._exchanging, flow._exchanged = threading.Lock(), Counter(), _fail
    with pytest.raises(MemoryError):
        flow.exchange(SignInCode("code", "v" * 43, "nonce"), "")
    assert not flow._exchanging


def test_who_asks_without_a_body_has_the_time_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece of a bundle over a slow line takes longer than a request."""
    entered = list[object]()
    monkeypatch.setattr(https, "peer_certificate", lambda _: None)
    server = SimpleNamespace(connections=SimpleNamespace(enter=lambda *of: entered.append(of)), respond=lambda _: None)
    handler = SimpleNamespace(server=server, client_address=("192.0.2.1", 1, "place"), request=None)
    https._Handler._response(cast("Any", handler), RequestHead("GET", "/ca.crt", (), "1.1"), NOTHING)
    assert entered == [("place", Phase.ANSWERED)]


def test_a_connection_without_a_place_is_closed() -> None:
    closed = list[object]()
    server = SimpleNamespace(connections=SimpleNamespace(accept=lambda *_: None), close_request=closed.append)
    with socket.socket() as request:
        _Server.process_request(cast("Any", server), request, ("192.0.2.1", 1))
        assert closed == [request]


def test_a_handshake_that_fails_gives_its_place_back() -> None:
    removed = list[str]()
    server = SimpleNamespace(connections=SimpleNamespace(remove=removed.append), _context=SimpleNamespace())
    server._context.wrap_socket = _fail
    request = SimpleNamespace(settimeout=lambda _: None)
    with pytest.raises(MemoryError):
        _Server.process_request_thread(cast("Any", server), request, ("192.0.2.1", 1, "place"))
    assert removed == ["place"]


def test_a_server_whose_thread_fails_closes_its_connections() -> None:
    """Nodes would wait at them in place of dialling again."""
    closed = list[str]()
    ends = SimpleNamespace(settimeout=lambda _: None)
    server = SimpleNamespace(
        _waker=ends, _woken=ends, _listening=ends, _selector=SimpleNamespace(register=lambda *_: None),
        _stopping=False, _poll=_fail, _close_all=lambda: closed.append("all"),
    )  # fmt: skip
    with pytest.raises(MemoryError):
        WebsocketServer._run(cast("Any", server))
    assert closed == ["all"]


def test_tunnels_end_where_no_streams_can_be_served() -> None:
    ended = list[str]()
    server = SimpleNamespace(address=("", 10004), stop=lambda: ended.append("tunnels"))
    with Harness() as bee, pytest.raises(StartError):
        bee.expect_failures("MemoryError")
        bee.start(CloudStream, Tunnels(bee.clock), lambda *_: server, SimpleNamespace(start=_fail))
    assert ended == ["tunnels"]


def test_a_stream_that_cannot_be_requested_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node would be refused further ones for good."""
    tunnels = Tunnels(Simulation(0).clock)
    node = Node(tunnels)
    before = census((tunnels,))
    for error in (PlannedError(), MemoryError()):
        monkeypatch.setattr(node.link, "send", Failing(0, error).call(lambda _: None))
        with pytest.raises((NoTunnelError, MemoryError)):
            node.open()
    assert not census((tunnels,)).more_than(before)


class _Ends:
    """The end of a stream that notes its closing."""

    is_over = False

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        """Count the closings."""
        self.closed += 1


def test_a_pod_that_cannot_be_asked_leaves_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, streams = _Ends(), cast("Any", NodeStreams.__new__(NodeStreams))
    streams._clock, streams._upgraded = None, lambda *_: SimpleNamespace(stream=stream, rest=b"")
    monkeypatch.setattr(opening, "pod_connection", _fail)
    monkeypatch.setattr(opening, "proxied", lambda connect, *_: connect())
    monkeypatch.setattr(msgspec.structs, "replace", lambda *_, **__: None)
    with pytest.raises(MemoryError):
        streams.proxy("n1", SimpleNamespace(namespace="default", pod="web"), None, None)
    assert stream.closed == 1


def test_a_question_to_nodes_that_fails_leaves_no_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = cast("Any", _Ends())
    with socket.socket() as there:
        stream.fileno = there.fileno
        tunnels = SimpleNamespace(has=lambda _: True, open=lambda *_: stream)
        question = Gathering(cast("Any", tunnels), Simulation(0).clock, "/stats", NOTHING)
        monkeypatch.setattr(question, "_read_answers", _fail)
        with pytest.raises(MemoryError):
            question.run(["n1"])
    assert stream.closed == 1
