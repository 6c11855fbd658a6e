"""servicebus on the bus with a real store, real applications, and a test in the place of edgehub."""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from unittest.mock import Mock

import msgspec
import pytest

from beehive import Hive, Message, Module, ModuleName, Operation, RealClock, Threads, handles
from beehive.http.forwarding import ForwardedRequest, ForwardedResponse
from beehive.sockets.ports import ListenError
from beehive.testing import Harness
from metamanager.module import MetaManager, MetaSettings
from modules.edge.servicebus import application_calls
from modules.edge.servicebus import module as servicebus
from modules.edge.servicebus.allowed_urls import MOST_URLS, StoredUrls, merged, read_urls
from modules.edge.servicebus.module import OF_APPLICATION, WAITING, ServiceBus, ServiceBusSettings
from tests.end_to_end.processes import wait_until
from tests.metamanager import kubeedge_file
from tests.modules.edge.nodes import RestartedNode
from tests.support.http_application import HttpApplication, raw_server
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

URL = "http://cap.example/call"


class HubStub(Module):
    """Keeps what is for the cloud, and answers applications' requests."""

    name = ModuleName.EDGEHUB
    sent: ClassVar[queue.Queue[Message]] = queue.Queue()
    answer: ClassVar[str | None] = "from the cloud"

    @handles()
    def take(self, message: Message) -> None:
        """Keep a message, and answer it if somebody waits."""
        HubStub.sent.put(message)
        if message.header.sync and self.answer is not None:
            if self.answer.startswith("error"):
                self.respond(message.error(self.clock, self.answer))
            else:
                self.reply(message, self.answer)


class Node(RestartedNode):
    """A node with servicebus; it can be started again on its files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.bound: list[int] = []

    def start(self) -> Node:
        """Start the modules."""
        HubStub.sent, HubStub.answer = queue.Queue(), "from the cloud"
        self.hive = Hive(Threads())
        self.hive.add(MetaManager, MetaSettings(str(self._directory / "edgecore.db")))
        self.hive.add(
            ServiceBus, ServiceBusSettings("n1", port=0, timeout=PATIENCE, own_ports=frozenset({10550})), self.bound
        )
        self.hive.add(HubStub)
        self.hive.start()
        return self

    def tell(self, resource: str, operation: str, content: Any = None, source: str = "router_servicebus") -> Message:
        """Send a message of the cloud."""
        fields = {"source": source, "group": "user"}
        message = Message.new(self.running.clock, resource=resource, operation=operation, content=content, **fields)
        self.running.send(ModuleName.SERVICEBUS, message)
        return message

    def ask(self, resource: str, method: str = "GET", body: bytes = b"", **header: str) -> ForwardedResponse:
        """Send a request of the cloud, and return the answer."""
        content = ForwardedRequest({name: [value] for name, value in header.items()}, body, method)
        asked = self.tell(resource, method, content)
        answer = HubStub.sent.get(timeout=PATIENCE)
        while answer.route.source == ModuleName.METAMANAGER:  # it has acknowledged an object
            answer = HubStub.sent.get(timeout=PATIENCE)
        route = answer.route
        assert (answer.parent_id, route.source, route.group) == (asked.id, "servicebus", "user")
        assert (route.operation, route.resource) == ("upload", "")
        return answer.content_as(ForwardedResponse)

    def store(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        """Let the cloud send an object of the namespace `default`."""
        content = {"metadata": {"name": name, "namespace": "default", "resourceVersion": "1"}, "spec": spec}
        fields = {"source": "devicecontroller", "group": "resource", "resource": f"default/{kind}/{name}"}
        self.running.send("metamanager", Message.new(self.running.clock, operation="update", content=content, **fields))

    def post(self, body: str, **headers: str) -> tuple[int, Any]:
        """The status and the body that an application gets from the local server."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.bound[0], timeout=PATIENCE)) as connection:
            connection.request("POST", "/", body, {"Content-Type": "application/json", **headers})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text.startswith(b"{") else text


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path).start()
    yield made
    made.stop()


def allowed(node: Node, url: str = URL) -> None:
    """Let applications ask for a URL."""
    node.tell(url, Operation.START)
    wait_until(lambda: bool(node.bound), "the local server listens")


def asking(url: str = URL) -> str:
    return json.dumps({"method": "POST", "targetURL": url, "payload": "x"})


def test_an_application_is_called(node: Node) -> None:
    """With method, path, headers and body; its response goes up whole."""
    given = {"Content-Type": "text/x", "X-Target": "cap"}
    with HttpApplication(lambda heard: (404, given, b"got " + heard.body)) as application:
        answer = node.ask(f"{application.port}:/api/sub?q=1", "POST", b"hello", **{"X-Mine": "1"})
        (heard,) = application.heard
    assert (heard.method, heard.target, heard.body) == ("POST", "/api/sub?q=1", b"hello")
    assert (heard.headers["x-mine"], heard.headers["accept"]) == ("1", "*/*")
    assert (answer.status_code, answer.body) == (404, b"got hello")
    assert answer.header is not None
    assert (answer.header["X-Target"], answer.header["Content-Type"]) == (["cap"], ["text/x"])


def test_no_rule_calls_edgecore_itself(node: Node) -> None:
    """The metaserver and the local server here ask programs of this machine for no credentials."""
    allowed(node)
    for port in (node.bound[0], 10550):
        answer = node.ask(f"{port}:/api/v1/secrets")
        assert (answer.status_code, b"edgecore's own" in (answer.body or b"")) == (403, True)


def test_no_method_of_a_mapper_is_called_with_a_value_that_the_model_forbids(node: Node) -> None:
    """However its path is written, nor while a device cannot be read; other paths, and devices without a model, are the
    application's own.
    """
    threshold = {"name": "threshold", "type": "INT", "accessMode": "ReadWrite", "minimum": "0", "maximum": "100"}
    node.store("devicemodel", "model", {"properties": [threshold]})
    node.store("device", "hall", {"deviceModelRef": {"name": "model"}})
    node.store("device", "free", {})
    node.store("device", "odd", {"deviceModelRef": {"name": "model"}, "properties": 7})
    methods = "/api/v1/devicemethod/default"
    with HttpApplication() as application:
        for path, word in (
            (f"{methods}/hall/set/threshold/101", b"out of range"),
            (f"{methods}/hall/set/threshold/%31%30%31?x=1", b"out of range"),
            (f"/{methods}/./h%61ll/set/threshold%2Fx", b"not int"),
            (f"{methods}/hall/set/threshold/100%3Fx=1", b"not int"),
            (f"{methods}/hall/set/other/1", b"no property other"),
            (f"{methods}/odd/set/threshold/1", b"cannot be read"),
        ):
            answer = node.ask(f"{application.port}:{path}")
            assert (answer.status_code, word in (answer.body or b"")) == (400, True), path
        assert application.heard == []
        allowed = [f"{methods}/hall/set/threshold/100", f"{methods}/hall", f"{methods}/free/set/any/7"]
        for path in allowed:
            assert node.ask(f"{application.port}:{path}").status_code == 200
        assert [heard.target for heard in application.heard] == allowed


def test_a_cloud_of_2019_is_understood(node: Node) -> None:
    """The path has no slash, and the method is the operation."""
    with HttpApplication() as application:
        node.tell(f"{application.port}:api", "GET", {"header": None, "body": None}, source="router_rest")
        answer = HubStub.sent.get(timeout=PATIENCE).content_as(ForwardedResponse)
    assert answer.body == b"GET /api "


@pytest.mark.parametrize(
    ("resource", "method"),
    [("api", "GET"), ("0:/api", "GET"), ("65536:/api", "GET"), ("x:/api", "GET"), ("80:api", "GET"), ("80:/a b", "GET"),
     ("80:/ä", "GET"), ("80:/a\r\nX: y", "GET"), ("80:/a", "CONNECT"), ("80:/a", "drain")],
)  # fmt: skip
def test_what_cannot_be_called_is_answered(node: Node, resource: str, method: str) -> None:
    """With 400; nobody is called."""
    assert node.ask(resource, method).status_code == 400


def test_an_application_that_is_not_there_is_answered(node: Node) -> None:
    """With 404, as by KubeEdge; content that is no request with 400."""
    answer = node.ask(f"{free_port()}:/")
    assert (answer.status_code, answer.header) == (
        404,
        {"Content-Type": ["text/plain; charset=utf-8"], "Server": ["kubeedge-edgecore"]},
    )
    node.tell("80:/", "GET", "no request")
    assert HubStub.sent.get(timeout=PATIENCE).content_as(ForwardedResponse).status_code == 400


def test_applications_that_misbehave_are_answered(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stalled one, one that ends in the middle, one with too much; the others are called meanwhile."""
    monkeypatch.setattr(servicebus, "MOST_BODY", 1000)

    def stall(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.recv(65536)

    def cut(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")

    with (
        raw_server(stall) as stalls,
        raw_server(cut) as cuts,
        HttpApplication(lambda _: (200, {}, bytes(2000))) as huge,
    ):
        with monkeypatch.context() as hurried:
            hurried.setattr(servicebus, "APPLICATION_SECONDS", 0.3)
            assert node.ask(f"{stalls}:/").status_code == 504
        assert node.ask(f"{cuts}:/").status_code == 502
        answer = node.ask(f"{huge.port}:/")
    assert (answer.status_code, b"more than 1000 bytes" in (answer.body or b"")) == (502, True)


def test_many_calls_are_too_many(node: Node) -> None:
    """A few wait while others are under way; further ones are answered immediately, and other applications served."""

    def stall(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.recv(65536)

    def answers(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with raw_server(stall) as port, raw_server(answers) as other:
        for _ in range(OF_APPLICATION + WAITING // 2 + 1):
            node.tell(f"{port}:/", "GET", ForwardedRequest(method="GET"))
        assert HubStub.sent.get(timeout=PATIENCE).content_as(ForwardedResponse).status_code == 503
        assert node.ask(f"{other}:/").status_code == 200


def test_an_application_asks_the_cloud(node: Node) -> None:
    """For an allowed URL; the whole request goes up, as KubeEdge's cloud wants it."""
    allowed(node)
    body = asking()
    assert node.post(body) == (
        200,
        {"code": 200, "msg": "receive response from cloud successfully", "body": "from the cloud"},
    )
    sent = HubStub.sent.get(timeout=PATIENCE)
    assert (sent.route.resource, sent.route.operation, sent.content) == (URL, "upload", body.encode())
    why = "url http://other/ is not allowed and please make a rule for this url in the cloud"
    assert node.post(asking("http://other/")) == (200, {"code": 400, "msg": why, "body": ""})
    assert node.post("not json") == (200, {"code": 400, "msg": "invalid params", "body": ""})
    HubStub.answer = "error of the cloud"
    assert node.post(asking()) == (200, {"code": 400, "msg": "error of the cloud", "body": ""})
    assert node.post(asking(), Origin="http://evil.example")[0] == 403
    assert HubStub.sent.qsize() == 1


def test_allowed_urls_outlive_a_restart(node: Node) -> None:
    """What is forbidden again does not, also as KubeEdge's cloud writes it."""
    allowed(node)
    allowed(node, "http://old.example/")
    node.tell("http:/old.example/", Operation.STOP)
    wait_until(lambda: node.post(asking("http://old.example/"))[1]["code"] == 400, "it is forbidden again")
    node.stop()
    node.start()
    wait_until(lambda: _answers(node), "the local server listens again")
    assert node.post(asking())[1]["code"] == 200
    assert node.post(asking("http://old.example/"))[1]["code"] == 400


def _answers(node: Node) -> bool:
    try:
        return node.post("x")[0] == 200
    except ConnectionError:
        return False


def test_a_stop_waits_for_no_answer_of_the_cloud(node: Node) -> None:
    """The thread of the application's connection ends with the module."""
    allowed(node)
    HubStub.answer = None
    results: queue.Queue[None] = queue.Queue()
    runtime = Threads()

    def ask() -> None:
        with contextlib.suppress(ConnectionError, http.client.HTTPException):
            node.post(asking())
        results.put(None)

    runtime.call(ask, name="application")
    HubStub.sent.get(timeout=PATIENCE)
    connections = [each for each in threading.enumerate() if each.name == "http-connection"]
    node.stop()
    for each in connections:
        each.join(PATIENCE / 2)  # the answer would be waited for longer
    assert not any(each.is_alive() for each in connections)
    results.get(timeout=PATIENCE)
    runtime.close()


def test_applications_wait_for_no_module_that_has_ended() -> None:
    """One that is started again has other requests. The server's stop waits for their threads, so they end before."""
    parts = Mock()
    ServiceBus.on_end(cast("Any", SimpleNamespace(_server=parts.server, _requests=parts.requests)))
    assert [name for name, *_ in parts.mock_calls] == ["requests.end_all", "server.stop"]


def test_the_bounds_are_kubeedges() -> None:
    """Ten seconds and five million bytes; the local server's body too."""
    assert (application_calls.APPLICATION_SECONDS, application_calls.MOST_BODY) == (10.0, 5_000_000)


def test_the_urls_of_kubeedge_s_edgecore_are_taken_over(tmp_path: Path) -> None:
    """At each change of hands: what it has added and removed meanwhile; what the cloud has forbidden here stays so."""
    file = tmp_path / "edgecore.db"
    kubeedge_file.make(file)
    kubeedge_file.allow(file, URL, "http://other.example")
    first = Node(tmp_path).start()
    wait_until(lambda: bool(first.bound), "the local server listens")
    assert first.post(asking())[1]["code"] == 200
    first.tell("http://other.example", Operation.STOP)
    wait_until(lambda: first.post(asking("http://other.example"))[1]["code"] == 400, "the URL is forbidden")
    first.stop()
    second = Node(tmp_path).start()
    wait_until(lambda: bool(second.bound), "the local server listens")
    assert [second.post(asking(url))[1]["code"] for url in (URL, "http://other.example")] == [200, 400]
    second.stop()
    kubeedge_file.allow(file, "http://third.example", "http://other.example")
    third = Node(tmp_path).start()
    wait_until(lambda: bool(third.bound), "the local server listens")
    assert [third.post(asking(url))[1]["code"] for url in ("http://third.example", URL)] == [200, 400]
    third.stop()


def test_urls_that_nothing_can_call_are_left_out() -> None:
    row = msgspec.json.encode({"urls": ["http://a", "", "http://b\n"], "kubeedge": ["http://a" * 1000, "http://c"]})
    assert read_urls(row) == StoredUrls(["http://a"], ["http://c"])


def test_the_urls_of_both_are_no_more_than_those_of_one() -> None:
    own = [f"http://own.example/{number}" for number in range(MOST_URLS - 1)]
    found = merged(StoredUrls(own), [URL, "http://other.example"])
    assert found.urls == [*own, URL]


def test_what_has_ended_gives_its_room_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also calls that failed or had no place; otherwise a node would refuse all calls some day."""
    monkeypatch.setattr(servicebus, "MOST_BYTES", 10)
    with monkeypatch.context() as full:
        full.setattr("beehive.bounded_calls.BoundedCalls.submit", lambda *_: False)
        assert node.ask(f"{free_port()}:/", "POST", b"sixes!").status_code == 503
    for _ in range(3):
        assert node.ask(f"{free_port()}:/", "POST", b"sixes!").status_code == 404
    assert node.ask(f"{free_port()}:/", "POST", b"these ten!").status_code == 404
    assert node.ask(f"{free_port()}:/", "POST", b"more than ten").status_code == 503


@pytest.mark.parametrize("port", [1, 65535])
def test_a_header_of_the_caller_is_not_doubled(port: int) -> None:
    """At any port."""
    content = ForwardedRequest({"Accept": ["text/html"]}, b"", "GET")
    fields = {"source": "router_servicebus", "group": "user", "operation": "GET"}
    call = application_calls.call_of(Message.new(RealClock(), resource=f"{port}:/", content=content, **fields))
    assert (call.port, call.headers) == (port, (("Accept", "text/html"),))


def test_a_busy_port_is_tried_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servicebus, "_AGAIN_AFTER", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        node.bound.append(port)
        node.tell(URL, Operation.START)
        node.ask("1:/")  # the URL is allowed, and the port was tried
    wait_until(lambda: _answers(node), "the local server listens")


@pytest.mark.parametrize("missing", ["port", "certificate"])
def test_urls_that_come_while_nothing_can_listen_add_no_tries(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    tries = []

    def taken(*_: Any) -> socket.socket:
        tries.append(bee.clock.monotonic())
        raise ListenError("cannot serve on", "127.0.0.1:9060", "taken") if missing == "port" else FileNotFoundError

    stored = Stored(bee, monkeypatch, listens=True)
    monkeypatch.setattr(servicebus, "listen_tcp" if missing == "port" else "_context", taken)
    bee.start()
    bee.run_for(1)
    for name in "abc":
        stored.tell(f"http://{name}.example/", "start")
    bee.run_for(10)
    assert len(tries) == 3
    assert tries[2] - tries[1] == tries[1] - tries[0] == 5.0


class Stored:
    """servicebus alone on the bus; the node's store answers what a test gives it, and nothing listens."""

    def __init__(
        self, bee: Harness, monkeypatch: pytest.MonkeyPatch, *urls: str, kubeedge: str = "", listens: bool = False
    ) -> None:
        self.bee = bee
        self.is_broken = False
        self._rows = {"urls": list(urls), "kubeedge": [kubeedge] if kubeedge else []}
        if not listens:
            monkeypatch.setattr(ServiceBus, "_listen", lambda _self: None)
        bee.answer(ModuleName.METAMANAGER, self._answer)
        bee.add(ServiceBus, ServiceBusSettings("n1", port=0))

    def _answer(self, request: Message) -> Message:
        if self.is_broken:
            return request.error(self.bee.clock, "database or disk is full")
        if request.route.operation == "update":
            return request.reply(self.bee.clock, source="metamanager")
        urls = self._rows[request.route.resource.rpartition("/")[2]]
        return request.reply(self.bee.clock, [json.dumps({"urls": urls})], source="metamanager")

    def tell(self, url: str, operation: str) -> None:
        """Send a message of the cloud."""
        fields = {"source": "router_servicebus", "group": "user"}
        self.bee.send(ModuleName.SERVICEBUS, self.bee.message(url, operation, None, **fields), wait=1)

    def kept(self) -> list[str]:
        """The URLs that were stored last."""
        return (self.all_kept() or [[]])[-1]

    def all_kept(self) -> list[list[str]]:
        """The URLs that were to be stored, each time."""
        stored = [each for each in self.bee.sent_to(ModuleName.METAMANAGER) if each.route.operation == "update"]
        return [json.loads(each.content_bytes())["urls"] for each in stored]


def test_a_store_that_cannot_be_read_loses_no_url(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it keep one that the cloud has forbidden meanwhile."""
    old, gone, kubeedge = (f"http://{name}.example/" for name in ("old", "gone", "kubeedge"))
    stored = Stored(bee, monkeypatch, old, gone, kubeedge=kubeedge)
    stored.is_broken = True
    bee.start()
    stored.tell(gone, "stop")
    stored.tell(URL, "start")
    stored.is_broken = False
    bee.run_for(10)
    assert stored.all_kept() == [[old, gone, kubeedge], [old, kubeedge], [old, kubeedge, URL]]


def test_urls_that_cannot_be_stored_are_stored_later(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the cloud has forbidden would be allowed again after the next restart."""
    stored = Stored(bee, monkeypatch, URL, *(others := ["http://a.example/", "http://b.example/"]))
    bee.start()
    stored.is_broken = True
    for url in (URL, others[0]):
        stored.tell(url, "stop")
    bee.run_for(6)
    stored.is_broken = False
    bee.run_for(60)
    assert stored.all_kept() == [others, *[others[1:]] * 3]


def test_what_the_cloud_says_before_the_store_is_read_is_bounded(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it says again takes no more room: else a URL that it forbids then would stay allowed."""
    monkeypatch.setattr(servicebus, "MOST_URLS", 2)
    stored = Stored(bee, monkeypatch)
    stored.is_broken = True
    bee.start()
    for url, operation in (
        ("http://a.example/", "start"),
        ("http://b.example/", "start"),
        ("http://a.example/", "start"),
        ("http://c.example/", "start"),
        ("http://b.example/", "stop"),
    ):
        stored.tell(url, operation)
    stored.is_broken = False
    bee.run_for(10)
    assert stored.kept() == ["http://a.example/"]


def test_urls_are_bounded(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Stored(bee, monkeypatch, *(f"http://{number}.example/" for number in range(MOST_URLS - 1)))
    bee.start()
    bee.run_for(1)
    for name in ("last", "more"):
        stored.tell(f"http://{name}.example/", "start")
    assert stored.kept()[-1] == "http://last.example/"


def test_the_url_itself_is_forbidden_before_one_like_it(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """KubeEdge's cloud writes one slash for several."""
    stored = Stored(bee, monkeypatch, "http:/a.example/x", "http://a.example/x")
    bee.start()
    bee.run_for(1)
    stored.tell("http:/a.example/x", "stop")
    assert stored.kept() == ["http://a.example/x"]


def test_a_call_at_which_the_module_fails_is_answered(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    bee.expect_failures("of this test")
    Stored(bee, monkeypatch)
    monkeypatch.setattr(servicebus, "call_of", Mock(side_effect=ValueError("of this test")))
    bee.start()
    bee.send(ModuleName.SERVICEBUS, bee.message("80:/", "GET", source="router_servicebus", group="user"), wait=60)
    (answer,) = bee.sent_to(ModuleName.EDGEHUB)
    assert answer.content_as(ForwardedResponse).status_code == 502


def test_a_method_of_a_mapper_is_not_called_while_the_model_cannot_be_read(
    bee: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = Stored(bee, monkeypatch)
    bee.start()
    bee.run_for(1)
    stored.is_broken = True
    target = "7777:/api/v1/devicemethod/default/d1/set/p/1"
    content = ForwardedRequest({}, b"", "GET")
    fields = {"source": "router_servicebus", "group": "user"}
    bee.send(ModuleName.SERVICEBUS, bee.message(target, "GET", content, **fields), wait=1)
    (answer,) = bee.sent_to(ModuleName.EDGEHUB)
    assert answer.content_as(ForwardedResponse).status_code == 400


@pytest.mark.parametrize(
    ("operation", "source", "is_answered"),
    [("GET", "router_rest", True), ("POST", "router_servicebus", True), ("start", "router_servicebus", False)],
)
def test_a_call_that_finds_no_room_is_answered(operation: str, source: str, *, is_answered: bool) -> None:
    """The cloud would wait for it until its time-out. The URLs that it allows have no answer."""
    with Harness() as bee:
        bee.add(ServiceBus, ServiceBusSettings("n1"))
        bee.start()
        inbox = bee.hive.slot(ModuleName.SERVICEBUS).inbox
        inbox._capacity = inbox._put_timeout = 0
        asked = bee.message("8080/x", operation, b"", source=source, group="user")
        bee.send(ModuleName.SERVICEBUS, asked)
        answers = bee.sent_to("hub")
        assert len(answers) == is_answered
        for answer in answers:
            assert (answer.parent_id, answer.route.operation, answer.route.group) == (asked.id, "upload", "user")
            assert answer.content_as(ForwardedResponse).status_code == 503
