"""Sessions with what is on a broker's port and does not keep to MQTT."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import Module
from beehive.clock import RealClock
from modules.apimachinery.device_topics import LONGEST_TOPIC
from modules.edge.eventbus.client import PIECE
from modules.edge.eventbus.connection import LONGEST_DELAY, BrokerConnection
from modules.edge.eventbus.counters import EventBusCounters, RefusalReason
from modules.edge.eventbus.packets import Received, puback, publish
from modules.edge.eventbus.refusals import refusal_of
from modules.edge.eventbus.routing import MAX_PAYLOAD
from modules.edge.eventbus.session import CONNECT_SECONDS, BrokerSettings, MqttSession
from tests.support.clocks import Ahead
from tests.support.patience import PATIENCE

CONNACK = bytes.fromhex("20 02 00 00")
TOPIC, SUBACK, REFUSAL = bytes.fromhex("0001 61 01"), bytes.fromhex("90 03 0001 01"), bytes.fromhex("90 03 0001 80")
"""The end of a subscription to the topic `a`, and two answers to it."""


class Liar:
    """A server on a real socket that accepts one session with its subscription and then does as `act` says."""

    def __init__(self, act: Callable[[socket.socket], None], *, answers_subscription: bool = True) -> None:
        self._act = act
        self._answers_subscription = answers_subscription
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(PATIENCE)
        self.settings = BrokerSettings("127.0.0.1", self._listener.getsockname()[1], "n1")
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Wait for its end."""
        self._thread.join(PATIENCE)
        self._listener.close()

    def _serve(self) -> None:
        with self._listener.accept()[0] as connection:
            connection.settimeout(PATIENCE)
            connection.recv(PIECE)
            connection.sendall(CONNACK)
            _until(connection, TOPIC)
            if self._answers_subscription:
                connection.sendall(SUBACK)
            self._act(connection)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(PIECE):
                    pass


class Events:
    """Acknowledges what comes, in its order, as if it were stored."""

    def __init__(self) -> None:
        self.session: MqttSession | None = None
        self.connections = 0
        self.received_messages: list[Received] = []

    def connected(self) -> None:
        """See `SessionEvents`."""
        self.connections += 1

    def received(self, messages: list[Received]) -> None:
        """See `SessionEvents`."""
        assert self.session is not None
        self.received_messages += messages
        self.session.answered(messages)

    def published(self, numbers: list[int]) -> None:
        """See `SessionEvents`."""


@pytest.fixture
def clock() -> Iterator[RealClock]:
    """The clock of the sessions."""
    clock = RealClock()
    yield clock
    clock.close()


def _until(connection: socket.socket, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found and (piece := connection.recv(PIECE)):
        found += piece
    return found


def _run(act: Callable[[socket.socket], None], clock: RealClock) -> tuple[str, Events]:
    liar, events = Liar(act), Events()
    events.session = MqttSession(liar.settings, ["a"], clock)
    why = events.session.run(events)
    liar.close()
    return why, events


def test_a_session_is_connected_once_it_is_subscribed(clock: RealClock) -> None:
    """A message that is published as soon as the node says that it is connected would not come otherwise. Topics that
    come and go while the broker is dialled count.
    """
    seen: list[int] = []
    events = Events()

    def act(connection: socket.socket) -> None:
        connection.sendall(publish("a", b"early", 1, qos=1, retain=False))
        _until(connection, puback(1))
        seen.append(events.connections)
        connection.sendall(SUBACK * 2)

    liar = Liar(act, answers_subscription=False)
    events.session = session = MqttSession(liar.settings, ["b"], clock)
    session.subscribe("a")
    session.unsubscribe("b")
    session.run(events)
    liar.close()
    assert (seen, events.connections) == ([0], 1)
    assert [each.payload for each in events.received_messages] == [b"early"]


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    """A clock that the broker puts ahead."""
    clock = Ahead()
    yield clock
    clock.close()


def test_messages_that_waited_may_take_long_before_the_subscriptions_are_answered(ahead: Ahead) -> None:
    """A broker sends the backlog of the session first; over a slow network that takes longer than an answer may."""

    def act(connection: socket.socket) -> None:
        for number in (1, 2, 3):
            connection.sendall(publish("a", b"waited", number, qos=1, retain=False))
            _until(connection, puback(number))
            ahead.seconds += CONNECT_SECONDS - 2
        connection.sendall(SUBACK)

    liar, events = Liar(act, answers_subscription=False), Events()
    events.session = MqttSession(liar.settings, ["a"], ahead)
    why = events.session.run(events)
    liar.close()
    assert "ended the connection" in why
    assert (events.connections, len(events.received_messages)) == (1, 3)


def test_a_broker_without_an_answer_to_subscriptions_is_left(ahead: Ahead) -> None:
    """The node dials it again, and does not say meanwhile that it is connected."""
    events = Events()

    def act(connection: socket.socket) -> None:
        for _ in range(2):
            ahead.seconds += CONNECT_SECONDS + 1
            session.subscribe("c")
            _until(connection, bytes.fromhex("0001 63 01"))

    liar = Liar(act, answers_subscription=False)
    events.session = session = MqttSession(liar.settings, ["a"], ahead)
    why = session.run(events)
    liar.close()
    assert "has not answered" in why
    assert events.connections == 0


def test_a_subscription_that_the_broker_refuses_has_a_line(clock: RealClock, caplog: pytest.LogCaptureFixture) -> None:
    """An access list that is too narrow is no reason to publish nothing, but its devices are not heard."""
    liar, events = Liar(lambda connection: connection.sendall(REFUSAL), answers_subscription=False), Events()
    events.session = MqttSession(liar.settings, ["a"], clock)
    events.session.run(events)
    liar.close()
    assert events.connections == 1
    (line,) = [each for each in caplog.messages if "refuses" in each]
    assert line.endswith("refuses the subscription to a: Unspecified error")


def test_a_message_that_is_too_large_is_left_out_and_acknowledged_in_its_turn(clock: RealClock) -> None:
    """The messages before and after it arrive, in their order, and nothing of its payload is kept."""
    size, heard = MAX_PAYLOAD + LONGEST_TOPIC + 1, []

    def act(connection: socket.socket) -> None:
        connection.sendall(publish("a", b"before", 1, qos=1, retain=False))
        connection.sendall(publish("a", bytes(size), 2, qos=1, retain=False))
        connection.sendall(publish("a", b"after", 3, qos=1, retain=False))
        heard.append(_until(connection, puback(3)))

    _why, events = _run(act, clock)
    assert [(one.payload, one.left_out, one.mid) for one in events.received_messages] == [
        (b"before", 0, 1),
        (b"", size, 2),
        (b"after", 0, 3),
    ]
    assert puback(1) + puback(2) + puback(3) in heard[0].replace(heard[0].partition(puback(1))[0], b"")
    refused = refusal_of(events.received_messages[1])
    assert refused is not None
    assert refused[0] is RefusalReason.TOO_LARGE
    assert str(size) in refused[1]


def test_a_message_of_a_quarter_of_a_gigabyte_is_not_kept_while_it_comes(
    clock: RealClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its topic is in memory, however much of it has come."""
    most = 0
    handle = MqttSession._turn

    def turn(session: MqttSession, client: Any, **how: bool) -> Any:
        nonlocal most
        code = handle(session, client, **how)
        most = max(most, len(client._incoming))
        return code

    monkeypatch.setattr(MqttSession, "_turn", turn)

    def act(connection: socket.socket) -> None:
        connection.sendall(bytes.fromhex("32 ffffff7f 0001 61 0001"))
        for _ in range(64):
            connection.sendall(bytes(PIECE))

    why, events = _run(act, clock)
    assert "ended the connection" in why
    assert events.received_messages == []
    assert most < 100


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        ("90 ffffff7f", "announces a packet of 268435455 bytes that is no message; check that a broker of MQTT"),
        ("90 00", "not valid"),
        ("90 03 0001 05", "not valid"),
        ("34 02 0005", "not valid"),
    ],
)
def test_a_packet_that_is_not_mqtt_ends_the_session_with_a_hint(clock: RealClock, packet: str, reason: str) -> None:
    """And not eventbus, with the internal broker: as soon as its length has come, and wherever paho fails."""
    why, _events = _run(lambda connection: connection.sendall(bytes.fromhex(packet)), clock)
    assert reason in why


def test_a_broker_that_accepts_and_then_lies_is_dialled_ever_later() -> None:
    """The delay starts over only after a session that has lasted."""
    delays: list[float] = []
    time = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: time[0], random=SimpleNamespace(uniform=lambda _least, most: most), new_id=lambda: "id"
    )
    module = SimpleNamespace(clock=clock, after=lambda seconds, _function: delays.append(seconds))
    settings = BrokerSettings("127.0.0.1", 1883, "n1")
    connection = BrokerConnection(
        cast("Module", module), "external", settings, list, lambda *_rest: None, EventBusCounters()
    )
    for lasted in (1.0, 1.0, 1.0, LONGEST_DELAY + 1, 1.0):
        connection.connected()
        time[0] += lasted
        connection.session_ended("it announces too much")
    assert delays == [1.0, 2.0, 4.0, 1.0, 2.0]


def test_a_broker_that_refuses_the_protocol_is_not_dialled_again_within_the_session() -> None:
    """paho would, with an older protocol and without a pause."""
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(RealClock()) as clock:
        session = MqttSession(BrokerSettings("127.0.0.1", listener.getsockname()[1], "n1"), (), clock)

        def refuse() -> None:
            with listener.accept()[0] as connection:
                connection.recv(PIECE)
                connection.sendall(bytes.fromhex("20 02 00 01"))

        thread = threading.Thread(target=refuse)
        thread.start()
        assert session.run(cast("Any", SimpleNamespace())) == "the connection was lost: MQTT_ERR_PROTOCOL"
        thread.join(PATIENCE)
        listener.settimeout(0.0)
        with pytest.raises(BlockingIOError):
            listener.accept()
