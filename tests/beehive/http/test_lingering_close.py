"""The end of a connection whose client may still send."""

import fcntl
import select
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple
from unittest.mock import Mock

import pytest

from beehive.clock import RealClock
from beehive.http import lingering_close as module
from beehive.http.lingering_close import (
    LINGERING_SECONDS,
    linger,
    linger_for_reader,
    reset_at_close,
    reset_now,
    undelivered,
)
from tests.end_to_end.processes import wait_until
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

READER_SECONDS = 1000.0


def test_the_peer_reads_the_last_and_then_the_end() -> None:
    """Before the connection is closed: a peer that waits for the end would wait for the close otherwise."""
    server, peer = socket.socketpair()
    with server, peer:
        server.sendall(b"refused")
        peer.sendall(b"what nobody reads")
        peer.shutdown(socket.SHUT_WR)
        linger(server, RealClock())
        peer.settimeout(10)
        assert (peer.recv(100), peer.recv(100)) == (b"refused", b"")
        assert server.recv(100) == b"", "all of the peer's was read, so closing resets nothing"


def test_a_peer_that_sends_on_is_read_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 3)
    monkeypatch.setattr(module, "_READ_BYTES", 2)
    server, peer = socket.socketpair()
    with server, peer:
        peer.sendall(b"12345")
        linger(server, RealClock())
        assert server.recv(100) == b"5"


def test_a_peer_that_neither_sends_nor_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGERING_SECONDS", 0.01)
    server, peer = socket.socketpair()
    with server, peer:
        linger(server, RealClock())
        assert peer.recv(100) == b""


def test_a_peer_that_has_gone_is_no_failure() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    with listening:
        peer = socket.create_connection(listening.getsockname())
        with listening.accept()[0] as server:
            server.sendall(b"unread by the peer, whose close resets the connection")
            peer.close()
            linger(server, RealClock())


class Late(NamedTuple):
    """A peer that has read nothing of what was sent to it."""

    peer: socket.socket
    server: socket.socket
    sent: int
    clock: StandingClock
    thread: threading.Thread
    """Lingers, and closes the connection."""


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Iterator[Late]:
    """The connection's end, under way."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", 0.01)
    clock = StandingClock()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        peer.settimeout(PATIENCE)
        peer.connect(listening.getsockname())
        server = listening.accept()[0]
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
        server.settimeout(0)
        sent = server.send(bytes(128 * 1024))
        server.shutdown(socket.SHUT_WR)

        def end() -> None:
            with server:
                linger_for_reader(server, clock, READER_SECONDS)

        thread = threading.Thread(target=end)
        thread.start()
        yield Late(peer, server, sent, clock, thread)
        thread.join(PATIENCE)
        assert not thread.is_alive()
    clock.close()


def test_a_slow_reader_that_pings_has_all(late: Late) -> None:
    """The kernel answers a ping to a closed connection with a reset, and drops what it has not sent."""
    late.clock.go(2 * LINGERING_SECONDS)
    received = 0
    while received < late.sent:
        late.peer.sendall(b"ping")
        data = late.peer.recv(1000)
        assert data, (received, late.sent)
        received += len(data)
    assert late.peer.recv(1) == b""
    wait_until(lambda: late.server.fileno() < 0 or not undelivered(late.server), "the kernel knows it")
    late.peer.close()


def test_a_reader_that_stops_is_left_after_a_while(late: Late) -> None:
    assert undelivered(late.server) > 0

    def is_left() -> bool:
        late.clock.go(READER_SECONDS + 1)
        return not late.thread.is_alive()

    wait_until(is_left, "the connection is given up")


def test_a_connection_that_is_reset_has_no_polite_end() -> None:
    """One that another thread has closed is left as it is."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as peer:
        server = listening.accept()[0]
        reset_at_close(server)
        server.close()
        reset_at_close(server)
        with pytest.raises(ConnectionResetError):
            peer.recv(1)


def test_a_connection_is_reset_while_a_thread_waits_for_it() -> None:
    """Both ends know that it was cut; a unix socket has no reset."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        client.settimeout(PATIENCE)
        server, _ = listening.accept()
        with server:
            server.settimeout(PATIENCE)
            server.sendall(b"a part")
            poll = select.poll()
            poll.register(server, select.POLLIN)
            found: list[list[tuple[int, int]]] = []
            thread = threading.Thread(target=lambda: found.append(poll.poll(PATIENCE * 1000)))
            thread.start()
            assert reset_now(server)
            thread.join(PATIENCE)
            assert found[0]
        with pytest.raises(ConnectionResetError):
            while client.recv(100):
                pass
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not reset_now(ours)


def test_of_a_connection_that_has_failed_nothing_is_undelivered(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(fcntl, "ioctl", Mock(side_effect=OSError))
        assert undelivered(ours) == 0


def test_each_byte_that_a_slow_reader_takes_gives_it_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lost the end of its stream when it had taken all but that."""
    now, waiting = [0.0], [1000]

    class Poll:
        """Nothing comes; each look takes most of the patience, in which the peer takes a hundred bytes."""

        def register(self, *_: object) -> None:
            """Take the connection."""

        def poll(self, _milliseconds: float) -> list[object]:
            now[0] += 0.9
            waiting[0] = max(0, waiting[0] - 100)
            return []

    monkeypatch.setattr(select, "poll", Poll)
    monkeypatch.setattr(module, "undelivered", lambda _: waiting[0])
    linger_for_reader(Mock(), Mock(monotonic=lambda: now[0]), 1.0)
    assert waiting == [0]
    assert now[0] >= 9.0 + LINGERING_SECONDS
