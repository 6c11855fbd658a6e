"""A session's wakeup, and which messages the broker may forget, without a broker."""

import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.enums import MQTTErrorCode

from beehive import Clock, Message, ModuleName
from beehive.clock import RealClock
from beehive.testing import Harness
from edged.events.reasons import Reason
from modules.edge.eventbus.client import Arrived, BufferedClient, acknowledge_at_once
from modules.edge.eventbus.connection import SessionLink
from modules.edge.eventbus.counters import RefusalReason
from modules.edge.eventbus.module import DOWN_SECONDS, PATIENCE, EventBus, EventBusSettings
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.refusals import QUIET, RefusalLog
from modules.edge.eventbus.session import (
    CONNECT_SECONDS,
    KEEP_ALIVE,
    MOST_UNANSWERED,
    BrokerSettings,
    MqttSession,
    SessionEvents,
)

MID = 7


class _Window(deque[Callable[[BufferedClient], object]]):
    """Commands of a session; lets another thread put one more just when the session has found that none is left."""

    other: Callable[[], None] | None = None

    def __len__(self) -> int:
        found = super().__len__()
        if not found and self.other is not None:
            other, self.other = self.other, None
            other()
        return found


def test_after_the_end_nothing_is_written_to_the_descriptor_of_the_wakeup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may be that of another file by then."""
    session = MqttSession(BrokerSettings(str(tmp_path / "absent.sock"), 0, "n1"), (), RealClock())
    assert "No such file" in session.run(cast("SessionEvents", SimpleNamespace()))
    written: list[int] = []
    monkeypatch.setattr("os.eventfd_write", lambda wakeup, _number: written.append(wakeup))
    session.publish([(1, "1", b"")])
    session.close()
    assert written == []


def test_a_publication_that_comes_after_the_last_look_rings_the_wakeup() -> None:
    """Otherwise it waits up to ten seconds, for the next look at the keep-alive."""
    session = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock())
    sent: list[int] = []

    def send(topic: str, _payload: bytes, **_options: Any) -> int:
        sent.append(int(topic))
        return MID

    client = cast(
        "BufferedClient",
        SimpleNamespace(
            want_write=lambda: False, flush=lambda: None, loop_misc=lambda: MQTTErrorCode.MQTT_ERR_SUCCESS, send=send
        ),
    )
    session._commands = window = _Window()
    session.publish([(1, "1", b"")])
    window.other = lambda: session.publish([(2, "2", b"")])
    session._turn(client, came=False, behind=False)
    poll = select.poll()
    poll.register(session._wakeup, select.POLLIN)
    assert sent == [1, 2] or poll.poll(0), "the second is sent, or the wakeup is set"
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


class _Flood:
    """A broker's side of a session that has ever more messages, and counts those without an acknowledgement."""

    def __init__(self) -> None:
        self.open: list[Received] = []
        self.want_write = lambda: False
        self.read = self.flush = lambda: None
        self.loop_misc = lambda: MQTTErrorCode.MQTT_ERR_SUCCESS

    def handle(self, most: int) -> Arrived:
        """Give as many messages as are wanted."""
        made = [Received("a/user/b", b"", 1, number, retained=False) for number in range(most)]
        self.open += made
        return Arrived(made, [], MQTTErrorCode.MQTT_ERR_SUCCESS)

    def acknowledge(self, _message: Received) -> None:
        """Take an acknowledgement."""
        self.open.pop()


@given(stored=st.lists(st.lists(st.integers(1, 400), max_size=3), max_size=6))
def test_no_more_messages_are_taken_than_may_wait_to_be_stored(stored: list[list[int]]) -> None:
    """And as many as may: the rest waits at the broker, which a slow disk therefore cannot flood."""
    session = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock())
    flood, taken = _Flood(), list[Received]()
    session._events = cast("SessionEvents", SimpleNamespace(received=taken.extend, published=lambda _: None))
    client = cast("BufferedClient", flood)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("modules.edge.eventbus.session.acknowledge_at_once", lambda _: None)
        for answers in stored:
            session._turn(client, came=True, behind=False)
            assert len(flood.open) == MOST_UNANSWERED
            for count in answers:
                session.answered([taken.pop() for _ in range(min(count, len(taken)))])
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


def test_the_loss_of_a_broker_is_reported_once_and_its_return_too() -> None:
    """A short absence is no event, and a broker that is back but not for long is one that is back. One that was back
    for a moment between two looks is not.
    """
    events: list[str] = []
    with Harness() as bee:
        broker = SimpleNamespace(name="external", problem="", down_for=lambda _now: 0.0, close=lambda: None)
        bee.start(_Looking, EventBusSettings("n1", None), broker, events)
        for seconds in (0.0, 5.0, 0.0, DOWN_SECONDS, 99.0, 0.0, 0.0, 5.0, DOWN_SECONDS - 0.1, 500.0, 3.0, 99.0, 0.0):
            broker.down_for = lambda _now, seconds=seconds: seconds
            bee.run_for(6.0)
    assert events == [Reason.MQTT_BROKER_NOT_READY, Reason.MQTT_BROKER_READY] * 2


class _Link:
    """A session as the module sees it: it notes what the broker may forget."""

    id = "session"
    is_current = True

    def __init__(self) -> None:
        self.is_given_up = False
        self.forgotten: list[int] = []
        self.session = SimpleNamespace(answered=self.stored)

    def stored(self, messages: Sequence[Received]) -> None:
        """Acknowledge messages: some, for the connection takes it for a sign that there is room again."""
        assert messages
        self.forgotten += [one.mid for one in messages]

    def give_up(self) -> None:
        """End the session."""
        self.is_given_up = True


@pytest.mark.parametrize("refused", range(4))
def test_the_broker_forgets_nothing_after_a_message_that_is_not_stored(refused: int) -> None:
    """It sends that one again, and all after it: were a later one acknowledged, the older value would win."""
    answered: list[Message] = []

    def devicetwin(message: Message) -> Message:
        answered.append(message)
        if len(answered) - 1 == refused:
            return message.error(bee.clock, "no room", source="twin")
        return message.reply(bee.clock, "OK", source="twin")

    with Harness() as bee:
        link = _Link()
        messages = [
            Received("$hw/events/device/ns/thermo/twin/update", b"%d" % number, 1, number, retained=False)
            for number in range(4)
        ]
        bee.answer("twin", devicetwin)
        bee.start(_Taking, EventBusSettings("n1", None), link, messages)
        bee.settle()
        assert link.is_given_up
        assert link.forgotten == list(range(refused))


@pytest.mark.parametrize("kept", [0, 2, 4])
def test_the_broker_forgets_what_the_outbox_has_and_what_is_refused(
    kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No more than the outbox says that it has. Only an old report of a device is refused for being an old message,
    and that without a line.
    """
    with Harness() as bee:
        link = _Link()
        messages = [Received("a/user/b", b"%d" % number, 1, number, retained=number == 1) for number in range(4)]
        messages.insert(1, Received("a/user/b", b"\xff", 1, 9, retained=False))
        messages.append(Received("$hw/events/device/ns/thermo/twin/update", b"1", 1, 8, retained=True))
        bee.answer(ModuleName.EDGEHUB, lambda asked: asked.reply(bee.clock, kept, source="websocket"))
        bee.start(_Taking, EventBusSettings("n1", None), link, messages)
        bee.settle()
        assert (link.forgotten, link.is_given_up) == ([9, 8, *range(kept)], kept < 4)
    assert "no UTF-8" in caplog.text
    assert "old report" not in caplog.text


def test_refusals_of_one_kind_have_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """With the beginning of a topic."""
    log = RefusalLog()
    for now in (0.0, 1.0, QUIET - 0.1, QUIET, QUIET + 1.0):
        log.record(RefusalReason.BINARY, "x" * 5000, f"at {now}", now)
    log.record(RefusalReason.TOPIC, "y", "at 2.0", 2.0)
    assert [each.message.rpartition(" ")[2] for each in caplog.records] == ["0.0", str(QUIET), "2.0"]
    assert max(len(each.message) for each in caplog.records) < 300


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("topic", ["$hw/events/device/ns/thermo/twin/update", "a/user/b"])
def test_the_broker_sends_again_what_nobody_has_stored(topic: str, *, answers: bool) -> None:
    """devicetwin and edgehub refuse it, or are not there."""
    with Harness() as bee:
        link = _Link()
        for module in ("twin", "websocket") if answers else ():
            bee.answer(module, lambda message: message.error(bee.clock, "no room", source="test"))
        bee.start(_Taking, EventBusSettings("n1", None), link, [Received(topic, b"1", 1, 1, retained=False)])
        bee.run_for(PATIENCE + 1.0)
        assert (link.is_given_up, link.forgotten) == (True, [])
        assert bee.hive.slot("eventbus").restarts == 0


class _Taking(EventBus):
    """Takes messages as they come from a broker."""

    def __init__(self, settings: EventBusSettings, link: Any, messages: list[Received]) -> None:
        super().__init__(settings)
        self._got = link, messages

    def on_start(self) -> None:
        """Take them immediately."""
        super().on_start()
        link, messages = self._got
        self.received(cast("SessionLink", link), messages)


class _Looking(EventBus):
    """Looks at one broker."""

    def __init__(self, settings: EventBusSettings, broker: Any, events: list[str]) -> None:
        super().__init__(settings)
        self._connections = [broker]
        self._events = cast(
            "Any", SimpleNamespace(record=lambda _type, reason, _why: events.append(reason), close=lambda: None)
        )


@pytest.mark.parametrize("unanswered", [MOST_UNANSWERED, 0])
def test_the_broker_has_its_time_while_this_node_reads_nothing(unanswered: int) -> None:
    """The answer to the subscriptions may be behind messages for which there is no room yet."""
    seconds = turns = 0.0
    session = MqttSession(
        BrokerSettings("127.0.0.1", 1, "n1"), ("a",), cast("Clock", SimpleNamespace(monotonic=lambda: seconds))
    )
    session._accepted, session._unanswered = True, unanswered
    here, broker = socket.socketpair()

    def turn() -> MQTTErrorCode:
        nonlocal seconds, turns
        seconds, turns = seconds + CONNECT_SECONDS - 1, turns + 1
        session._wakeup.wake()
        return MQTTErrorCode.MQTT_ERR_SUCCESS if turns < 4 else MQTTErrorCode.MQTT_ERR_CONN_LOST

    client = SimpleNamespace(
        socket=lambda: here, is_behind=False, has_output=False, want_write=lambda: False, flush=lambda: None,
        loop_misc=turn,
    )  # fmt: skip
    with here, broker:
        session._wakeup.wake()
        why = session._loop(cast("BufferedClient", client))
        session._end(cast("BufferedClient", client))
    assert ("has not answered" in why) is (unanswered == 0)


def test_a_publication_is_acknowledged_once() -> None:
    """Its number on the wire is used again, by another one."""
    session, heard = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock()), list[list[int]]()
    session._events = cast("SessionEvents", SimpleNamespace(published=heard.append))
    session._numbers[MID] = 1
    for _ in range(2):
        session._report(Arrived([], [MID], MQTTErrorCode.MQTT_ERR_SUCCESS))
    assert heard == [[1]]
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


def test_what_was_written_before_the_end_is_sent_before_it() -> None:
    session, done = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock()), list[str]()
    here, broker = socket.socketpair()

    def flush() -> None:
        done.append("flush")
        client.has_output = False

    client = SimpleNamespace(
        socket=lambda: here, is_behind=False, has_output=True, want_write=lambda: False, flush=flush,
        loop_misc=lambda: MQTTErrorCode.MQTT_ERR_SUCCESS, end=lambda: done.append("end"),
    )  # fmt: skip
    session.close()
    with here, broker:
        assert session._loop(cast("BufferedClient", client)) == "closed by this node"
        session._end(cast("BufferedClient", client))
    assert done == ["flush", "end"]


@pytest.mark.parametrize(("port", "seconds"), [(0, 0), (1883, KEEP_ALIVE)])
def test_a_broker_of_another_machine_is_known_to_have_vanished(
    monkeypatch: pytest.MonkeyPatch, port: int, seconds: int
) -> None:
    asked = list[int]()

    def connect(_client: object, _host: str, _port: int, keep_alive: int) -> None:
        asked.append(keep_alive)
        raise OSError("of this test")

    monkeypatch.setattr(BufferedClient, "connect", connect)
    session = MqttSession(BrokerSettings("broker", port, "n1"), (), RealClock())
    assert session.run(cast("SessionEvents", SimpleNamespace())) == "of this test"
    assert asked == [seconds]
    assert seconds <= 60


@pytest.mark.parametrize(
    ("family", "options"), [(socket.AF_INET, [(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)]), (socket.AF_UNIX, [])]
)
def test_a_connection_by_tcp_acknowledges_bytes_immediately(
    family: socket.AddressFamily, options: list[tuple[int, int, int]]
) -> None:
    connection = Mock(family=family)
    acknowledge_at_once(Mock(**{"socket.return_value": connection}))
    assert [each.args for each in connection.setsockopt.call_args_list] == options
    acknowledge_at_once(Mock(**{"socket.return_value": None}))
