"""A session's bell, and which messages the broker may forget, without a broker."""

import select
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from paho.mqtt.enums import MQTTErrorCode

from beehive import Message
from beehive.clock import RealClock
from beehive.testing import Harness
from modules.edge.eventbus.client import BufferedClient
from modules.edge.eventbus.connection import SessionLink
from modules.edge.eventbus.module import EventBus, EventBusSettings
from modules.edge.eventbus.packets import Received
from modules.edge.eventbus.session import BrokerSettings, MqttSession, SessionEvents

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


def test_after_the_end_nothing_is_written_to_the_descriptor_of_the_bell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may be that of another file by then."""
    session = MqttSession(BrokerSettings(str(tmp_path / "absent.sock"), 0, "n1"), (), RealClock())
    assert "No such file" in session.run(cast("SessionEvents", SimpleNamespace()))
    rung: list[int] = []
    monkeypatch.setattr("os.eventfd_write", lambda bell, _number: rung.append(bell))
    session.publish([(1, "1", b"")])
    session.close()
    assert rung == []


def test_a_publication_that_comes_after_the_last_look_rings_the_bell() -> None:
    """Otherwise it waits up to ten seconds, for the next look at the keep-alive."""
    session = MqttSession(BrokerSettings("127.0.0.1", 1, "n1"), (), RealClock())
    sent: list[int] = []

    def send(topic: str, _payload: bytes, **_options: Any) -> int:
        sent.append(int(topic))
        return MID

    client = cast(
        "BufferedClient",
        SimpleNamespace(
            want_write=lambda: False,
            flush=lambda: None,
            loop_misc=lambda: MQTTErrorCode.MQTT_ERR_SUCCESS,
            send=send,
        ),
    )
    session._commands = window = _Window()
    session.publish([(1, "1", b"")])
    window.other = lambda: session.publish([(2, "2", b"")])
    session._turn(client, came=False, behind=False)
    poll = select.poll()
    poll.register(session._bell, select.POLLIN)
    assert sent == [1, 2] or poll.poll(0), "the second is sent, or the bell rings"
    session._end(cast("BufferedClient", SimpleNamespace(socket=lambda: None)))


class _Link:
    """A session as the module sees it: it notes what the broker may forget."""

    id = "session"
    is_current = True

    def __init__(self) -> None:
        self.is_given_up = False
        self.forgotten: list[int] = []
        self.session = SimpleNamespace(answered=self.stored)

    def stored(self, messages: Sequence[Received]) -> None:
        """Acknowledge messages."""
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
        bee.add(_Taking, EventBusSettings("n1", None), link, messages)
        bee.start()
        bee.settle()
        assert link.is_given_up
        assert link.forgotten == list(range(refused))


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
