"""The recorded cloud and edge of rules (r1, r3, r4 and r5 of the captures), each with ours in the place of the other.

Ours differs where KubeEdge's is wrong: a call is made once whatever its status, a URL is forbidden again with its Rule,
and the target of an application gets what the application has posted, not base64 of it. KubeEdge v1.23 repeats a call
with any status but 200 up to three times (`cloud/pkg/router/listener/http.go`, kubeedge/kubeedge#7325).
"""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from beehive import Message
from beehive.decoding import convert
from edgehub.dispatch import Decision, Step, decide
from modules.cloud.router import status_writer
from modules.processes.cloudcore.config import RouterConfig
from tests.end_to_end.processes import wait_until
from tests.interop.forms import form_of
from tests.interop.traces import KUBEEDGE, lines_of
from tests.modules.cloud.router.rules import from_url, to_service, to_topic
from tests.modules.edge.servicebus.test_servicebus import HubStub, Node
from tests.modules.processes.cloudcore.routes import RuleAuthors, call
from tests.modules.processes.cloudcore.stubs import Edge, Stub
from tests.support.http_application import Heard, HttpApplication
from tests.support.patience import PATIENCE

Json = dict[str, Any]
REST_EVENTBUS, REST_SERVICEBUS, SERVICEBUS_REST, DELETED = (
    KUBEEDGE / f"{name}.jsonl"
    for name in ("r1-rest-eventbus", "r3-rest-servicebus", "r4-servicebus-rest", "r5-rules-deleted")
)
NODE = "cap-edge"


def of_rules(path: Path) -> list[Json]:
    """The lines of a file that are about rules: HTTP at both ends, and messages of the group user."""
    return [
        line
        for line in lines_of(path)
        if line.get("listener") == "local" or (line["kind"] == "ws" and line["msg"]["route"].get("group") == "user")
    ]


def requests(path: Path) -> Iterator[tuple[Json, list[Json]]]:
    """Each request of a client, with the lines up to the next one."""
    lines = of_rules(path)
    starts = [at for at, line in enumerate(lines) if line.get("dir") == "client->cloud"]
    for at, following in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[at], lines[at + 1 : following]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(status_writer, "FIRST", 0.05)
    with Stub(tmp_path, router=RouterConfig(port=0)) as made:
        authors = RuleAuthors(made.client)
        authors.wait()
        authors.apply_endpoints()
        authors.apply(to_topic(), to_service())
        yield made


def _connected(stub: Stub, edge: Edge) -> None:
    port = stub.core.callers_port
    wait_until(lambda: call(port, f"/{NODE}/cap/a/ready").status == 200, "the node is connected")
    while edge.receive().route.resource != "capt/ready":
        pass


def _compare(ours: Message, recorded: Json) -> None:
    route = recorded["route"]
    found = (ours.route.source, ours.route.group, ours.route.operation, ours.route.resource)
    assert found == (route["source"], route["group"], route["operation"], route["resource"])
    assert ours.header.resourceversion == ""


def test_our_cloud_publishes_what_kubeedges_did(stub: Stub) -> None:
    """Message by message, with the same answers for callers; without a node they get one error."""
    with stub.edge(NODE) as edge:
        _connected(stub, edge)
        for request, following in requests(REST_EVENTBUS):
            method, url = request["line"].split(" ", 1)
            target = url[len("http://127.0.0.1:9443") :]
            got = call(stub.core.callers_port, target, method, request["body"]["text"].encode())
            told = next(line for line in following if line["kind"] == "local-http-response")
            assert got.status == {500: 503}.get(told["status"], told["status"])
            sent = [line["msg"] for line in following if line["kind"] == "ws"]
            for each in sent:
                ours = edge.receive()
                _compare(ours, each)
                assert ours.content_as(str) == each["content"]
            assert sent or got.status in (404, 503)


def test_our_cloud_calls_applications_as_kubeedges_did(stub: Stub) -> None:
    """With the recorded edge's answers; a 404 is passed on, and not asked for three times."""
    with stub.edge(NODE) as edge:
        _connected(stub, edge)
        for request, following in requests(REST_SERVICEBUS):
            method, url = request["line"].split(" ", 1)
            asked, answer = [line["msg"] for line in following if line["kind"] == "ws"][:2]
            thread = threading.Thread(target=_answer, args=(edge, asked, answer), daemon=True)
            thread.start()
            body = request["body"]["text"].encode() or None
            target = url[len("http://127.0.0.1:9443") :]
            got = call(stub.core.callers_port, target, method, body, headers=dict(request["headers"]))
            thread.join()
            assert got.status == answer["content"]["status_code"]
            assert got.headers["x-target"] == "cap"
            assert json.loads(got.body)["hello"] == "from the target"


def _answer(edge: Edge, recorded: Json, answer: Json) -> None:
    """Be the recorded edge: compare a request with the recorded one, and answer as it did."""
    ours = edge.receive()
    _compare(ours, recorded)
    said: Json = json.loads(bytes(ours.content_raw()))
    wanted = recorded["content"]
    assert (said["method"], said["url"], said["body"]) == (wanted["method"], wanted["url"], wanted["body"])
    own = {"User-Agent", "Accept-Encoding", "Connection", "Content-Length"}  # of the recorded client's connection
    assert set(wanted["header"]) - set(said["header"]) <= own
    header = answer["header"] | {"parent_msg_id": ours.id}
    edge.send(convert({**answer, "header": header}, Message))


def test_our_cloud_serves_the_recorded_application(stub: Stub) -> None:
    """Start, the calls of the recorded edge, and stop, which has the whole URL; a later call is refused."""
    with HttpApplication(lambda heard: (200, {}, heard.body)) as target:
        authors = RuleAuthors(stub.client)
        messages = [line["msg"] for line in of_rules(SERVICEBUS_REST) if line["kind"] == "ws"]
        with stub.edge(NODE) as edge:
            _connected(stub, edge)
            authors.apply(from_url(f"http://127.0.0.1:{target.port}/fromedge", node=NODE))
            started = edge.next()
            _compare(started, messages[0])
            is_deleted = False
            for recorded in messages[1:]:
                operation = recorded["route"]["operation"]
                if operation == "stop":
                    authors.delete("r4")
                    stopped = edge.next()
                    assert (stopped.route.operation, stopped.route.resource) == ("stop", started.route.resource)
                    is_deleted = True
                elif operation == "upload":
                    answer = edge.answer_to(convert(recorded, Message))
                    assert answer.route.operation == ("error" if is_deleted else "response")
                    assert answer.route.resource == recorded["route"]["resource"]
                    assert isinstance(answer.content_as(str), str)
        assert [(heard.method, heard.body) for heard in target.heard] == [("POST", b"aGVsbG8="), ("GET", b"")]


def test_rules_of_callers_end_without_a_message() -> None:
    """As recorded: nothing of the group user goes to the node."""
    assert of_rules(DELETED) == []


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path).start()
    yield made
    made.stop()


def test_our_edge_answers_the_recorded_cloud(node: Node) -> None:
    """Each request reaches the application as it did, and the answer has the recorded form."""
    lines = of_rules(REST_SERVICEBUS)
    body = b'{"hello":"from the target","got":0}\n'

    def answer(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        status = 404 if heard.target.endswith("nothere") else 200
        return status, {"Content-Type": "application/json", "X-Target": "cap"}, body

    with HttpApplication(answer) as application:
        asked = [line["msg"] for line in lines if line["kind"] == "ws" and line["dir"] == "cloud->edge"]
        answers = {line["msg"]["header"]["parent_msg_id"]: line["msg"] for line in lines if _is_answer(line)}
        for recorded in asked:
            came = convert(recorded, Message)
            assert decide(came) == Decision(Step.SEND, "servicebus")
            resource = recorded["route"]["resource"].replace("18832", str(application.port))
            sent = node.tell(resource, recorded["route"]["operation"], recorded["content"])
            ours, theirs = HubStub.sent.get(timeout=PATIENCE), answers[recorded["header"]["msg_id"]]
            assert ours.parent_id == sent.id
            assert ours.route.resource == theirs["route"].get("resource", "")
            _compare_answer(ours, theirs)
        reached = [(heard.method, heard.target) for heard in application.heard]
    local = [line["line"].split()[:2] for line in lines if line.get("dir") == "edge->target"]
    assert reached == [(method, target) for method, target in local]


def _is_answer(line: Json) -> bool:
    return bool(line["kind"] == "ws" and line["dir"] == "edge->cloud")


def _compare_answer(ours: Message, theirs: Json) -> None:
    route = theirs["route"]
    assert (ours.route.source, ours.route.group, ours.route.operation) == (
        route["source"], route["group"], route["operation"],
    )  # fmt: skip
    content, wanted = json.loads(bytes(ours.content_raw())), theirs["content"]
    assert content["status_code"] == wanted["status_code"]
    assert form_of({**wanted, "header": {}}) == form_of({**content, "header": {}})
    assert set(wanted["header"]) - {"Content-Length"} <= set(content["header"])


def test_our_edge_serves_the_recorded_application(node: Node) -> None:
    """Each request goes up as it did, with the recorded answers of the cloud; after `stop` none does."""
    lines = of_rules(SERVICEBUS_REST)
    from_cloud = [line["msg"] for line in lines if line["kind"] == "ws" and line["dir"] == "cloud->edge"]
    answers = [each["content"] for each in from_cloud if each["route"]["operation"] == "response"]
    uploads = [line["msg"] for line in lines if _is_answer(line)]
    is_stopped = False
    for line in lines:
        if line["kind"] == "ws" and line["dir"] == "cloud->edge" and not line["msg"]["header"].get("parent_msg_id"):
            route = line["msg"]["route"]
            assert decide(convert(line["msg"], Message)) == Decision(Step.SEND, "servicebus")
            node.tell(route["resource"], route["operation"])
            is_stopped = route["operation"] == "stop"
            if not is_stopped:
                wait_until(lambda: bool(node.bound), "the local server listens")
        elif line.get("dir") == "application->edge" and not is_stopped:
            _ask(node, line, answers, uploads)
    wait_until(lambda: _code(node, lines) == 400, "the URL is forbidden again")


def _code(node: Node, lines: list[Json]) -> int:
    last = [line for line in lines if line.get("dir") == "application->edge"][-1]
    code: int = node.post(last["body"]["text"])[1]["code"]
    return code


def _ask(node: Node, line: Json, answers: list[Any], uploads: list[Json]) -> None:
    HubStub.answer = answers[0]
    assert urlsplit(line["line"].split()[1]).port == 9060
    body = line["body"]["text"]
    status, told = node.post(body)
    assert status == 200
    if told["code"] == 200:
        sent, recorded = HubStub.sent.get(timeout=PATIENCE), uploads.pop(0)
        _compare(sent, recorded)
        assert json.loads(bytes(sent.content_raw())) == recorded["content"]
        assert told["body"] == answers.pop(0)
    else:
        assert "cap.example/other" in told["msg"] or told["msg"] == "invalid params"
