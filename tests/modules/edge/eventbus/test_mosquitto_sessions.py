"""Sessions that nobody comes back for do not fill the memory of the broker that eventbus runs: a real mosquitto."""

import os
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import pytest

from modules.edge.eventbus import mosquitto_files, mosquitto_process
from modules.edge.eventbus.internal_broker import DATA, InternalBroker
from modules.edge.eventbus.module import EventBusSettings
from modules.edge.eventbus.mosquitto_sessions import Held, StoredSession, UnreadableError, read_held, without
from modules.edge.eventbus.packets import publish, remaining_length
from tests.end_to_end.processes import wait_until
from tests.modules.edge.eventbus.broker import Application, needs_mosquitto
from tests.modules.edge.eventbus.node import Node
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.stopping import stopping

_MESSAGE: Final = 200_000
_QUEUE: Final = 10
"""Messages of this size that wait for a session at most: mosquitto keeps 2 MiB."""


class Client:
    """A client that does what a program of anybody's may do."""

    def __init__(self, port: int, name: str, *, clean: bool) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        text = name.encode()
        body = b"\0\4MQTT\4" + bytes([2 if clean else 0, 0, 0]) + struct.pack("!H", len(text)) + text
        self._socket.sendall(bytes([0x10, *remaining_length(len(body))]) + body)
        try:
            self._expect(b"\x20", 4)
        except ConnectionError:
            self._socket.close()
            raise

    def subscribe(self, topic: str, qos: int = 1) -> None:
        """Subscribe."""
        body = b"\0\1" + struct.pack("!H", len(topic)) + topic.encode() + bytes([qos])
        self._socket.sendall(bytes([0x82, *remaining_length(len(body))]) + body)
        self._expect(b"\x90", 5)

    def publish(self, topic: str, payload: bytes) -> bool:
        """Publish with QoS 1; return whether the broker has taken it."""
        try:
            self._socket.sendall(publish(topic, payload, 2, qos=1, retain=False))
            return self._socket.recv(4)[:1] == b"\x40"
        except OSError:
            return False

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def _expect(self, kind: bytes, size: int) -> None:
        """Read the broker's answer. Raises ConnectionError if it has ended the connection."""
        if not (answer := self._socket.recv(size)):
            raise ConnectionResetError
        assert answer[:1] == kind


@pytest.fixture
def broker(tmp_path: Path) -> InternalBroker:
    """The settings of a broker for anonymous clients."""
    program = mosquitto_files.find_mosquitto()
    assert program is not None
    return InternalBroker(
        directory=tmp_path / "m", program=program, host="127.0.0.1", port=free_port(), client_id="edgecore-secret"
    )


@pytest.fixture
def node(tmp_path: Path, broker: InternalBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node that looks at its broker often."""
    monkeypatch.setattr(mosquitto_process, "CHECK_SECONDS", 0.2)
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as made:
        wait_until(lambda: made.counters.connected == {"internal": True}, "the broker accepts the node", PATIENCE)
        yield made


def absent(port: int, name: str, messages: int) -> bool:
    """Make a session, leave it, and fill its queue; return whether the broker has taken all."""
    with suppress(ConnectionError):
        with closing(Client(port, name, clean=False)) as client:
            client.subscribe(f"to/{name}")
        with closing(Client(port, "sender", clean=True)) as sender:
            return all(sender.publish(f"to/{name}", bytes(_MESSAGE)) for _ in range(messages))
    return False


def passes_on(port: int) -> bool:
    """Return whether a large message passes."""
    with (
        closing(Client(port, "receiver", clean=True)) as receiver,
        closing(Client(port, "sender", clean=True)) as sender,
    ):
        receiver.subscribe("large", 0)
        return sender.publish("large", bytes(500_000))


@needs_mosquitto
def test_absent_sessions_do_not_fill_the_broker(node: Node, broker: InternalBroker) -> None:
    """Sixty of them with full queues. Others get their messages, and a session that was stored before keeps its own."""
    early = Application(broker.port, "to/early", session="early")
    early.close()
    Application(broker.port).publish("to/early", "for whoever was here before")
    os.kill(int((broker.directory / mosquitto_files.PID).read_bytes()), signal.SIGUSR1)
    stored = broker.directory / DATA / mosquitto_files.STORED
    wait_until(stored.exists, "mosquitto stores its sessions", PATIENCE)

    full = made = 0
    while full < 60:  # while it is full it ends the connections of senders; then there is one session more
        full += absent(broker.port, f"flood-{made}", _QUEUE)
        made += 1
        wait_until(lambda: node.counters.connected == {"internal": True}, "the node is connected", PATIENCE)
    wait_until(lambda: passes_on(broker.port), "a large message passes", PATIENCE)
    names = {each.client_id for each in read_held(stored.read_bytes()).sessions}
    assert {b"early", b"edgecore-secret"} <= names
    early = Application(broker.port, session="early")
    assert early.hear() == ("to/early", b"for whoever was here before")
    early.close()


@needs_mosquitto
def test_a_client_that_takes_nothing_does_not_fill_the_broker_either(node: Node, broker: InternalBroker) -> None:
    """mosquitto keeps messages of QoS 0 without a bound for a client that is connected and does not read: it is started
    again, and those who connect then get their messages.
    """
    silent = Client(broker.port, "silent", clean=True)
    silent.subscribe("noise", 0)
    sender = Client(broker.port, "sender", clean=True)
    while sender.publish("noise", bytes(_MESSAGE)):
        pass
    wait_until(lambda: node.counters.broker_starts == 2, "it is started again", PATIENCE)
    wait_until(lambda: node.counters.connected == {"internal": True}, "the node is connected", PATIENCE)
    assert passes_on(broker.port)
    silent.close()
    sender.close()


@needs_mosquitto
def test_a_broker_starts_with_what_filled_the_one_before(
    tmp_path: Path, broker: InternalBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As an earlier edgecore has left it: with 60 MiB in sessions, of which the earliest stay."""
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as node:
        wait_until(lambda: node.counters.connected == {"internal": True}, "the broker accepts the node", PATIENCE)
        count = 0
        while absent(broker.port, f"flood-{count}", _QUEUE):
            count += 1
        assert count > 20
    monkeypatch.setattr(mosquitto_process, "CHECK_SECONDS", 0.2)
    with stopping(Node(tmp_path, EventBusSettings("n1", None, broker)).start()) as node:
        wait_until(lambda: node.counters.connected == {"internal": True}, "the broker accepts the node", PATIENCE)
        assert passes_on(broker.port)
        first = Application(broker.port, session="flood-0")
        assert first.hear() == ("to/flood-0", bytes(_MESSAGE))
        first.close()
    assert "set aside" not in caplog.text


A, B, C, D = b"a", b"b", b"c", b"d"


def held(*sessions: StoredSession) -> Held:
    """A message for all, one of 50 bytes for each, and one byte of their own."""
    names = [each.client_id for each in sessions]
    messages = {0: 100} | {number: 50 for number, _ in enumerate(names, 1)}
    return Held(sessions, messages, {name: [0, at] for at, name in enumerate(names, 1)}, dict.fromkeys(names, 1))


def test_the_last_connected_go_first() -> None:
    """The absent ones, then the connected ones; never the one to be kept."""
    it = held(
        StoredSession(A, is_absent=True),
        StoredSession(B, is_absent=False),
        StoredSession(C, is_absent=True),
        StoredSession(D, is_absent=True),
    )
    assert it.to_end(b"", 304) == []
    assert it.to_end(b"", 303) == [D]
    assert it.to_end(b"", 202) == [D, C]
    assert it.to_end(b"", 0) == [D, C, A, B]
    assert it.to_end(C, 0) == [D, A, B]


def queue_of(name: bytes, number: int, size: int) -> bytes:
    """The stored session of a client for which a message waits."""
    length = struct.pack("!H", len(name))
    chunks = (
        (6, struct.pack("=q", 1) + bytes(6) + length + bytes(8) + name),
        (2, struct.pack("=Q", number) + bytes(size)),
        (3, struct.pack("=Q", number) + bytes(2) + length + bytes(4) + name),
    )
    return b"".join(struct.pack("!II", kind, len(chunk)) + chunk for kind, chunk in chunks)


def test_stored_sessions_are_written_again_only_if_that_makes_them_fewer(tmp_path: Path) -> None:
    """A flash card lives longer if 20 MiB that nothing is left out of stay as they are at each start."""
    broker = InternalBroker(
        directory=tmp_path, program=tmp_path / "none", host="127.0.0.1", port=1, client_id="edgecore-secret"
    )
    stored = tmp_path / DATA / mosquitto_files.STORED
    stored.parent.mkdir()
    head = b"\x00\xb5\x00mosquitto db" + struct.pack("!II", 0, 6)
    owner = mosquitto_files.Owner(os.getuid(), os.getgid())
    fitting = head + queue_of(b"early", 1, 20 << 20)
    stored.write_bytes(fitting)
    before = stored.stat().st_ino
    mosquitto_files.shorten_messages(broker, owner)
    assert stored.stat().st_ino == before
    stored.write_bytes(fitting + queue_of(b"late", 2, 5 << 20))
    mosquitto_files.shorten_messages(broker, owner)
    assert stored.read_bytes() == fitting
    for damaged in (fitting[: -(5 << 20)], *(fitting + struct.pack("!II", kind, 2) + b"xx" for kind in range(2, 7))):
        stored.write_bytes(damaged)
        with pytest.raises(UnreadableError):
            mosquitto_files.shorten_messages(broker, owner)
    stored.unlink()
    mosquitto_files.shorten_messages(broker, owner)


def test_a_message_that_is_kept_for_later_subscribers_stays_without_a_session() -> None:
    head = b"\x00\xb5\x00mosquitto db" + struct.pack("!II", 0, 6)
    kept = struct.pack("!II", 4, 8) + struct.pack("=Q", 1)
    left = without(head + queue_of(b"late", 1, 5) + queue_of(b"late", 2, 5) + kept, [b"late"])
    assert left == head + struct.pack("!II", 2, 13) + struct.pack("=Q", 1) + bytes(5) + kept


@needs_mosquitto
def test_stored_sessions_can_be_read(node: Node, broker: InternalBroker) -> None:
    """Names of any length, who is there, and for whom a message waits."""
    long = "x" * 300
    assert absent(broker.port, long, 2)
    there = Client(broker.port, "there", clean=False)
    node.stop()
    data = (broker.directory / DATA / mosquitto_files.STORED).read_bytes()
    it = read_held(data)
    present = {each.client_id: each.is_absent for each in it.sessions}
    assert present[long.encode()] is True
    assert present[b"edgecore-secret"] in (True, False)
    assert b"there" in present
    assert [it.messages[each] > _MESSAGE for each in it.queued[long.encode()]] == [True, True]
    there.close()
    shorter = read_held(without(data, [long.encode()]))
    assert {each.client_id for each in shorter.sessions} == set(present) - {long.encode()}
    assert shorter.messages == {}
    assert without(data, []) == data
    for wrong in (b"", b"no", data[:20], data[:-1], b"\x00\xb5\x00mosquitto db" + struct.pack("!II", 0, 7)):
        with pytest.raises(UnreadableError):
            read_held(wrong)
    with pytest.raises(UnreadableError):
        read_held(data[:23] + struct.pack("!II", 6, 2) + b"xx")
