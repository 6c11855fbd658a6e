"""What the websocket server leaves, and goes on with, when the kernel refuses something."""

import selectors
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

from beehive.clock import RealClock
from beehive.simulation import Simulation
from beehive.sockets.ports import ListenError
from modules.cloud.identities.known import KnownIdentities
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import NodeIdentity
from modules.cloud.websocket import server as websocket
from modules.cloud.websocket.link import LinkClosed, LinkEvent
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from modules.cloud.websocket.wire import PlainWire
from tests.support.failing import Attempt, Failing, PlannedError, census, fail_at_each_call

_WATCHED = "register"
_UPGRADE = (
    b"GET /e632/n1/events HTTP/1.1\r\nHost: cloud\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Node_id: n1\r\nProject_id: e632\r\nConnectionuse: msg\r\n\r\n"
)


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


@pytest.mark.parametrize("refused", ["socketpair", "DefaultSelector"])
def test_a_server_that_cannot_be_made_has_no_port(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    owner = socket if refused == "socketpair" else selectors
    monkeypatch.setattr(owner, refused, Failing(0).call(print))
    settings = WebsocketSettings(address="127.0.0.1", port=0, node_limit=2, max_frame_bytes=1000, write_timeout=1.0)
    before = census()
    with pytest.raises(ListenError):
        WebsocketServer(settings, print, Simulation().clock)
    assert not census().more_than(before)


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
        now = server._clock.monotonic()
        server._drop_overdue(now)
        assert list(server._connections.values()) == [connection]
        server._drop_overdue(now + 60.0)
        assert not server._connections


def test_the_key_of_a_node_that_connects_is_noted(
    server: WebsocketServer, known: KnownIdentities, used: list[CertifiedPeer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is its own from then on; one that is refused gets nothing by it."""
    peer = CertifiedPeer("1F", 0.0, "n1", "system:node:n1", "a")
    monkeypatch.setattr(websocket, "read_peer", lambda _: peer)
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        refused = server._refusal_of_identity(connection, "n1")
        assert refused is not None
        assert refused.status == 503, "nothing is known yet"
        known.complete([])
        assert (server._refusal_of_identity(connection, "n1"), used) == (None, [peer])
        known.put(NodeIdentity(name="n1", key="b", since=5.0))
        refused = server._refusal_of_identity(connection, "n1")
        assert refused is not None
        assert refused.status == 403
    assert used == [peer]


def test_a_connection_whose_message_cannot_be_read_ends(
    server: WebsocketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node sends it again; it would count as handled for ever."""
    monkeypatch.setattr(websocket, "decode", Failing(0, MemoryError()).call(print))
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        server._deliver_frame(connection, b"{}")
        assert connection.link.is_closed


def test_a_message_that_keeps_others_waiting_for_memory_ends_its_connection(
    server: WebsocketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        monkeypatch.setattr(server._incoming, "overdue", lambda _: [connection])
        server._drop_overdue(0.0)
        assert connection.is_refused


@pytest.mark.parametrize("most", [0, 2])
def test_connections_without_a_websocket_are_few(server: WebsocketServer, most: int) -> None:
    """The newest makes room, too, when it alone has sent nothing."""
    server._opening.most = most
    with ExitStack() as clients:
        for _ in range(4):
            clients.enter_context(closing(socket.create_connection(server.address)))
        server._accept()
        assert len(server._connections) == most


def test_the_time_that_a_node_has_taken_is_forgotten(server: WebsocketServer) -> None:
    """Else one that sent much an hour ago would be served last."""
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        connection.seconds = 8.0
        server._drop_overdue(0.0)
        assert connection.seconds == 4.0


def test_a_server_waits_for_sockets_alone_when_nothing_can_become_overdue(
    server: WebsocketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle cloudcore would wake twice a second for nothing."""
    server._selector.register(server._listening, selectors.EVENT_READ)
    waits: list[float | None] = []

    def select(seconds: float | None) -> list[Any]:
        waits.append(seconds)
        return []

    monkeypatch.setattr(server._selector, "select", select)

    def wait() -> float | None:
        server._poll()
        server._drop_overdue(0.0)
        server._poll()
        return waits[-1]

    assert wait() is None
    assert waits == [0.5, None]
    server._poll()
    assert waits[-1] == 0.5, "what has come is looked at once"
    with closing(socket.create_connection(server.address)):
        server._accept()
        (connection,) = server._connections.values()
        assert wait() == 0.5, "it may never open"
        connection._drop_at = None
        assert wait() is None
        connection.outgoing.extend(b"a")
        assert wait() == 0.5, "its peer may never read"
        connection.outgoing.clear()
        connection.seconds = 0.01
        assert wait() == 0.5
        connection.seconds = 0.0
        server._selector.unregister(server._listening)
        assert wait() == 0.5, "a port that could not be served"
        assert wait() is None


def test_nodes_read_why_a_server_that_listens_no_longer_ends(
    server: WebsocketServer, known: KnownIdentities, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.complete([])
    client = socket.create_connection(server.address, 60.0)
    client.sendall(_UPGRADE)
    server._accept()
    (connection,) = server._connections.values()
    server._attempt(connection, selectors.EVENT_READ)

    def stop(_: float) -> None:
        server.stop_listening()
        connection.link.end(reason="drained")
        server._stopping = True

    def read() -> bytes:
        came = b""
        with client:
            while not came.endswith(b"drained") and (more := client.recv(1024)):
                came += more
        return came

    monkeypatch.setattr(server, "_drop_overdue", stop)  # as another thread between two polls
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(read)
        server._run()
        assert reading.result().endswith(b"drained")


def test_a_server_that_has_ended_hears_of_no_revocation(server: WebsocketServer, known: KnownIdentities) -> None:
    server.start()
    assert known._changed == [server.recheck]
    server.stop()
    assert known._changed == []


def test_a_server_that_listens_no_longer_looks_again(server: WebsocketServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the kernel has memory for it."""
    failing = Failing(0, OSError("no space"))
    monkeypatch.setattr(server._selector, "register", failing.call(server._selector.register))
    server._drop_overdue(0.0)
    assert server._has_deadlines
    assert server._listening not in server._selector.get_map()
    failing.forget()
    server._drop_overdue(0.0)
    assert server._listening in server._selector.get_map()
