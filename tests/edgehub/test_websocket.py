"""The real link against clouds that misbehave, on sockets of this machine."""

import gc
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive import RealClock
from edgehub import websocket
from edgehub.errors import DeadPeerError, DialError, LinkLostError, PeerClosedError, ProtocolError, UpgradeError
from edgehub.framing import Opcode, close_payload
from edgehub.websocket import WebsocketLink
from tests.edgehub.clouds import LibraryCloud, ScriptedCloud
from tests.edgehub.links import RunningLink, dial, linked, settings
from tests.support.patience import PATIENCE
from tests.support.ports import full_backlog

MEBIBYTE = 1 << 20


def test_the_handshake_names_the_node() -> None:
    """docs/protocol.md, "Handshake": path and three headers; no Origin, no compression, no subprotocol."""
    with ScriptedCloud() as cloud, dial(cloud.port):
        first, *lines = cloud.connection().accept().decode().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    assert first == "GET /p/edge-1/events HTTP/1.1"
    assert (headers["node_id"], headers["project_id"], headers["connectionuse"]) == ("edge-1", "p", "msg")
    assert headers["host"] == f"127.0.0.1:{cloud.port}"
    assert not {"origin", "sec-websocket-extensions", "sec-websocket-protocol"} & headers.keys()


def test_a_server_that_offers_compression_gets_none() -> None:
    """The `websockets` server compresses by default; nothing is negotiated."""
    with LibraryCloud() as cloud, dial(cloud.port) as running:
        connection = cloud.accept()
        running.wait_open()
        assert connection.protocol.extensions == []
        connection.send("{}" * 1000)
        assert running.frame() == b"{}" * 1000


@pytest.mark.parametrize("size", [MEBIBYTE + 1, 5 * MEBIBYTE])
def test_messages_over_a_mebibyte_pass_both_ways(size: int) -> None:
    """Lists of pods are so large."""
    payload = b"[" + b"1," * (size // 2) + b"1]"
    with LibraryCloud() as cloud, dial(cloud.port) as running:
        connection = cloud.accept()
        running.wait_open()
        connection.send(payload.decode())
        assert running.frame() == payload
        running.link.send(payload)
        assert cloud.frame() == payload.decode()
        running.wait_confirmed(1)


def test_a_message_in_the_fragments_of_gorilla_is_reassembled() -> None:
    """24 MiB in frames of 4096 bytes: more fragments than the `websockets` package takes."""
    payload = b"x" * (24 * MEBIBYTE)
    with linked(max_frame_bytes=32 * MEBIBYTE) as (running, connection):
        sender = threading.Thread(target=connection.send_as_gorilla, args=(payload,))
        sender.start()
        assert running.frame() == payload
        sender.join()


def test_frames_that_come_with_the_answer_to_the_upgrade_are_read() -> None:
    """A cloud may send immediately."""
    with ScriptedCloud() as cloud, dial(cloud.port) as running:
        connection = cloud.connection()
        sent, connection.socket = connection.socket, _Joined(connection.socket)  # type: ignore[assignment]
        connection.accept()
        connection.send(Opcode.TEXT, b'{"first":1}')
        connection.socket.flush()  # type: ignore[attr-defined]
        connection.socket = sent
        assert running.frame() == b'{"first":1}'
        connection.close()


class _Joined:
    """A socket that keeps what is sent until it is flushed as one."""

    def __init__(self, below: socket.socket) -> None:
        self._below = below
        self._data = b""
        self.recv = below.recv

    def sendall(self, data: bytes) -> None:
        self._data += data

    def flush(self) -> None:
        self._below.sendall(self._data)


def test_pings_of_the_cloud_are_answered() -> None:
    """With what they carry."""
    with linked() as (_, connection):
        connection.send(Opcode.PING, b"are you there")
        assert connection.frame() == (Opcode.PONG, b"are you there")


def test_nothing_is_confirmed_before_the_pong() -> None:
    """A write that succeeded is no proof: the cloud's pong is."""
    with linked() as (running, connection):
        running.link.send(b'{"n":1}')
        assert connection.frame() == (Opcode.TEXT, b'{"n":1}')
        opcode, asked = connection.frame()
        assert opcode is Opcode.PING
        assert running.arrived == 0
        connection.send(Opcode.PONG, asked)
        running.wait_confirmed(1)


@pytest.mark.parametrize(("how", "expected"), [("close", PeerClosedError), ("reset", LinkLostError)])
def test_a_cut_connection_ends_the_link_immediately(how: str, expected: type[Exception]) -> None:
    """Whether with FIN or RST."""
    with linked() as (running, connection):
        getattr(connection, how)()
        end = running.wait_end()
    assert isinstance(end, expected | PeerClosedError)
    assert running.events.count("opened") == 1


def test_a_close_frame_is_answered_and_its_code_reported() -> None:
    """And the connection ended by the client."""
    with linked() as (running, connection):
        connection.send(Opcode.CLOSE, close_payload(1001, "going away"))
        end = running.wait_end()
        assert connection.frame()[0] is Opcode.CLOSE
        assert connection.ended()
    assert isinstance(end, PeerClosedError)
    assert end.code == 1001


def test_a_cloud_that_stops_reading_is_taken_for_dead() -> None:
    """However long silence is allowed to be: the deadline for writing notices."""
    with (
        ScriptedCloud(receive_buffer=4096) as cloud,
        dial(cloud.port, write_deadline=0.3, read_deadline=60.0) as running,
    ):
        cloud.accept()
        running.wait_open()
        for _ in range(64):
            running.link.send(b"x" * MEBIBYTE)
        end = running.wait_end()
    assert isinstance(end, DeadPeerError)
    assert "accepted nothing" in str(end)


def test_a_cloud_that_stops_reading_does_not_hold_up_the_sender_or_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """`send` never blocks; `close` gives up what cannot leave after a second, here sooner."""
    monkeypatch.setattr(websocket, "LINGER", 0.1)
    with ScriptedCloud(receive_buffer=4096) as cloud:
        with dial(cloud.port) as running:
            cloud.accept()
            running.wait_open()
            for _ in range(64):
                running.link.send(b"x" * MEBIBYTE)
        assert running.end is not None


def test_a_violation_of_the_protocol_ends_the_link_with_its_reason() -> None:
    """Nothing can be read after it."""
    with linked() as (running, connection):
        connection.socket.sendall(b"\xff\xff\xff")
        end = running.wait_end()
    assert isinstance(end, ProtocolError)


@pytest.mark.parametrize(
    ("answer", "about"),
    [
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nno go", "no go"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "not an HTTP answer"),
        (b"", "closed the connection"),
    ],
)
def test_a_peer_that_does_not_agree_is_an_upgrade_error(answer: bytes, about: str) -> None:
    """The error has the peer's words."""
    with ScriptedCloud() as cloud, dial(cloud.port) as running:
        connection = cloud.connection()
        connection.read_request()
        connection.socket.sendall(answer)
        connection.close()
        end = running.wait_end()
    assert isinstance(end, UpgradeError)
    assert about in str(end)
    assert running.events == []


def test_a_peer_that_accepts_and_is_silent_is_given_up() -> None:
    """After the handshake timeout."""
    with ScriptedCloud() as cloud, dial(cloud.port, handshake_timeout=0.2) as running:
        cloud.connection()
        end = running.wait_end()
    assert isinstance(end, UpgradeError)
    assert "no answer within 0.2 s" in str(end)


def test_closing_interrupts_a_handshake() -> None:
    """A node that stops does not wait for a cloud that hangs."""
    with ScriptedCloud() as cloud:
        with dial(cloud.port) as running:
            cloud.connection().read_request()
        assert running.end is not None
        assert running.end.reason == "closed here"


def test_a_full_backlog_is_a_dial_error_in_time() -> None:
    """SYNs that nobody answers."""
    with full_backlog() as port, dial(port, handshake_timeout=0.3) as running:
        end = running.wait_end()
    assert isinstance(end, DialError | UpgradeError)


def test_after_an_address_that_does_not_answer_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with IPv6 that leads nowhere: the node never connected. The cloud has many addresses, so that the silent one's
    share of the time is short.
    """
    with full_backlog() as silent, LibraryCloud() as cloud:
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (silent, *[cloud.port] * 19)
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with dial(handshake_timeout=2.0) as running:
            running.wait_open()


def test_a_name_that_does_not_exist_is_a_dial_error() -> None:
    """`.invalid` never resolves (RFC 2606)."""
    with dial(url="ws://cloud.invalid:10000/") as running:
        end = running.wait_end()
    assert isinstance(end, DialError)
    assert "cloud.invalid" in str(end)


def test_a_goodbye_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A close frame with 1000, and the client waits for the cloud to have read it."""
    monkeypatch.setattr(websocket, "LINGER", 600.0)
    with linked() as (running, connection):
        running.link.close()
        assert connection.frame() == (Opcode.CLOSE, close_payload(1000))
        assert connection.socket.recv(1) == b"", "and then nothing more"
        connection.close()
        running.wait_end()


def test_a_blocked_receiver_stops_the_cloud() -> None:
    """Back-pressure: while an event handler blocks, nothing more is read, and TCP tells the sender."""
    gate = threading.Event()

    class Slow(RunningLink):
        def received(self, frame: bytes) -> None:
            assert gate.wait(PATIENCE)
            super().received(frame)

    with ScriptedCloud() as cloud, Slow(WebsocketLink(settings(cloud.port), RealClock())) as running:
        connection = cloud.accept()
        running.wait_open()
        connection.socket.settimeout(0.3)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 256:
                connection.send(Opcode.TEXT, b"x" * MEBIBYTE)
                sent += 1
        gate.set()
        for _ in range(sent):
            running.frame()
        connection.close()


def test_a_link_whose_owner_fails_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """edgehub's next link would be the node's second one."""
    link, closed = WebsocketLink(settings(), RealClock()), list[str]()
    monkeypatch.setattr(link, "_dial", lambda: b"")
    monkeypatch.setattr(link._transport, "close", lambda: closed.append("transport"))
    with pytest.raises(ZeroDivisionError):
        link.run(cast("Any", SimpleNamespace(opened=lambda: 1 // 0)))
    assert closed == ["transport"]


def test_no_descriptor_is_left_behind() -> None:
    """Ten links later the process has no more open files than before."""
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with ScriptedCloud() as cloud:
        for _ in range(10):
            with dial(cloud.port) as running:
                connection = cloud.accept()
                running.wait_open()
                connection.close()
                running.wait_end()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_turn_that_ends_before_all_is_read_has_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """TLS may hold more, which no poll shows."""
    monkeypatch.setattr(websocket, "_READ_BYTES", 2)
    monkeypatch.setattr(websocket, "_MORE_BYTES", 2)
    link, pong, reads, wakes = WebsocketLink(settings(), RealClock()), bytes((0x8A, 0)), list[int](), list[int]()
    for left, rung in ((1000, 1), (3, 0)):
        reads.clear()
        wakes.clear()

        def receive(size: int, left: int = left) -> bytes | None:
            reads.append(size)
            return pong if len(reads) <= left else None

        link._transport = cast("Any", SimpleNamespace(receive=receive, wake=lambda: wakes.append(1)))
        link._read(cast("Any", None))
        assert len(wakes) == rung
