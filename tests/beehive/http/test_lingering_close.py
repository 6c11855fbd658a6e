"""The end of a connection whose client may still send."""

import socket

import pytest

from beehive.clock import RealClock
from beehive.http import lingering_close as module
from beehive.http.lingering_close import linger


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
