"""What the websocket server leaves, and goes on with, when the kernel refuses something."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.clock import RealClock
from beehive.simulation import Simulation
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import NodeIdentity
from modules.cloud.websocket import server as websocket
from modules.cloud.websocket.link import LinkClosed, LinkEvent
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.cloud.websocket.wire import PlainWire
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call

_WATCHED = "register"


@pytest.fixture
def events() -> list[LinkEvent]:
    """What is delivered."""
    return []


@pytest.fixture
def used() -> list[CertifiedPeer]:
    """The certificates whose use is noted."""
    return []


@pytest.fixture
def known(used: list[CertifiedPeer]) -> KnownIdentities:
    return KnownIdentities(Simulation().clock, used.append)


@pytest.fixture
def server(events: list[LinkEvent], known: KnownIdentities) -> Iterator[WebsocketServer]:
    """A server without its thread."""
    clock = RealClock()
    settings = WebsocketSettings(address="127.0.0.1", port=0, node_limit=2, max_frame_bytes=1000, write_timeout=1.0)
    made = WebsocketServer(settings, events.append, clock, identities=known)
    yield made
    made.stop()
    clock.close()


def refuse(server: WebsocketServer, failing: Failing) -> None:
    """Let the kernel refuse to watch a socket."""
    inner: Any = server._selector
    server._selector = failing.calls_of(inner, _WATCHED)


@pytest.mark.parametrize("at", [0, 1])
def test_a_server_that_cannot_begin_closes_its_port(server: WebsocketServer, at: int) -> None:
    """Nodes would connect to a port behind which nobody is."""
    refuse(server, Failing(at))
    with pytest.raises(PlannedError):
        server._run()
    assert [each.fileno() for each in (server._listening, server._waker, server._woken)] == [-1, -1, -1]


@pytest.mark.parametrize("error", [PlannedError(), ValueError("of this test")])
def test_a_connection_that_cannot_be_taken_ends_alone(
    server: WebsocketServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The server's thread would end with it, and all nodes would be without a cloud."""

    def make(failing: Failing) -> Attempt:
        monkeypatch.setattr(websocket, "PlainWire", failing.call(PlainWire))
        if isinstance(error, OSError):
            refuse(server, failing)

        def connect() -> None:
            with closing(socket.create_connection(server.address)) as client:
                client.settimeout(60.0)
                server._accept()
                if failing.has_failed:
                    assert client.recv(1) == b""
                for connection in list(server._connections.values()):
                    server._drop(connection, "it was a test")

        return Attempt(connect, (server,))

    assert fail_at_each_call(make, error) == (2 if isinstance(error, OSError) else 1)


def test_a_connection_that_can_no_longer_be_watched_ends(server: WebsocketServer) -> None:
    before, selector = census((server,)), server._selector
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        server._selector = cast("Any", SimpleNamespace(modify=Failing(0).call(print)))
        server._watch(connection, selectors.EVENT_WRITE)
        server._selector = selector
    assert not census((server,)).more_than(before)


def test_of_a_node_that_is_refused_nothing_more_is_delivered(server: WebsocketServer, events: list[LinkEvent]) -> None:
    """Though it waits here; and the node has a moment to read why, whoever else ends the connection."""
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        connection.unread.append(b"{}")
        server._cut_off(connection, "revoked")
        assert [type(each) for each in events] == [LinkClosed]
        connection.link.close()
        server._serve_signalled()
        assert list(server._connections.values()) == [connection]


def test_the_key_of_a_node_that_connects_is_noted(
    server: WebsocketServer, known: KnownIdentities, used: list[CertifiedPeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is its own from then on; one that is refused gets nothing by it."""
    peer = CertifiedPeer("1F", 0.0, "n1", "system:node:n1", "a")
    monkeypatch.setattr(websocket, "read_peer", lambda _: peer)
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        assert server._refusal_of_identity(connection, "n1") is not None, "nothing is known yet"
        known.complete([])
        assert (server._refusal_of_identity(connection, "n1"), used) == (None, [peer])
        known.put(NodeIdentity(name="n1", key="b", since=5.0))
        assert server._refusal_of_identity(connection, "n1") is not None
    assert used == [peer]


def test_the_time_that_a_node_has_taken_is_forgotten(server: WebsocketServer) -> None:
    """Else one that sent much an hour ago would be served last."""
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        connection.seconds = 8.0
        server._drop_overdue(0.0)
        assert connection.seconds == 4.0


def test_a_server_that_has_ended_hears_of_no_revocation(server: WebsocketServer, known: KnownIdentities) -> None:
    server.start()
    assert known._changed == [server.recheck]
    server.stop()
    assert known._changed == []
