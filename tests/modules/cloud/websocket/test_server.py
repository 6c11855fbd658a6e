"""cloudhub over real sockets: the websocket server, with a client of another library's making on the other end."""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from beehive.clock import RealClock
from beehive.codec import decode, encode
from beehive.errors import FrameError
from beehive.handlers import handles
from beehive.hive import Hive
from beehive.message import Message
from beehive.module import Module
from beehive.runtime import Threads
from modules.apimachinery.limits import NODE_LIMIT, NODE_VALUES
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.cloudhub.dispatcher import Dispatcher
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE
from modules.cloud.websocket.connection import _PASSED_FRAMES
from modules.cloud.websocket.server import _LONGEST, _TOO_LONG, WebsocketServer, WebsocketSettings, _read_long
from modules.edge.servicebus.application_calls import MOST_BODY
from tests.end_to_end.processes import wait_until
from tests.support.patience import PATIENCE
from tests.support.presence import present
from tests.support.stopping import stopping

LIMIT = 4 * 1024 * 1024


class Inbox(Module):
    """Stands where edgecontroller is: keeps what comes."""

    name = "edgecontroller"
    group = "edgecontroller"

    def __init__(self, came: list[Message], changed: threading.Condition) -> None:
        super().__init__()
        self._came = came
        self._changed = changed

    @handles()
    def take(self, message: Message) -> None:
        with self._changed:
            self._came.append(message)
            self._changed.notify_all()


class Fragile(CloudHub):
    """cloudhub that can be made to fail."""

    attempts = 1

    @handles(None, "explode")
    def explode(self, message: Message) -> None:
        raise RuntimeError("as the test wants it")


class Cloud:
    """cloudhub on threads, listening on a free port."""

    def __init__(self, node_limit: int = 10) -> None:
        self.clock = RealClock()
        self.came: list[Message] = []
        self._changed = threading.Condition()
        self._node_limit = node_limit
        self._servers = 0
        self._server: WebsocketServer | None = None
        self.counters = CloudHubCounters()
        self.hive = Hive(Threads(self.clock))
        settings = CloudHubSettings(keepalive_interval=600.0)  # its nodes send none
        self.hive.add(Fragile, settings, self._make_server, {})
        self.hive.add(Inbox, self.came, self._changed)
        self.hive.start()

    def _make_server(self, deliver: Dispatcher) -> WebsocketServer:
        port = self._server.address[1] if self._server else 0
        settings = WebsocketSettings(
            address="127.0.0.1", port=port, node_limit=self._node_limit, max_frame_bytes=LIMIT, write_timeout=PATIENCE
        )
        self._server = WebsocketServer(settings, deliver, self.clock, is_full=deliver.is_full, counters=self.counters)
        with self._changed:
            self._servers += 1
            self._changed.notify_all()
        return self._server

    @property
    def server(self) -> WebsocketServer:
        """The newest server."""
        return present(self._server)

    def wait_for_servers(self, count: int) -> None:
        """Until that many servers have been made: one for each start of the module."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._servers >= count, PATIENCE)

    def stop(self) -> None:
        self.hive.stop()
        self.clock.close()

    def message(self, resource: str, operation: str, content: Any = None, **fields: Any) -> Message:
        fields = {"source": "edged", "group": "meta", **fields}
        return Message.new(self.clock, resource=resource, operation=operation, content=content, **fields)

    def wait_for(self, wanted: Callable[[Message], bool]) -> Message:
        """The first message of a kind at edgecontroller."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(map(wanted, self.came)), PATIENCE)
            return next(filter(wanted, self.came))

    def wait_for_event(self, operation: str) -> None:
        self.wait_for(lambda message: message.route.operation == operation)

    @contextmanager
    def node(self, name: str = "n1", **headers: str) -> Iterator[ClientConnection]:
        """A connected node, with the headers of a Go edge.

        Its socket's buffer does not grow, so that cloudhub meets a full one after a few megabytes, and it does not end
        the connection because its own pings are not answered.
        """
        wanted = {"Node_id": name, "Project_id": "e632", "Connectionuse": "msg", **headers}
        host, port = self.server.address
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
        ours.connect((host, port))
        with connect(
            f"ws://{host}:{port}/e632/{name}/events",
            sock=ours,
            additional_headers=wanted,
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=PATIENCE,
            close_timeout=1,
        ) as connection:
            self.wait_for_event("connected")
            yield connection


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    started = Cloud()
    yield started
    started.stop()


def test_messages_go_both_ways(cloud: Cloud) -> None:
    with cloud.node() as node:
        node.send(encode(cloud.message("default/configmap/c", "query")), text=True)
        request = cloud.wait_for(lambda message: message.route.operation == "query")
        assert request.route.resource == "node/n1/default/configmap/c"
        answer = request.reply(cloud.clock, {"metadata": {"uid": "u"}}, source="edgecontroller")
        cloud.hive.send("cloudhub", answer.with_route(group="resource"))
        received = decode(node.recv(timeout=PATIENCE))
        assert (received.parent_id, received.route.resource) == (request.id, "default/configmap/c")


@pytest.mark.parametrize("size", [100, 70_000, 2 * 1024 * 1024])
def test_messages_of_any_size_pass(cloud: Cloud, size: int) -> None:
    with cloud.node() as node:
        node.send(encode(cloud.message("default/event/e", "insert", "x" * size)), text=True)
        came = cloud.wait_for(lambda message: message.route.operation == "insert")
        assert len(came.content_as(str)) == size
        back = cloud.message("node/n1/default/podpatch/p", "response", "y" * size, source="edgecontroller")
        cloud.hive.send("cloudhub", back)
        assert len(decode(node.recv(timeout=PATIENCE)).content_as(str)) == size


def test_a_message_in_fragments_is_put_together(cloud: Cloud) -> None:
    """A Go client sends whatever is longer than 4096 bytes in several frames."""
    frame = encode(cloud.message("default/event/e", "insert", "é" * 10_000)).decode()
    with cloud.node() as node:
        node.send(frame[start : start + 4082] for start in range(0, len(frame), 4082))
        came = cloud.wait_for(lambda message: message.route.operation == "insert")
        assert came.content_as(str) == "é" * 10_000


def test_binary_frames_are_accepted(cloud: Cloud) -> None:
    with cloud.node() as node:
        node.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for(lambda message: message.route.operation == "insert")


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)
@given(garbage=st.binary(max_size=200))
def test_garbage_is_counted_and_kills_nothing(cloud: Cloud, garbage: bytes) -> None:
    with cloud.node() as node:
        node.send(garbage, text=False)
        node.send(b'{"header": 1}')
        marker = cloud.message("default/event/e", "insert")
        node.send(encode(marker))
        cloud.wait_for(lambda message: message.id == marker.id)
        cloud.hive.send("cloudhub", cloud.message(HANDLED_RESOURCE, HANDLED, {"n1": 1}, source="edgecontroller"))
    assert cloud.counters.rejected_frames.total() >= 1
    assert cloud.hive.restarts()["cloudhub"] == 0


def test_a_node_that_sends_much_garbage_is_read_on(cloud: Cloud) -> None:
    """Nobody handles it, so that it must not count as passed on."""
    with cloud.node() as node:
        for _ in range(2 * _PASSED_FRAMES):
            node.send(b'{"header": 1}')
        node.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for_event("insert")


@pytest.mark.parametrize(
    ("headers", "reason"),
    [({"Connectionuse": "stream"}, "use"), ({"Origin": "http://elsewhere"}, "origin"), ({"Node_id": "?"}, "node name")],
)
def test_a_refused_connection_is_counted(cloud: Cloud, headers: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidStatus), cloud.node(**headers):
        raise AssertionError("it is refused")
    assert cloud.counters.refused_connections == {reason: 1}


def test_a_message_over_the_limit_ends_its_connection_only(cloud: Cloud) -> None:
    with cloud.node("big") as big, cloud.node("other") as other:
        with pytest.raises(ConnectionClosed):  # perhaps while it still sends
            big.send("x" * (LIMIT + 1))
            big.recv(timeout=PATIENCE)
        other.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for(lambda message: message.route.resource.startswith("node/other/"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Node_id": ""}, 400),
        ({"Node_id": "../etc"}, 400),
        ({"Node_id": "a/b"}, 400),
        ({"Connectionuse": "str"}, 400),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
def test_a_client_that_cannot_be_served_gets_an_answer(cloud: Cloud, headers: dict[str, str], status: int) -> None:
    with pytest.raises(InvalidStatus) as refused, cloud.node(**headers):
        pass
    assert refused.value.response.status_code == status


def test_the_node_limit_counts_nodes_and_not_connections() -> None:
    with stopping(Cloud(node_limit=1)) as cloud, cloud.node("n1"):
        with pytest.raises(InvalidStatus), cloud.node("n2"):
            pass
        with cloud.node("n1"):
            cloud.wait_for_event("disconnected")


def test_a_node_that_has_gone_takes_no_place() -> None:
    with stopping(Cloud(node_limit=1)) as cloud:
        for name in ("n1", "n2"):
            with cloud.node(name):
                assert list(cloud.server._nodes) == [name]
            wait_until(lambda: not cloud.server._connections, "it has gone")


def test_a_second_connection_of_a_node_ends_the_first(cloud: Cloud) -> None:
    with cloud.node() as first, cloud.node() as second:
        with pytest.raises(ConnectionClosed):
            first.recv(timeout=PATIENCE)
        second.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for(lambda message: message.route.operation == "insert")


def test_an_aborted_connection_is_noticed(cloud: Cloud) -> None:
    """A Go edge closes TCP without a close frame."""
    with cloud.node() as node:
        node.socket.shutdown(socket.SHUT_RDWR)
        cloud.wait_for_event("disconnected")


@pytest.mark.modules_fail
def test_a_failed_module_listens_again_on_the_same_port(cloud: Cloud) -> None:
    """Its nodes lose their connections and can connect again."""
    with cloud.node() as node:
        cloud.hive.send("cloudhub", cloud.message("x", "explode"))
        with pytest.raises(ConnectionClosed):
            node.recv(timeout=PATIENCE)
    cloud.wait_for_servers(2)
    with cloud.node() as node:
        node.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for(lambda message: message.route.operation == "insert")


def test_a_link_is_behind_until_the_node_has_taken_all(cloud: Cloud) -> None:
    """The socket's buffers hold a few megabytes."""
    with cloud.node() as node:
        (link,) = cloud.server._connections
        for _ in range(150):
            resource = "node/n1/default/podpatch/p"
            message = cloud.message(resource, "response", "x" * 200_000, source="edgecontroller")
            cloud.hive.send("cloudhub", message)
        wait_until(lambda: len(link.waiting) > 50, "the link is behind")
        assert link.is_behind
        for _ in range(150):
            node.recv(PATIENCE)
        wait_until(lambda: not link.is_behind, "all has left")


def test_of_what_waits_for_a_node_no_more_is_taken_than_it_reads(cloud: Cloud) -> None:
    """With TLS all other nodes would wait while it is encrypted; and then it comes, all of it."""
    frame = encode(cloud.message("default/podpatch/p", "response", "x" * 200_000, source="edgecontroller"))
    with cloud.node() as node:
        ((link, connection),) = cloud.server._connections.items()
        link.waiting.extend([frame] * 199)
        link.send(frame)
        wait_until(lambda: link.is_stuck, "the node has not taken all")
        assert len(connection.outgoing) < 1_000_000
        assert link.waiting
        for _ in range(200):
            node.recv(PATIENCE)
        wait_until(lambda: not link.is_behind, "all has left")


class Stuttering:
    """A socket whose buffer is full at the first attempt to write, and has room at the next."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.is_full = True

    def send(self, data: bytes) -> int:
        if self.is_full:
            self.is_full = False
            raise BlockingIOError
        return self._real.send(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_what_waits_goes_on_when_a_full_buffer_has_room_immediately(cloud: Cloud) -> None:
    """The node read between two attempts to write, and what still waited stayed until the next message was sent."""
    frame = encode(cloud.message("default/podpatch/p", "response", "x" * 300_000, source="edgecontroller"))
    with cloud.node() as node:
        ((link, connection),) = cloud.server._connections.items()
        connection.socket = Stuttering(connection.socket)  # type: ignore[assignment]
        link.waiting.extend([frame] * 9)
        link.send(frame)
        for _ in range(10):
            node.recv(PATIENCE)
        wait_until(lambda: not link.is_behind, "all has left")


def test_a_node_that_reads_nothing_is_let_go_and_harms_no_other(cloud: Cloud) -> None:
    answer = {"padding": "x" * 100_000}
    cloud.server._write_timeout = 5.0
    with cloud.node("slow"), cloud.node("other") as other:
        cloud.wait_for(lambda message: message.route.resource == "node/other")
        for _ in range(700):
            resource = "node/slow/default/podpatch/p"
            cloud.hive.send("cloudhub", cloud.message(resource, "response", answer, source="edgecontroller"))
        cloud.wait_for(lambda m: (m.route.operation, m.route.resource) == ("disconnected", "node/slow"))
        other.send(encode(cloud.message("default/event/e", "insert")))
        cloud.wait_for(lambda message: message.route.operation == "insert")


def test_a_client_that_connects_and_is_silent_is_dropped(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.websocket.connection.OPENING_SECONDS", 0.1)
    with socket.create_connection(cloud.server.address, PATIENCE) as silent:
        assert silent.recv(1) == b""


def test_connections_that_say_nothing_keep_no_node_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.websocket.server.most_opening", lambda: 8)
    with stopping(Cloud()) as cloud:
        address = cloud.server.address
        with ExitStack() as stack:
            silent = [stack.enter_context(socket.create_connection(address, timeout=PATIENCE)) for _ in range(64)]
            with cloud.node():
                stack.enter_context(socket.create_connection(address, timeout=PATIENCE))
            assert silent[0].recv(1) == b""


def test_a_port_without_descriptors_takes_connections_later(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    real, lacks = socket.socket.accept, [errno.EMFILE]

    def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
        if listening is cloud.server._listening and lacks:
            raise OSError(lacks.pop(), "Too many open files")
        return real(listening)

    monkeypatch.setattr(socket.socket, "accept", accept)
    with cloud.node():
        cloud.wait_for_event("connected")
    assert lacks == []


def test_silent_clients_give_way_when_descriptors_run_out(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node joins when a connection that says nothing has left its descriptor."""
    real, lacks = socket.socket.accept, [errno.EMFILE]
    server = cloud.server

    def accept(listening: socket.socket) -> tuple[socket.socket, Any]:
        if listening is server._listening and len(server._opening) and lacks:
            raise OSError(lacks.pop(), "Too many open files")
        return real(listening)

    with socket.create_connection(server.address, timeout=PATIENCE) as silent:
        wait_until(lambda: len(server._opening) == 1, "the connection")
        monkeypatch.setattr(socket.socket, "accept", accept)
        with cloud.node():
            cloud.wait_for_event("connected")
        assert silent.recv(1) == b""
    assert lacks == []


def test_a_content_of_too_many_values_is_refused(cloud: Cloud) -> None:
    """Each value takes much more than its bytes, in whichever module decodes it."""
    with cloud.node() as node:
        node.send(
            b'{"header":{"msg_id":"1"},"route":{"source":"edged","group":"meta","operation":"insert",'
            b'"resource":"default/pod/p"},"content":[' + b"[]," * 300_000 + b"0]}",
            text=True,
        )
        answer = decode(node.recv(PATIENCE, decode=False))
        assert answer.parent_id == "1"
        assert answer.route.operation == "error"
        assert answer.content_as(str) == f"cloudhub: {NODE_LIMIT}"
        assert cloud.counters.rejected_frames["too large"] == 1


def framed(content: bytes, group: str = "meta", operation: str = "insert") -> bytes:
    route = f'"route":{{"source":"edged","group":"{group}","operation":"{operation}","resource":"default/pod/p"}}'
    return b'{"header":{"msg_id":"1"},' + route.encode() + b',"content":' + content + b"}"


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (framed(b"[" + b"0," * (NODE_VALUES - 10) + b"0]"), ""),
        (framed(b"[" + b"0," * (NODE_VALUES + 10) + b"0]"), NODE_LIMIT),
        (framed(b'"' + b"," * (_LONGEST - 1000) + b'"'), ""),
        (framed(b'{"body":"' + b"x" * (MOST_BODY * 4 // 3 + 4) + b'"}'), ""),
        (framed(b'"' + b"x" * _LONGEST + b'"'), _TOO_LONG),
        (framed(b"[" * _LONGEST), _TOO_LONG),
        (framed(b'"' + b"x" * _LONGEST + b'"', "user", "upload"), ""),
        (framed(b"[" + b"0," * _LONGEST + b"0]", "user", "upload"), ""),
        (framed(b"[" + b"0," * _LONGEST + b"0]", "user", "query"), _TOO_LONG),
    ],
    ids=["values", "too many", "bytes", "response", "too long", "no JSON", "upload", "upload of values", "no upload"],
)
def test_of_a_frame_that_is_too_large_only_the_head_is_read(frame: bytes, why: str) -> None:
    """So no frame costs the others more than the decoding of 8 MiB, or of an upload, whose content nobody decodes."""
    message, told = _read_long(frame)
    assert (message.id, told) == ("1", why)
    assert (message.content is None) is bool(why)


@pytest.mark.parametrize(
    "frame",
    [b" " * 2 * _LONGEST, framed(b'"' + b"x" * _LONGEST + b'","route":{"group":"meta"}', "user", "upload")],
    ids=["no head", "two routes"],
)
def test_a_long_frame_whose_head_is_not_first_is_no_message(frame: bytes) -> None:
    with pytest.raises(FrameError):
        _read_long(frame)


def test_messages_to_nodes_are_sent_immediately_while_nothing_is_read(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = threading.Event()
    for part in (cloud.server, cloud.server._incoming):
        monkeypatch.setattr(part, "_is_full", full.is_set)
    with cloud.node() as node:
        full.set()
        node.send(encode(cloud.message("default/event/e", "insert")))
        cloud.hive.send("cloudhub", cloud.message("node/n1/default/podpatch/p", "response", source="edgecontroller"))
        assert decode(node.recv(timeout=PATIENCE)).route.operation == "response"
        full.clear()
        cloud.wait_for(lambda message: message.route.operation == "insert")


def test_all_nodes_are_served_by_one_thread(cloud: Cloud) -> None:
    with ExitStack() as stack:
        for number in range(8):
            stack.enter_context(cloud.node(f"n{number}"))
            cloud.wait_for(lambda message, number=number: message.route.resource == f"node/n{number}")  # type: ignore[misc]
        serving = [thread.name for thread in threading.enumerate() if thread.name.startswith("cloudhub/")]
        assert serving == ["cloudhub/links"]


def test_stopping_ends_every_connection_and_thread() -> None:
    before = set(threading.enumerate())
    cloud = Cloud()
    with cloud.node() as node:
        cloud.stop()
        with pytest.raises(ConnectionClosed):
            node.recv(timeout=PATIENCE)
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive(), thread.name
