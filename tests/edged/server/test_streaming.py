"""Connections that are passed on: bytes both ways, ends, slow sides, silence; over real sockets."""

import select
import socket
import threading
from collections.abc import Iterator

import pytest

from beehive import RealClock
from beehive.clock import Clock
from beehive.http.lingering_close import reset_at_close, undelivered
from beehive.http.upgraded_end import UpgradedEnd
from edged.server import streaming
from edged.server.streaming import forwarded_head, relay
from tests.beehive.http.requests import parse
from tests.end_to_end.processes import wait_until
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE


class Middle:
    """A relay between two ends."""

    def __init__(self, clock: Clock, idle: float = 3600.0, first: bytes = b"") -> None:
        self.client, ours = socket.socketpair()
        self.server, theirs = socket.socketpair()
        for end in (self.client, self.server):
            end.settimeout(PATIENCE)
        self.ended = threading.Event()
        self.error: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=(ours, theirs, first, clock, idle))
        self._thread.start()

    def _run(self, ours: socket.socket, theirs: socket.socket, first: bytes, clock: Clock, idle: float) -> None:
        with ours, theirs:
            try:
                relay(ours, theirs, first, clock, idle)
            except OSError as error:
                self.error = error
        self.ended.set()

    def close(self) -> None:
        """Both ends go."""
        self.client.close()
        self.server.close()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def middle() -> Iterator[Middle]:
    made = Middle(RealClock(), first=b"first ")
    yield made
    made.close()


def read(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = end.recv(size - len(data))
        assert chunk, data
        data += chunk
    return data


def test_bytes_go_both_ways_after_the_ones_read_before(middle: Middle) -> None:
    middle.client.sendall(b"ping")
    assert read(middle.server, 10) == b"first ping"
    middle.server.sendall(b"pong")
    assert read(middle.client, 4) == b"pong"


def test_a_side_that_ends_its_direction_still_receives(middle: Middle) -> None:
    middle.client.shutdown(socket.SHUT_WR)
    assert read(middle.server, 6) == b"first "
    assert middle.server.recv(1) == b""
    middle.server.sendall(b"the rest")
    assert read(middle.client, 8) == b"the rest"
    middle.server.shutdown(socket.SHUT_WR)
    assert middle.client.recv(1) == b""
    assert middle.ended.wait(PATIENCE)
    assert middle.error is None


def test_a_side_that_does_not_read_stops_the_other(middle: Middle) -> None:
    """What is under way is bounded by the kernel's buffers and one read of ours; later all of it arrives."""
    sent, block = 0, b"x" * 65_536
    middle.server.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while sent < 100 * len(block):
            sent += middle.server.send(block)
    assert sent < 100 * len(block)
    assert set(read(middle.client, sent)) == {ord("x")}


def test_much_goes_through_in_both_directions_at_once(middle: Middle) -> None:
    size = 4_000_000
    writers = [threading.Thread(target=end.sendall, args=(bytes(size),)) for end in (middle.client, middle.server)]
    readers = [
        threading.Thread(target=read, args=(middle.client, size)),
        threading.Thread(target=read, args=(middle.server, size + 6)),
    ]
    for thread in writers + readers:
        thread.start()
    for thread in writers + readers:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("end", ["client", "server"])
def test_a_side_that_breaks_ends_it(middle: Middle, end: str) -> None:
    other = middle.server if end == "client" else middle.client
    getattr(middle, end).close()
    if end == "client":
        read(other, 6)
    assert other.recv(1) == b""
    other.close()
    assert middle.ended.wait(PATIENCE)


def test_what_a_server_has_said_arrives_though_it_takes_no_more(middle: Middle) -> None:
    """kubectl sends a ping each 5 s, also to a command that has ended while its output is still on its way."""
    read(middle.server, 6)
    sent, block = 0, b"x" * 65_536
    middle.server.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while True:
            sent += middle.server.send(block)
    middle.server.close()
    middle.client.sendall(b"ping")
    wait_until(lambda: not undelivered(middle.client), "the relay has the ping")
    assert set(read(middle.client, sent)) == {ord("x")}
    assert middle.client.recv(1) == b""
    middle.client.close()
    assert middle.ended.wait(PATIENCE)
    assert middle.error is None


def test_a_server_that_breaks_off_has_no_polite_end() -> None:
    """kubectl takes the end of a SPDY connection without a status for a command's success."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        client.settimeout(PATIENCE)
        ours = listening.accept()[0]
        with socket.create_connection(listening.getsockname()) as theirs:
            server = listening.accept()[0]
            reset_at_close(server)
            server.close()
            with ours, pytest.raises(ConnectionResetError):
                relay(ours, theirs, b"", RealClock(), 3600.0)
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_server_that_is_killed_has_no_polite_end() -> None:
    """The kernel ends its connections as it ends those of a server that has said all."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
        socket.create_connection(listening.getsockname()) as theirs,
    ):
        client.settimeout(PATIENCE)
        ours, server = listening.accept()[0], listening.accept()[0]
        with server:
            server.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n\0\0\0\3\0\0\0\4text")
        with ours, pytest.raises(ConnectionAbortedError):
            relay(ours, theirs, b"", RealClock(), 3600.0, UpgradedEnd())
        with pytest.raises(ConnectionResetError):
            while client.recv(100):
                pass


def test_a_silent_relay_ends() -> None:
    middle = Middle(RealClock(), idle=0.05)
    assert middle.client.recv(1) == middle.server.recv(1) == b""
    middle.close()


@pytest.mark.parametrize(("end", "resets"), [("client", 2), ("server", 0)])
def test_when_one_side_has_ended_silence_ends_it_sooner(monkeypatch: pytest.MonkeyPatch, end: str, resets: int) -> None:
    """Politely only after the end of what the server says."""
    reset: list[socket.socket] = []
    monkeypatch.setattr(streaming, "reset_at_close", reset.append)
    monkeypatch.setattr(streaming, "LINGER", 0.05)
    middle = Middle(RealClock())
    getattr(middle, end).shutdown(socket.SHUT_WR)
    assert middle.server.recv(1) == b""
    assert middle.client.recv(1) == b""
    assert middle.ended.wait(PATIENCE)
    assert len(set(reset)) == resets
    middle.close()


def test_the_time_of_silence_begins_anew_with_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for in milliseconds."""
    clock, waits = StandingClock(), []
    near, far = socket.socketpair(), socket.socketpair()

    class Quiet:
        """A poll that tells once of a byte, and then of none."""

        def register(self, *_: object) -> None:
            """Take all."""

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            waits.append(milliseconds)
            clock.go(6.0)
            return [(near[0].fileno(), select.POLLIN)] if len(waits) == 1 else []

    monkeypatch.setattr("edged.server.streaming.select.poll", Quiet)
    with near[0], near[1], far[0], far[1]:
        near[1].sendall(b"x")
        relay(near[0], far[0], b"", clock, 10.0)
        assert far[1].recv(9) == b"x"
    assert waits == [10_000.0, 10_000.0]


def test_a_request_goes_on_with_what_matters_and_without_credentials() -> None:
    head = (
        "GET /exec/ns/p/app?command=ls HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket",
        "Sec-WebSocket-Key: k", "X-Stream-Protocol-Version: v4.channel.k8s.io", "Authorization: Bearer secret",
        "Cookie: secret",
    )  # fmt: skip
    request = parse("\r\n".join([*head, "", "more"]).encode())
    assert forwarded_head(request, "http://127.0.0.1:1234/exec/token?x=1").decode().split("\r\n") == [
        "GET /exec/token?x=1 HTTP/1.1",
        "Host: 127.0.0.1:1234",
        "connection: Upgrade",
        "upgrade: websocket",
        "sec-websocket-key: k",
        "x-stream-protocol-version: v4.channel.k8s.io",
        "",
        "more",
    ]
