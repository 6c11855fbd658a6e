"""The connection to a broker, with sessions that end when the test says, in virtual time."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from beehive import BeehiveError, Message, Module
from beehive.clock import RealClock
from beehive.testing import FakeContext, Harness
from modules.edge.eventbus.client import BufferedClient
from modules.edge.eventbus.connection import LONGEST_DELAY, BrokerConnection, SessionLink
from modules.edge.eventbus.counters import EventBusCounters
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.packets import Received, publish
from modules.edge.eventbus.publications import WINDOW, Drop
from modules.edge.eventbus.session import BrokerSettings, MqttSession
from tests.support.failing import Failing, left_by_repeating

SETTINGS = BrokerSettings("127.0.0.1", 1883, "n1")


class Broker:
    """A connection, whose dials and publications are noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._context = FakeContext()
        self.published: list[tuple[int, str]] = []
        self.links: list[SessionLink] = []
        self.ended: list[list[str]] = []
        self.session = SimpleNamespace(
            publish=self._publish, answered=lambda _: None, close=lambda: None, unsubscribe=lambda _: None
        )
        monkeypatch.setattr("modules.edge.eventbus.connection.MqttSession", self._make)
        clock = SimpleNamespace(
            monotonic=self._context.clock.monotonic,
            random=SimpleNamespace(uniform=lambda _least, most: most),
            new_id=lambda: "id",
        )
        module = SimpleNamespace(
            clock=clock,
            name="eventbus",
            after=self._context.after,
            call_soon=self._context.call_soon,
            start_actor=lambda *_rest, **_named: SimpleNamespace(tell=self.links.append),
        )
        self.counters = EventBusCounters()
        self.connection = BrokerConnection(
            cast("Module", module), "external", SETTINGS, list, lambda *_rest: None, self.counters
        )
        self.connection.start()
        self.connection.dial()

    def _make(self, *given: Any) -> SimpleNamespace:
        self.ended.append(list(given[3]))
        return self.session

    def _publish(self, taken: list[tuple[int, str, bytes]]) -> None:
        self.published += [(number, topic) for number, topic, _ in taken]

    @property
    def now(self) -> float:
        """Monotonic seconds."""
        return self._context.clock.monotonic()

    def run(self, seconds: float = 0.001) -> None:
        """Let time pass."""
        self._context.simulation.run_for(seconds)

    def accept(self) -> SessionLink:
        """Let the broker accept the newest session."""
        self.links[-1].connected()
        self.run()
        return self.links[-1]

    def end(self) -> None:
        """Let the newest session end."""
        self.links[-1].ended("gone")
        self.run()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def test_unacknowledged_messages_are_published_again(broker: Broker) -> None:
    """Those that came before the first session, too."""
    broker.connection.publish("a", b"")
    broker.run()
    broker.accept()
    broker.end()
    broker.run(2.0)
    broker.accept()
    assert [topic for _, topic in broker.published] == ["a", "a"]
    assert broker.counters.connections == 2


def test_what_the_window_had_no_room_for_follows_the_acknowledgements(broker: Broker) -> None:
    link = broker.accept()
    for _ in range(WINDOW + 5):
        broker.connection.publish("a", b"")
    broker.run()
    assert len(broker.published) == WINDOW
    link.published([number for number, _ in broker.published])
    broker.run()
    assert len(broker.published) == WINDOW + 5


def test_a_broker_that_never_answers_is_away_since_the_beginning(broker: Broker) -> None:
    """Each attempt that fails is no new absence: the event that tells of it would never be recorded."""
    began = broker.now
    for _ in range(3):
        broker.run(10.0)
        broker.end()
    assert broker.connection.down_for(began + 40.0) == pytest.approx(40.0, abs=0.1)


def test_a_broker_that_never_answers_is_dialled_ever_later_however_long_each_attempt_takes(broker: Broker) -> None:
    for dials in (2, 3):
        broker.run(2 * LONGEST_DELAY)
        broker.end()  # the next dial is in 1 s, and then in 2 s
        broker.run(dials - 1.5)
        assert len(broker.links) == dials - 1
        broker.run(1.0)
        assert len(broker.links) == dials


def test_a_closed_connection_is_not_dialled_again(broker: Broker) -> None:
    """As when its module has failed: the restarted one has a connection of its own, and a broker one of that name."""
    broker.accept()
    broker.connection.close()
    broker.end()
    broker.run(2 * LONGEST_DELAY)
    assert len(broker.links) == 1


def test_a_dial_before_its_time_leaves_no_second_one(broker: Broker) -> None:
    broker.end()  # the next dial is in 1 s
    broker.connection.dial()
    broker.end()  # in 2 s
    broker.run(1.5)
    assert len(broker.links) == 2
    broker.run(1.0)
    assert len(broker.links) == 3


def test_while_nothing_is_stored_the_broker_is_dialled_ever_later(broker: Broker) -> None:
    """However long the sessions last; the first message that is stored begins anew."""

    def waits() -> float:
        dials, began = len(broker.links), broker.now
        broker.end()
        while len(broker.links) == dials:
            broker.run(0.1)
        return round(broker.now - began)

    def give_up() -> float:
        broker.accept().give_up()
        broker.run(LONGEST_DELAY + 1)
        return waits()

    def store_some() -> float:
        """Store the first of two messages: the second is sent again."""
        messages = [Received("a/user/b", b"", 1, number, retained=False) for number in range(2)]
        bus = cast("Any", SimpleNamespace(_counters=broker.counters))
        EventBus._stored(bus, broker.accept(), messages, 1, BeehiveError("store messages"))
        return waits()

    assert [give_up() for _ in range(3)] == [1, 2, 4]
    broker.accept().stored([])
    assert waits() == 1
    for _ in range(2):  # a session that lasts begins anew, too, as before
        broker.accept()
        broker.run(LONGEST_DELAY + 1)
        assert waits() == 1
    assert (waits(), store_some()) == (2, 4)


def test_sessions_and_publications_that_are_over_leave_nothing(broker: Broker) -> None:
    """Acknowledged, lost with the connection, and published again; all that is told of earlier sessions is dropped."""
    done: list[str] = []

    def cycle() -> None:
        link = broker.accept()
        for topic in ("a", "b/twin/update/delta", "b/twin/update/delta"):
            broker.connection.publish(topic, b"x", done.append)
        broker.run()
        broker.end()
        link.published([number for number, _ in broker.published])
        link.connected()
        broker.run(LONGEST_DELAY)
        assert broker.connection.down_for(broker.now) > 0
        again = broker.accept()
        again.published([number for number, _ in broker.published])
        broker.run()
        broker.end()
        broker.run(LONGEST_DELAY)
        broker.published.clear()

    assert not left_by_repeating(cycle, broker.connection)
    assert len(done) == 3 * 4
    assert broker.connection.publications.size == 0


@pytest.fixture
def client() -> Iterator[BufferedClient]:
    yield BufferedClient(CallbackAPIVersion.VERSION2, client_id="n1", clean_session=False)


def test_a_client_is_behind_until_it_has_handled_its_messages(client: BufferedClient) -> None:
    """Or its session would go round without a pause."""
    client._incoming += publish("a", b"", 1, qos=1, retain=False) + publish("a", b"", 2, qos=1, retain=False)
    assert (len(client.handle(1).messages), client.is_behind) == (1, True)
    assert (len(client.handle(1).messages), client.is_behind) == (1, False)


@pytest.mark.parametrize("more", [b"", publish("b", b"1", 2, qos=1, retain=False)])
def test_a_message_too_large_that_has_come_whole_takes_no_byte_of_the_next(client: BufferedClient, more: bytes) -> None:
    """Neither of one that has come with it, nor of one that comes later."""
    client._incoming += publish("a", bytes(2 * 1024 * 1024), 1, qos=1, retain=False) + more
    first = client.handle(2).messages
    assert (first[0].topic, first[0].payload, first[0].left_out) == ("a", b"", 2 * 1024 * 1024)
    assert (client._to_skip, [each.topic for each in first[1:]]) == (0, ["b"] if more else [])


def test_a_number_that_was_of_a_message_too_large_may_be_of_another(client: BufferedClient) -> None:
    client._left_out_by_number = {7: 5}
    for _ in range(2):
        client._handle_message(client, None, MQTTMessage(mid=7, topic=b"a"))
    assert [each.left_out for each in client._messages] == [5, 0]


def test_a_message_of_qos_2_is_acknowledged_whatever_its_topic_is(client: BufferedClient) -> None:
    """The broker would send it for ever."""
    client._handle_message(client, None, MQTTMessage(mid=7, topic=b"\xff"))
    [message] = client._messages
    assert message.topic == ""
    acknowledged: list[tuple[int, int]] = []
    client.ack = lambda *given: acknowledged.append(given)  # type: ignore[assignment,method-assign]
    client.acknowledge(message._replace(qos=2))
    assert acknowledged == [(7, 2)]


def test_a_subscription_that_ended_before_the_broker_answered_is_not_asked_for() -> None:
    session = MqttSession(SETTINGS, ["a", "b"], RealClock())
    session.unsubscribe("a")
    ended: list[str] = []
    session._commands.popleft()(cast("BufferedClient", SimpleNamespace(unsubscribe=ended.append)))
    assert (session._topics, ended) == (["b"], ["a"])
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


def test_a_subscription_that_ended_without_a_broker_ends_in_its_next_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker keeps it with the session, and would send its messages for ever."""
    monkeypatch.setattr("modules.edge.eventbus.connection.MOST_ENDED", 2)
    broker = Broker(monkeypatch)
    broker.end()
    for topic in ("a", "b", "c", "c"):
        broker.connection.unsubscribe(topic)
    broker.connection.subscribe("c")
    broker.connection.dial()
    assert broker.ended == [[], ["b"]], "the oldest makes room, once"


def test_a_session_tells_the_broker_of_ended_subscriptions_before_the_others() -> None:
    session, told = MqttSession(SETTINGS, ["b"], RealClock(), ["a"]), list[Any]()

    def subscribe(topics: list[tuple[str, int]]) -> tuple[int, int]:
        told.append(topics)
        return 0, 1

    fields = {"max_inflight_messages_set": lambda _: None, "unsubscribe": told.append, "subscribe": subscribe}
    client = cast("Any", SimpleNamespace(**fields))
    session._prepare(client, cast("Any", None))
    client.on_connect(None, None, None, SimpleNamespace(is_failure=False), None)
    assert told == [["a"], [("b", 1)]]
    client.on_connect(None, None, None, SimpleNamespace(is_failure=True), None)
    assert len(told) == 2
    assert "refuses this node" in session._refused
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


class _Subscribing(EventBus):
    """Has two brokers that take publications when the test says."""

    def __init__(self, taken: list[Any], counters: EventBusCounters | None = None) -> None:
        super().__init__(EventBusSettings("n1", None), counters)

        def publish_later(_topic: str, _payload: bytes, done: Callable[[str], None]) -> None:
            taken.append(done)

        queue = SimpleNamespace(size=0, __len__=lambda: 0)
        one: Any = SimpleNamespace(
            publish=publish_later, publications=queue, subscribe=lambda _: None, unsubscribe=taken.append,
            down_for=lambda _: 0.0, name="one", is_local=True, close=lambda: None,
        )  # fmt: skip
        self._connections = [one, one]


def _kept(bee: Harness) -> list[list[str]]:
    """The subscriptions that metamanager is to store, after each change."""
    found = [one for one in bee.sent_to("metamanager") if one.route.operation == "update"]
    return [json.loads(bytes(one.content_raw()))["topics"] for one in found]


def test_subscriptions_of_the_cloud_are_stored_at_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that has forgotten its sessions is told them again. edgecore's own are no matter of the cloud."""
    monkeypatch.setattr("modules.edge.eventbus.module.MOST_TOPICS", 2)
    with Harness() as bee:
        bee.answer("metamanager", lambda asked: asked.reply(bee.clock, [], source="metamanager"))
        ended: list[str] = []
        bee.start(_Subscribing, ended)
        bee.settle()
        for topic in ("+/user/#", "a", "b", "c"):
            bee.send("eventbus", bee.message(topic, "subscribe"))
        for topic in ("a", "+/user/#", "lost"):
            bee.send("eventbus", bee.message(topic, "unsubscribe"))
        assert _kept(bee) == [["a"], ["a", "b"], ["b"]]
        assert ended == ["a", "a", "lost", "lost"], "each broker is told, also of what the store has lost"


def test_subscriptions_that_cannot_be_stored_are_stored_later() -> None:
    """As on a full disk: after the next restart, those that have ended would be there, and others would not."""
    refused: list[Message] = []
    with Harness() as bee:

        def answer(asked: Message) -> Message:
            if asked.route.operation != "update":
                return asked.reply(bee.clock, [], source="metamanager")
            if len(refused) == 3:
                return asked.reply(bee.clock, source="metamanager")
            refused.append(asked)
            return asked.error(bee.clock, "the disk is full", source="metamanager")

        bee.answer("metamanager", answer)
        bee.start(_Subscribing, [])
        bee.settle()
        for topic in ("a", "b"):
            bee.send("eventbus", bee.message(topic, "subscribe"))
        bee.run_for(60.0)
        assert _kept(bee) == [["a"], ["a", "b"], ["a", "b"], ["a", "b"]]


def test_what_the_cloud_subscribes_to_before_the_stored_topics_are_read_joins_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """metamanager may answer late: neither list may take the place of the other. What waits for it is bounded."""
    monkeypatch.setattr("modules.edge.eventbus.module.MOST_TOPICS", 3)
    asked: list[Message] = []
    with Harness() as bee:
        bee.answer("metamanager", asked.append)
        bee.start(_Subscribing, [])
        for topic, operation in (("b", "subscribe"), ("a", "unsubscribe"), ("d", "unsubscribe"), ("c", "unsubscribe")):
            bee.send("eventbus", bee.message(topic, operation))
        assert _kept(bee) == []
        stored = json.dumps({"topics": ["a", "c"]})
        bee.respond(asked[0].reply(bee.clock, [stored], source="metamanager"))
        assert _kept(bee) == [["a", "c", "b"], ["c", "b"]]


def test_a_module_that_fails_closes_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a session on a thread of its own."""
    closed: list[bool] = []
    monkeypatch.setattr(EventBus, "_change", Failing(0, ValueError("of this test")).call(lambda *_, **__: None))
    monkeypatch.setattr(EventBus, "on_end", lambda _: closed.append(True))
    with Harness() as bee:
        bee.expect_failures("of this test")
        bee.answer("metamanager", lambda asked: asked.reply(bee.clock, [], source="metamanager"))
        bee.start(_Subscribing, [])
        bee.send("eventbus", bee.message("a", "subscribe"))
        bee.settle()
        assert closed == [True]


@pytest.mark.parametrize(
    ("row", "topics"), [(json.dumps({"topics": ["a/+", "wrong#"]}), ["a/+"]), ("{", []), ('{"topics": 7}', [])]
)
def test_subscriptions_in_the_store_are_no_more_than_topics(row: str, topics: list[str]) -> None:
    """What stands there may be damaged, and a broker ends a session that asks for a wrong one."""

    def stored(message: Message) -> Message:
        return message.reply(bee.clock, [row], source="metamanager")

    with Harness() as bee:
        bee.answer("metamanager", stored)
        bee.start(_Subscribing, [])
        bee.settle()
        bee.send("eventbus", bee.message("b", "subscribe"))
        assert _kept(bee) == [[*topics, "b"]]


def test_a_text_that_is_none_is_not_published_and_that_some_are_dropped_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = EventBusCounters()
    counters.dropped[Drop.NO_ROOM] = 1
    with Harness() as bee:
        bee.start(_Subscribing, [], counters)
        for content in ("\ud800", {"a": 1}):
            answer = bee.hive.request("eventbus", bee.message("out/a", "publish", content), 10.0)
            bee.settle()
            assert answer.get().route.operation == "error"
        for _ in range(3):
            bee.send("eventbus", bee.message("out/a", "publish", "text"))
    assert caplog.text.count("are dropped") == 1


def test_a_message_that_one_broker_has_not_is_not_published() -> None:
    taken: list[Callable[[str], None]] = []
    with Harness() as bee:
        bee.start(_Subscribing, taken)
        asked = bee.message("out/a", "publish", "text")
        answer = bee.hive.request("eventbus", asked, 10.0)
        bee.settle()
        for done, why in zip(taken, ("dropped", ""), strict=True):
            done(why)
        bee.settle()
        assert answer.get().route.operation == "error"
