"""A cloud that says nothing: when the real link asks it, and when it takes it for dead."""

import socket
import threading

import pytest

from edgehub.errors import DeadPeerError
from edgehub.framing import Opcode
from edgehub.ping_deadline import Flow
from edgehub.transport import Transport
from edgehub.websocket import CHECK_DEADLINE, WebsocketLink
from tests.edgehub.clouds import ScriptedCloud, ScriptedConnection
from tests.edgehub.links import RunningLink, dial, linked, settings
from tests.end_to_end.processes import wait_until
from tests.support.clocks import Ahead, StandingClock

MEBIBYTE = 1 << 20


def is_read(running: RunningLink, connection: ScriptedConnection) -> None:
    """Wait until the link has read something: its times begin then."""
    connection.send(Opcode.TEXT, b"{}")
    assert running.frame() == b"{}"


def test_a_silent_cloud_is_pinged_and_then_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half open: the connection stands, nobody is there."""
    monkeypatch.setattr(Transport, "flow", lambda _transport: Flow())
    clock = Ahead()
    with linked(clock, ping_interval=0.1, read_deadline=120.0) as (running, connection):
        assert connection.frame()[0] is Opcode.PING
        assert isinstance(running.link, WebsocketLink)
        clock.seconds = 120.0
        running.link._transport.wake()
        end = running.wait_end()
    assert isinstance(end, DeadPeerError)
    assert "nothing received" in str(end)


def test_a_cloud_that_a_slow_network_has_not_asked_yet_is_not_taken_for_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the network takes something of what is before the ping."""
    looks: list[None] = []

    def flow(_transport: Transport) -> Flow:
        looks.append(None)
        return Flow(acknowledged=min(len(looks), 5), unacknowledged=MEBIBYTE)

    monkeypatch.setattr(Transport, "flow", flow)
    clock, pause = Ahead(), threading.Event()
    with linked(clock, ping_interval=0.1, read_deadline=60.0) as (running, connection):
        assert connection.frame()[0] is Opcode.PING
        while running.end is None:
            clock.seconds += 50.0
            assert isinstance(running.link, WebsocketLink)
            running.link._transport.wake()
            pause.wait(0.01)
        end = running.wait_end()
    assert isinstance(end, DeadPeerError)
    assert len(looks) > 5


def test_a_cloud_that_answers_after_a_change_of_the_network_has_its_time_again() -> None:
    clock = Ahead()
    with linked(clock, ping_interval=600.0, read_deadline=1200.0) as (running, connection):
        is_read(running, connection)
        running.link.check()
        assert connection.frame()[0] is Opcode.PING
        is_read(running, connection)
        clock.seconds += CHECK_DEADLINE + 1.0
        is_read(running, connection)
        assert running.end is None


def test_a_change_of_the_network_ends_no_link_that_still_transmits_what_is_before_the_ping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Devices of pods come and go all the time, and a message of 256 KiB takes half a minute over 10 kB/s."""
    looks, looks_before = list[None](), list[int]()

    def flow(_transport: Transport) -> Flow:
        looks.append(None)
        return Flow(acknowledged=min(len(looks), 9), unacknowledged=MEBIBYTE)

    monkeypatch.setattr(Transport, "flow", flow)
    clock = StandingClock()
    with linked(clock, ping_interval=6000.0, read_deadline=12000.0) as (running, connection):
        running.link.check()
        assert connection.frame()[0] is Opcode.PING
        while running.end is None:
            clock.go(CHECK_DEADLINE - 1.0)
            assert isinstance(running.link, WebsocketLink)
            looks_before[:] = [len(looks)]
            running.link._transport.wake()
            wait_until(lambda: [len(looks)] > looks_before or running.end is not None, "it has looked")
        assert isinstance(running.wait_end(), DeadPeerError)
    assert len(looks) > 9


def test_a_change_of_the_network_ends_no_link_whose_message_is_still_being_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ping comes behind the rest of the message. How much a real network takes at a time depends on its buffers, so
    this one takes what the test says.
    """
    taken = list[int]()
    monkeypatch.setattr(Transport, "send", lambda _transport, _data: taken.pop() if taken else 0)
    monkeypatch.setattr(Transport, "flow", lambda _transport: Flow())
    clock = StandingClock()
    link = WebsocketLink(settings(1, ping_interval=1e5, read_deadline=2e5, write_deadline=1e5), clock)
    link._last_read = clock.monotonic()
    link.send(b"x" * MEBIBYTE)
    link._write()
    link.check()
    link._deadline()
    for _ in range(4):
        clock.go(CHECK_DEADLINE - 1.0)
        taken.append(1000)
        link._write()
        link._deadline()
    assert len(link._unwritten) > MEBIBYTE - 5000
    clock.go(CHECK_DEADLINE)
    with pytest.raises(DeadPeerError):
        link._deadline()
    link._transport.close()


def test_a_quiet_cloud_that_answers_pings_stays_linked() -> None:
    """KubeEdge's cloud says nothing by itself."""
    with linked(ping_interval=0.005, read_deadline=60.0) as (running, connection):
        for _ in range(30):
            opcode, payload = connection.frame()
            assert opcode is Opcode.PING
            connection.send(Opcode.PONG, payload)
        assert running.end is None


def test_a_deadline_shorter_than_the_ping_interval_still_leaves_time_for_a_ping() -> None:
    """Or every quiet cloud would be taken for dead."""
    clock = Ahead()
    with linked(clock, ping_interval=240.0, read_deadline=120.0) as (running, connection):
        is_read(running, connection)
        for _ in range(3):
            assert isinstance(running.link, WebsocketLink)
            clock.seconds += 61.0
            running.link._transport.wake()
            opcode, payload = connection.frame()
            assert opcode is Opcode.PING
            connection.send(Opcode.PONG, payload)
            is_read(running, connection)
        assert running.end is None


def test_a_process_that_stood_still_asks_the_cloud_before_it_takes_it_for_dead() -> None:
    """A machine that is overloaded or paused for longer than the deadline: a quiet cloud is not gone."""
    clock = Ahead()
    with linked(clock, ping_interval=20.0, read_deadline=60.0) as (running, connection):
        assert isinstance(running.link, WebsocketLink)
        is_read(running, connection)
        clock.seconds = 600.0
        running.link._transport.wake()
        opcode, payload = connection.frame()
        assert opcode is Opcode.PING
        connection.send(Opcode.PONG, payload)
        is_read(running, connection)
        clock.seconds += 20.0
        running.link._transport.wake()
        assert connection.frame()[0] is Opcode.PING
        clock.seconds += 60.0
        running.link._transport.wake()
        assert isinstance(running.wait_end(), DeadPeerError)


def test_a_process_that_stood_still_while_it_wrote_asks_the_cloud_before_it_takes_it_for_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has a message half written, and a ping cannot be before the rest of it. What the kernel had of the message was
    acknowledged at the beginning of the pause.
    """
    monkeypatch.setattr(Transport, "flow", lambda _transport: Flow(acknowledged=1, unacknowledged=1, age=600.0))
    clock = Ahead()
    with (
        ScriptedCloud(receive_buffer=65536) as cloud,
        dial(cloud.port, clock, ping_interval=20.0, read_deadline=60.0) as running,
        cloud.accept() as connection,
    ):
        running.wait_open()
        link = running.link
        assert isinstance(link, WebsocketLink)
        link._transport._connected().setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        link.send(b"x" * MEBIBYTE)
        wait_until(lambda: link._ping_deadline.pinged_at > 0, "the link waits until it can write more")
        assert connection.socket.recv(1)
        clock.seconds = 600.0
        connection._data = b"\x81"
        opcode, payload = connection.frame()
        assert (opcode, len(payload)) == (Opcode.TEXT, MEBIBYTE)
        opcode, payload = connection.frame()
        assert opcode is Opcode.PING
        connection.send(Opcode.PONG, payload)
        is_read(running, connection)
        assert running.end is None
