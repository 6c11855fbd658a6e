"""The module alone on the bus, with a test in the place of edgecontroller, cloudhub, nodes and servers."""

from base64 import b64encode
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import count
from typing import Any

import pytest
from msgspec import Raw

from beehive import Message, ModuleName
from beehive.clock import RealClock
from beehive.http.call import CallFailedError, HttpCall, HttpReply
from beehive.runtime import Future
from beehive.testing import Harness
from modules.apimachinery.limits import NODE_VALUES
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.messages import CLOUDCORES, HANDLED, NODES, Cloudcores, ConnectEvent, NodeConnection
from modules.cloud.refusals import Refusals
from modules.cloud.router import deliveries
from modules.cloud.router.deliveries import UploadError, call_of_application, call_of_message
from modules.cloud.router.module import CALLED, REST_SECONDS, CloudRouter
from modules.cloud.router.other_cloudcores import OtherCloudcores
from modules.cloud.router.paths import read_path
from modules.cloud.router.records import TargetUrl
from modules.cloud.router.rest_service import RestAnswer, RestCall
from modules.cloud.router.status_writer import INTERVAL
from modules.cloud.router.waiting_calls import MOST_OF_RULE
from tests.modules.cloud.router.rule_server import RuleServer
from tests.modules.cloud.router.rules import endpoints, from_topic, from_url, to_service, to_topic
from tests.support.failing import left_by_repeating
from tests.support.presence import present

Json = dict[str, Any]
URL = "http://server.example/x"


class Cloud:
    """Answers in edgecontroller's and cloudhub's place; has what the router has sent to nodes."""

    def __init__(
        self, bee: Harness, *rules: Json, connected: tuple[str, ...] = ("n1",), others: OtherCloudcores | None = None
    ) -> None:
        self.bee = bee
        self.rules = {each["metadata"]["name"]: deepcopy(each) for each in rules}
        self.refusals = Refusals(bee.clock)
        self.writes: list[Json] = []
        self._connected = connected
        bee.answer(ModuleName.EDGECONTROLLER, self._answer)
        bee.answer(ModuleName.CLOUDHUB, self._nodes)
        self._server = RuleServer(*endpoints(), *self.rules.values())
        bee.add(CloudRouter, self.refusals, self._server.connect, others=others)
        bee.start()
        bee.run_for(2.0)

    def change(self, change: str, obj: Json) -> None:
        """A changed object."""
        self._server.change(change, obj)
        self.bee.settle()

    def list_again(self) -> int:
        """The API server ends the watches, whose versions it no longer has; return the number of new ones."""
        number = self._server.expire()
        self.bee.run_for(60.0)
        return self._server.watched - number

    def connection(self, operation: str, node: str = "n1") -> None:
        """A node connects or disconnects."""
        event = ConnectEvent(operation, 0, node)
        message = self.bee.message(f"node/{node}", operation, event, source=ModuleName.CLOUDHUB)
        self.bee.send(ModuleName.ROUTER, message)

    def begin(self, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> Future[Message]:
        """A caller's request; the answer comes later."""
        path = read_path(target)
        assert path is not None
        return self.ask(RestCall(method, path, tuple(headers.items()), body))

    def ask(self, call: RestCall) -> Future[Message]:
        """The same, as the HTTP server passes it on."""
        asked = self.bee.message("router/rest", CALLED, call, source=ModuleName.ROUTER)
        future = self.bee.future(ModuleName.ROUTER, asked, 2 * REST_SECONDS)
        self.bee.settle()
        return future

    def call(self, target: str, method: str = "GET", body: bytes = b"", **headers: str) -> tuple[int, str]:
        """The status and the body that a caller gets."""
        return result(self.begin(target, method, body, **headers))

    def down(self) -> list[Message]:
        """What went to nodes."""
        return [each for each in self.bee.sent_to(ModuleName.CLOUDHUB) if each.route.resource.startswith("node/")]

    def steps(self) -> list[tuple[str, str, str]]:
        """The same in short."""
        return [(each.route.source, each.route.operation, each.route.resource) for each in self.down()]

    def up(self, resource: str, content: Any, node: str = "n1", parent: str = "") -> Message:
        """A message of a node, as cloudhub passes it on."""
        fields = {"source": f"system:node:{node}", "group": "user", "parent_id": parent}
        message = self.bee.message(f"node/{node}/{resource}", "upload", content, **fields)
        self.bee.send(ModuleName.ROUTER, message)
        return message

    def status(self, name: str) -> Json:
        """The stored status of a Rule."""
        return dict(self.rules[name].get("status") or {})

    def _answer(self, message: Message) -> Message | None:
        if message.route.operation == CLOUDCORES:
            found = Cloudcores("here", ("here", "there"), {"n2": "there", "n3": "gone"})
            return message.reply(self.bee.clock, found)
        return message.reply(self.bee.clock, self._serve(message.content_as(ApiCall)))

    def _serve(self, call: ApiCall) -> ApiResult:
        if call.plural != "rules":
            return ApiResult({})
        if call.name not in self.rules:
            return ApiResult(refusal={"code": 404})
        if call.verb == "update":
            self.rules[call.name] = deepcopy(call.body)
            self.writes.append(call.body["status"])
        return ApiResult(deepcopy(self.rules[call.name]))

    def _nodes(self, message: Message) -> Message | None:
        if message.route.operation != NODES:
            return None
        return message.reply(self.bee.clock, [NodeConnection(each, 1.0, 1.0) for each in self._connected])


def result(future: Future[Message]) -> tuple[int, str]:
    """The status and the body of an answer."""
    assert future.settled, "there is no answer yet"
    answer = future.get().content_as(RestAnswer)
    return answer.status, answer.body.decode().strip()


Server = Callable[[HttpCall], HttpReply]


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What servers answer, one after the other: replies or errors; then what they were asked."""
    script: list[Any] = []
    asked: list[HttpCall] = []

    def perform(call: HttpCall, *_rest: Any, **_bounds: Any) -> HttpReply:
        asked.append(call)
        answer = script.pop(0)
        if isinstance(answer, CallFailedError):
            raise answer
        reply: HttpReply = answer
        return reply

    monkeypatch.setattr(deliveries, "perform", perform)
    yield script
    script.extend(asked)


def ok(body: bytes = b"ok", status: int = 200) -> HttpReply:
    return HttpReply(status, (), body)


def lost(*, sent: bool) -> CallFailedError:
    return CallFailedError("POST http://server.example/x", "it broke", sent=sent)


def test_a_caller_publishes(bee: Harness) -> None:
    """The rest of the path, with its query, is part of the topic, as with KubeEdge; nobody waits for the broker."""
    cloud = Cloud(bee, to_topic())
    assert cloud.call("/n1/cap/a", "POST", b"hello") == (200, "message delivered")
    assert cloud.call("/n1/cap/a/sub?x=1", "POST", b"x") == (200, "message delivered")
    steps = [("router_eventbus", "publish", "node/n1/capt"), ("router_eventbus", "publish", "node/n1/capt/sub?x=1")]
    assert cloud.steps() == steps
    assert (cloud.down()[0].content, cloud.down()[0].route.group) == ("hello", "user")
    assert cloud.call("/n1/cap/a", "POST", b"\xff")[0] == 415
    assert cloud.call("/n1/cap/a/%2B")[0] == 200
    assert cloud.call("/n1/cap/a?+")[0] == 400


@pytest.mark.parametrize(
    ("path", "topic", "target"),
    [
        ("", "t", "/api"), ("/", "t/", "/api/"), ("?x=1", "t/?x=1", "/api?x=1"), ("/b/?x=1", "t/b/?x=1", "/api/b/?x=1"),
        ("/b:c?t=10:30", "t/b:c?t=10:30", "/api/b%3Ac?t=10%3A30"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["", "/"])
def test_the_rest_of_a_path_is_joined_as_by_kubeedge(
    bee: Harness, path: str, topic: str, target: str, end: str
) -> None:
    """But a path of HTTP gets no slash before a query; its colons are quoted, as KubeEdge's edge splits there."""
    cloud = Cloud(
        bee, to_topic(topic=f"t{end if path else ''}"), to_service(target=f"/api{end if path[:1] == '/' else ''}")
    )
    assert cloud.call(f"/n1/cap/a{path}", "POST", b"x")[0] == 200
    cloud.begin(f"/n1/cap/svc{path}")
    assert [resource for _, _, resource in cloud.steps()] == [f"node/n1/{topic}", f"node/n1/18832:{target}"]


def test_no_rule_publishes_what_devices_take_for_a_desired_value(bee: Harness) -> None:
    """Applications' own topics are open to Rules, too."""
    cloud = Cloud(bee, to_topic(topic="$hw/events/device/cap"))
    assert cloud.call("/n1/cap/a/thermo/twin/update/delta", "POST", b"{}")[0] == 400
    assert cloud.steps() == []
    assert cloud.call("/n1/cap/a/thermo/twin/update", "POST", b"{}")[0] == 200


@pytest.mark.parametrize(
    ("topic", "is_own"),
    [
        ("cap/thermo/twin/update", True), ("thermo/twin/update", True), ("thermo/state/get", True),
        ("bank/thermo/twin/update", False), ("bank/thermo/state/update", False), ("capt/thermo/twin/get", False),
    ],
)  # fmt: skip
def test_no_rule_publishes_for_a_device_of_another_namespace(bee: Harness, topic: str, *, is_own: bool) -> None:
    """Who may write Rules of a namespace needs no right to Devices, and has none to another one's."""
    cloud = Cloud(bee, to_topic(topic="$hw/events/device"))
    status, text = cloud.call(f"/n1/cap/a/{topic}", "POST", b"{}")
    assert (status, len(cloud.steps())) == ((200, 1) if is_own else (403, 0))
    assert ("only a Rule of that namespace" in text) != is_own
    bee.run_for(2 * INTERVAL)
    assert cloud.status("r1")["failMessages"] == (not is_own)


@pytest.mark.parametrize(
    ("path", "is_own"),
    [
        ("/devicemethod/cap/heater/turn/on/true", True), ("/devicemethod", True), ("/ping", True),
        ("/devicemethod/bank/heater/turn/on/true", False), ("/device/bank/heater/on", False),
        ("/meta/model/bank/heater", False), ("/devicemethod/bank", False), ("/%64evicemethod/bank/heater", False),
    ],
)  # fmt: skip
def test_no_rule_calls_a_mapper_for_a_device_of_another_namespace(bee: Harness, path: str, *, is_own: bool) -> None:
    cloud = Cloud(bee, to_service(target="/x/..//api/./v1"))
    waiting = cloud.begin(f"/n1/cap/svc{path}")
    assert (waiting.settled, len(cloud.down())) == ((False, 1) if is_own else (True, 0))
    assert is_own or result(waiting)[0] == 403


def test_a_caller_gets_an_applications_response(bee: Harness) -> None:
    """Whatever its status, once."""
    cloud = Cloud(bee, to_service())
    waiting = cloud.begin("/n1/cap/svc/sub?q=1", "POST", b"body", **{"X-Mine": "1"})
    (asked,) = cloud.down()
    assert cloud.steps() == [("router_servicebus", "POST", "node/n1/18832:/api/sub?q=1")]
    cloud.up("", {"header": {"X-Target": ["cap"]}, "status_code": 404, "body": "bm90aGVyZQ=="}, parent=asked.id)
    assert result(waiting) == (404, "nothere")
    assert waiting.get().content_as(RestAnswer).headers == (("X-Target", "cap"),)
    assert len(cloud.down()) == 1
    bee.run_for(2 * INTERVAL)
    assert (cloud.status("r3")["successMessages"], cloud.status("r3")["failMessages"]) == (1, 0)


@pytest.mark.parametrize(("status", "failures"), [(200, 0), (400, 1)])
def test_a_refusal_of_edgecore_itself_is_a_failure(bee: Harness, status: int, failures: int) -> None:
    cloud = Cloud(bee, to_service())
    cloud.begin("/n1/cap/svc")
    header = {"Server": ["kubeedge-edgecore"]}
    cloud.up("", {"header": header, "status_code": status, "body": "bm8="}, parent=cloud.down()[0].id)
    bee.run_for(2 * INTERVAL)
    assert cloud.status("r3")["failMessages"] == failures


def test_a_node_that_comes_and_goes_leaves_nothing(bee: Harness) -> None:
    """With a subscription that it still has, and whose Rule is gone."""
    cloud, numbers = Cloud(bee, to_service()), count()
    module = present(bee.hive.slot(ModuleName.ROUTER).running).ref._actor_weakref()

    def cycle() -> None:
        node = f"node-{next(numbers)}"
        cloud.connection("connected", node)
        cloud.up("cap/old", "x", node=node)
        assert cloud.steps()[-1] == ("router_eventbus", "unsubscribe", f"node/{node}/cap/old")
        cloud.connection("disconnected", node)
        bee.run_for(2 * INTERVAL)
        bee.forget()

    assert not left_by_repeating(cycle, module)


def test_a_later_rule_of_the_name_does_not_count_an_earlier_ones_calls(bee: Harness) -> None:
    """The node answers when the Rule is gone."""
    cloud = Cloud(bee, to_service())
    cloud.begin("/n1/cap/svc")
    cloud.change("DELETED", to_service())
    cloud.up("", {"header": {}, "status_code": 200, "body": "b2s="}, parent=cloud.down()[0].id)
    bee.run_for(2 * INTERVAL)
    cloud.change("ADDED", to_service())
    bee.run_for(2 * INTERVAL)
    assert (cloud.status("r3")["successMessages"], cloud.status("r3")["failMessages"]) == (0, 0)


def test_another_node_cannot_answer(bee: Harness) -> None:
    """Nor can the same one twice; both are counted."""
    cloud = Cloud(bee, to_service(), connected=("n1", "n2"))
    waiting = cloud.begin("/n1/cap/svc")
    (asked,) = cloud.down()
    answer = {"header": {}, "status_code": 200, "body": "b2s="}
    cloud.up("", answer, node="n2", parent=asked.id)
    assert not waiting.settled
    cloud.up("", answer, parent=asked.id)
    cloud.up("", answer, parent=asked.id)
    assert result(waiting) == (200, "ok")
    assert sum(cloud.refusals.counts.values()) == 2
    handled = [each for each in bee.sent_to(ModuleName.CLOUDHUB) if each.route.operation == HANDLED]
    assert [each.content for each in handled] == [{"n2": 1}, {"n1": 1}, {"n1": 1}]


@pytest.mark.parametrize(
    "content",
    [
        "no response", {"status_code": 100}, {"status_code": "x"}, None, {"status_code": 999},
        {"status_code": 200, "header": {"X": [""] * NODE_VALUES}},
    ],
)  # fmt: skip
def test_an_answer_that_is_no_response_is_a_bad_gateway(bee: Harness, content: Any) -> None:
    cloud = Cloud(bee, to_service())
    waiting = cloud.begin("/n1/cap/svc")
    cloud.up("", content, parent=cloud.down()[0].id)
    assert result(waiting)[0] == 502


def test_a_caller_does_not_wait_for_ever(bee: Harness) -> None:
    """Not for a silent node, and not at all for a deleted one."""
    cloud = Cloud(bee, to_service())
    silent = cloud.begin("/n1/cap/svc")
    bee.run_for(REST_SECONDS - 1)
    assert not silent.settled
    gone = cloud.begin("/n1/cap/svc")
    bee.run_for(2.0)
    assert result(silent) == (504, "node n1 has not answered within 60 s")
    cloud.connection("disconnected")
    assert result(gone)[0] == 502
    bee.run_for(3 * INTERVAL)
    assert (cloud.status("r3")["failMessages"], len(cloud.status("r3")["errors"])) == (2, 2)


def test_many_callers_of_a_rule_are_too_many(bee: Harness) -> None:
    """Another Rule's callers are served."""
    cloud = Cloud(bee, to_service(), to_service("/other", name="r5"))
    waiting = [cloud.begin("/n1/cap/svc") for _ in range(MOST_OF_RULE)]
    assert cloud.call("/n1/cap/svc")[0] == 503
    assert not cloud.begin("/n1/cap/other").settled
    assert not any(each.settled for each in waiting)


def test_a_caller_learns_where_the_node_is(bee: Harness) -> None:
    """The cloudcore, if it is alive; and before that, that there is no rule."""
    cloud = Cloud(bee, to_topic())
    assert cloud.call("/n2/cap/a")[0] == 503
    assert "cloudcore there" in cloud.call("/n2/cap/a")[1]
    assert cloud.call("/n3/cap/a") == (503, "node n3 is not connected to this cloudcore; try again later")
    assert cloud.call("/n1/cap/none") == (404, "no rule of the namespace cap has this path")
    assert cloud.call("/n1/other/a")[0] == 404


def test_nodes_get_the_messages_of_their_subscriptions(bee: Harness) -> None:
    """At each connection, and when a Rule changes or goes; not what has stayed the same."""
    cloud = Cloud(bee, from_topic(URL), from_url(URL))
    told = [
        ("router_eventbus", "subscribe", "node/n1/cap/up"),
        ("router_servicebus", "start", "node/n1/http://cap.example/call"),
    ]
    assert cloud.steps() == told
    cloud.connection("connected")
    assert cloud.steps() == 2 * told
    bee.forget()
    cloud.change("MODIFIED", from_topic(f"{URL}/other"))
    assert cloud.steps() == []
    cloud.change("MODIFIED", from_topic(URL, "up/#"))
    cloud.change("DELETED", from_url(URL))
    assert cloud.steps() == [
        ("router_eventbus", "unsubscribe", "node/n1/cap/up"),
        ("router_eventbus", "subscribe", "node/n1/cap/up/#"),
        ("router_servicebus", "stop", "node/n1/http://cap.example/call"),
    ]


def test_a_topic_of_two_rules_stays_until_both_are_gone(bee: Harness) -> None:
    cloud = Cloud(bee, from_topic(URL), from_topic(URL, name="twin"))
    bee.forget()
    cloud.change("DELETED", from_topic(URL))
    assert cloud.steps() == []
    cloud.change("DELETED", from_topic(URL, name="twin"))
    assert cloud.steps() == [("router_eventbus", "unsubscribe", "node/n1/cap/up")]


def test_a_subscription_without_a_rule_is_ended_once(bee: Harness) -> None:
    """The Rule went while the node was away. An application that asks gets an error; what each node has stays."""
    cloud = Cloud(bee)
    cloud.up("SYS/dis/upload_records", "x")
    cloud.up("x/user/y", "x")
    cloud.up("$hw/events/upload/z", "x")
    cloud.up("cap/old", "x")
    cloud.up("cap/old", "x")
    asked = cloud.up("http://old.example/", "x")
    assert cloud.steps() == [
        ("router_eventbus", "unsubscribe", "node/n1/cap/old"),
        ("servicebus", "error", "node/n1/http://old.example/"),
        ("router_servicebus", "stop", "node/n1/http://old.example/"),
    ]
    assert cloud.down()[1].parent_id == asked.id
    bee.forget()
    cloud.connection("connected")
    cloud.up("cap/old", "x")
    assert cloud.steps() == [("router_eventbus", "unsubscribe", "node/n1/cap/old")], "once for each connection"
    bee.forget()
    cloud.change("ADDED", from_topic(URL, topic="old"))
    cloud.change("DELETED", from_topic(URL, topic="old"))
    bee.forget()
    cloud.up("cap/old", "x")
    assert cloud.steps() == [("router_eventbus", "unsubscribe", "node/n1/cap/old")], "a Rule had it meanwhile"


def test_messages_are_posted_in_order(bee: Harness, servers: list[Any]) -> None:
    """With node and topic; a status that says no is a failure, and is not asked again."""
    cloud, begin = Cloud(bee, from_topic(URL)), format_rfc3339(bee.clock.now())
    servers += [ok(), ok(status=500), ok(status=302)]
    for each in ("1", "2", "3"):
        cloud.up("cap/up", each)
    cloud.up("cap/up", {"no": "text"})
    bee.run_for(2 * INTERVAL)
    status = cloud.status("r2")
    assert (status["successMessages"], status["failMessages"]) == (1, 3)
    assert "answered 500" in " ".join(status["errors"])
    assert min(status["errors"]) > begin, "each begins with its time"


def test_a_post_is_repeated_only_if_nothing_was_sent(bee: Harness, servers: list[Any]) -> None:
    """The first is made again until it succeeds; the second may have arrived, and is not."""
    cloud = Cloud(bee, from_topic(URL))
    servers += [lost(sent=False), lost(sent=False), ok(), lost(sent=True)]
    cloud.up("cap/up", "1")
    cloud.up("cap/up", "2")
    bee.run_for(3 * INTERVAL)
    assert servers == []
    assert (cloud.status("r2")["successMessages"], cloud.status("r2")["failMessages"]) == (1, 1)


def test_what_waits_for_a_server_is_bounded(bee: Harness, servers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The excess counts as failed immediately; a message that has failed four times is not posted again."""
    monkeypatch.setattr(deliveries, "MOST_WAITING", 3)
    cloud = Cloud(bee, from_topic(URL))
    servers += [*(lost(sent=False) for _ in range(4)), ok(), ok()]
    for each in range(5):
        cloud.up("cap/up", str(each))
    bee.run_for(3 * INTERVAL)
    assert servers == []
    status = cloud.status("r2")
    assert (status["successMessages"], status["failMessages"]) == (2, 3)
    assert sum("many messages wait" in each for each in status["errors"]) == 2


def test_an_application_gets_a_servers_answer(bee: Harness, servers: list[Any]) -> None:
    """With its own method and payload; a repeatable one is repeated when the connection breaks."""
    cloud = Cloud(bee, from_url(URL))
    bee.forget()
    servers += [lost(sent=True), ok(b"found\xff"), lost(sent=True), ok(status=404)]
    got = cloud.up("http://cap.example/call", {"method": "GET", "targetURL": "…", "payload": None})
    posted = cloud.up("http://cap.example/call", {"targetURL": "…", "payload": {"a": 1}})
    refused = cloud.up("http://cap.example/call", {"method": "PUT", "payload": "text"})
    bee.run_for(2 * INTERVAL)
    answers = {each.parent_id: (each.route.operation, each.content) for each in cloud.down()}
    assert answers[got.id] == ("response", "found\ufffd")
    assert answers[posted.id][0] == "error"
    assert answers[refused.id] == ("error", "PUT http://server.example/x answered 404")
    assert all(each.route.group == "user" and each.route.source == "servicebus" for each in cloud.down())
    assert (cloud.status("r4")["successMessages"], cloud.status("r4")["failMessages"]) == (1, 2)


def test_an_application_gets_an_answer_also_if_many_wait(
    bee: Harness, servers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "MOST_WAITING", 1)
    cloud = Cloud(bee, from_url(URL))
    bee.forget()
    servers += [lost(sent=False), ok(b"found")]
    got, refused = (cloud.up("http://cap.example/call", {"method": "GET"}) for _ in range(2))
    bee.run_for(INTERVAL)
    answers = {each.parent_id: each.route.operation for each in cloud.down()}
    assert answers == {got.id: "response", refused.id: "error"}


def test_an_application_gets_one_answer_also_of_two_rules(bee: Harness, servers: list[Any]) -> None:
    cloud = Cloud(bee, from_url(URL), from_url(URL, name="twin"))
    bee.forget()
    servers += [ok(b"found"), ok(b"found again")]
    cloud.up("http://cap.example/call", {"method": "GET"})
    bee.run_for(INTERVAL)
    assert [each.content for each in cloud.down()] == ["found"]


def test_rules_that_are_listed_again_begin_nothing_again(bee: Harness) -> None:
    cloud = Cloud(bee, to_topic())
    bee.forget()
    assert cloud.list_again() == 2
    assert bee.sent_to(ModuleName.CLOUDHUB) == []


def test_subscriptions_that_are_ended_are_bounded(bee: Harness) -> None:
    """A node may publish under endless topics."""
    cloud = Cloud(bee)
    for number in range(101):
        cloud.up(f"cap/{number}", "x")
    assert len(cloud.down()) == 100


@pytest.mark.parametrize(
    ("given", "kind", "body"),
    [
        (b'{"payload": "a\\nb"}', "text/plain; charset=utf-8", b"a\nb"),
        (b'{"payload": [ [], 1e2 ]}', "application/json", b"[ [], 1e2 ]"),
        (b'{"payload": null}', "", b""),
        (b"{}", "", b""),
    ],
)
def test_a_payload_is_passed_on_as_it_is(given: bytes, kind: str, body: bytes) -> None:
    """A payload of millions of values would take gigabytes as Python's objects."""
    for content in (Raw(given), given.decode(), b64encode(given).decode()):
        call = call_of_application(_application(content), TargetUrl("http", "server.example", 80, "/x"), "n1")
        assert (dict(call.headers).get("Content-Type", ""), call.body) == (kind, body)


def test_a_method_that_no_server_has_is_refused() -> None:
    with pytest.raises(UploadError, match="the method is none of"):
        call_of_application(_application('{"method": "TRACE"}'), TargetUrl("http", "server.example", 80, "/x"), "n1")


def test_the_topic_of_a_message_is_a_header_of_ascii() -> None:
    call = call_of_message(_application("22"), TargetUrl("http", "server.example", 80, "/x"), "n1", "cap/tür, 1")
    assert dict(call.headers)["X-Mqtt-Topic"] == "cap/t%C3%BCr%2C 1"


def test_a_payload_that_is_no_utf_8_is_refused() -> None:
    content = b64encode(b'{"payload": "\xff"}').decode()
    with pytest.raises(UploadError):
        call_of_application(_application(content), TargetUrl("http", "server.example", 80, "/x"), "n1")


def _application(content: object) -> Message:
    return Message.new(RealClock(), source="servicebus", group="user", resource="r", operation="o", content=content)


def test_a_node_has_no_share_in_another_nodes_rules(bee: Harness, servers: list[Any]) -> None:
    """Nothing is posted, and no server asked."""
    cloud = Cloud(bee, from_topic(URL), from_url(URL), connected=("n1", "n2"))
    cloud.up("cap/up", "1", node="n2")
    cloud.up("http://cap.example/call", {"method": "GET"}, node="n2")
    assert servers == []
    assert [each.route.operation for each in cloud.down()][-1:] == ["stop"]


def test_statuses_are_written_seldom(bee: Harness) -> None:
    """A thousand messages are two writes at most; a Rule without a route says why."""
    cloud = Cloud(bee, to_topic(), from_topic("nowhere", name="wrong"))
    bee.run_for(INTERVAL)
    assert cloud.status("wrong")["conditions"][0]["reason"] == "InvalidResource"
    before = len(cloud.writes)
    for _ in range(1000):
        cloud.call("/n1/cap/a")
    bee.run_for(10 * INTERVAL)
    assert 1 <= len(cloud.writes) - before <= 2
    assert cloud.status("r1")["successMessages"] == 1000


def test_a_status_that_is_refused_is_written_later(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """No count is lost. After ten refusals that last the next message brings as many attempts."""
    cloud = Cloud(bee, to_topic())
    bee.run_for(INTERVAL)
    serve, conflicts = Cloud._serve, [True] * 11

    def refuse(self: Cloud, call: ApiCall) -> ApiResult:
        if call.verb == "update" and conflicts:
            conflicts.pop()
            return ApiResult(refusal={"code": 422, "message": "no such field"})
        return serve(self, call)

    monkeypatch.setattr(Cloud, "_serve", refuse)
    for left in (1, 0):
        cloud.call("/n1/cap/a")
        bee.run_for(20 * INTERVAL)
        assert len(conflicts) == left
    assert cloud.status("r1")["successMessages"] == 2


@pytest.mark.parametrize("code", [409, 503])
def test_a_status_is_written_after_an_outage_although_nothing_more_happens(
    bee: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """Another cloudcore was faster, or the API server was away."""
    cloud = Cloud(bee, to_topic())
    bee.run_for(INTERVAL)
    serve = Cloud._serve
    monkeypatch.setattr(Cloud, "_serve", lambda *_: ApiResult(refusal={"code": code, "message": "not now"}))
    cloud.call("/n1/cap/a")
    bee.run_for(30 * INTERVAL)
    monkeypatch.setattr(Cloud, "_serve", serve)
    bee.run_for(2 * INTERVAL)
    assert cloud.status("r1")["successMessages"] == 1
    assert caplog.text.count("is not stored: not now") == 1
