"""The tunnels of nodes and their streams, without sockets: the link is a list of frames."""

import select
from collections.abc import Iterator
from typing import cast
from unittest.mock import Mock

import pytest

from beehive.http.connections import Client
from beehive.http.request import Request
from beehive.http.responses import Stream
from beehive.simulation import Simulation
from modules.cloud.cloudstream.errors import NoTunnelError, TooManyStreamsError
from modules.cloud.cloudstream.opening import NodeStreams
from modules.cloud.cloudstream.queue_memory import LEAST_BYTES, QUEUE_BYTES, QueueMemory
from modules.cloud.cloudstream.stream import PATIENCE, PATIENCE_ALONE, TunnelStream
from modules.cloud.cloudstream.tunnel import MOST_STREAMS, OWN, Tunnel
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.streams.connect import StreamRequest
from modules.streams.credit import FIRST_CREDIT, FRAME_COST
from modules.streams.frames import MAX_DATA, Frame, FrameType, credit_frame, credit_of, decode
from tests.support.clocks import StandingClock

LOG = StreamRequest(0, "/containerLogs/default/web/main")
OPENED: list[TunnelStream] = []
"""The streams of the present test."""


class Node:
    """A node's end of a tunnel: what it was sent, and how much of what it sent is counted as handled."""

    def __init__(
        self,
        tunnels: Tunnels,
        name: str = "n1",
        address: str = "",
        *,
        has_credit: bool = False,
        most: int = MOST_STREAMS,
    ) -> None:
        self.tunnels = tunnels
        self.name = name
        self.link = WebsocketLink(lambda _: None)
        self.unhandled = 0
        tunnels.add(name, address, self.link, has_credit=has_credit, most=most)

    def sent(self) -> list[Frame]:
        """The frames that came since the last call."""
        return [decode(self.link.pop()) for _ in range(len(self.link.waiting))]

    def say(self, number: int, data: bytes = b"", kind: int = FrameType.DATA) -> None:
        self.hand_in(Frame(number, kind, data).encode())

    def hand_in(self, payload: bytes) -> None:
        self.link.passed_frames += 1
        self.link.passed_bytes += len(payload)
        self.tunnels.receive(self.name, self.link, payload)

    def open(self) -> TunnelStream:
        stream = self.tunnels.open(self.name, FrameType.LOGS, LOG)
        OPENED.append(stream)
        return stream


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(0)


@pytest.fixture
def tunnels(simulation: Simulation) -> Iterator[Tunnels]:
    yield Tunnels(simulation.clock)
    while OPENED:
        OPENED.pop().close()


def read(stream: TunnelStream, now: float = 0.0) -> bytes:
    """Everything that waits."""
    found = bytearray()
    while data := stream.receive(now):
        found += data
    return bytes(found)


@pytest.fixture
def node(tunnels: Tunnels) -> Node:
    return Node(tunnels)


@pytest.fixture
def stream(node: Node) -> TunnelStream:
    return node.open()


def test_a_stream_ends_from_the_nodes_side(stream: TunnelStream, node: Node, tunnels: Tunnels) -> None:
    """The data before the end is read; the end is reported once, and late frames are ignored."""
    assert [(each.connection, each.kind) for each in node.sent()] == [(stream.number, FrameType.LOGS)]
    node.say(stream.number, b"one\n")
    node.say(stream.number, b"two\n")
    node.say(stream.number, kind=FrameType.REMOVE)
    node.say(stream.number, b"late\n")
    assert (stream.is_over, read(stream), stream.is_over) == (False, b"one\ntwo\n", True)
    assert stream.failure == ""
    stream.close()
    stream.close()
    assert node.sent() == []
    assert tunnels.streams() == 0


def test_a_stream_ends_from_the_clients_side(node: Node) -> None:
    """The node gets one message (KubeEdge sends thousands), and numbers never come again."""
    first = node.open()
    first.close()
    first.close()
    first.send(b"into the void")
    second = node.open()
    assert second.number == first.number + 1
    removed = Frame(first.number, FrameType.REMOVE)
    assert [each for each in node.sent() if each.kind != FrameType.LOGS] == [removed]


def test_a_nodes_reason_is_the_streams_failure(stream: TunnelStream, node: Node) -> None:
    node.say(stream.number, "the kubelet’s server is down".encode(), FrameType.REMOVE)
    assert stream.failure == "the kubelet’s server is down"


def test_of_two_tunnels_of_a_node_the_newer_counts(tunnels: Tunnels) -> None:
    """The older is closed and its streams are cut; what it still says, and its end, mean nothing."""
    older = Node(tunnels)
    stream = older.open()
    newer = Node(tunnels)
    assert older.link.is_closed
    assert stream.failure
    other = newer.open()
    older.say(other.number, b"from the wrong tunnel")
    tunnels.remove("n1", older.link)
    assert tunnels.has("n1")
    assert not other.receive(0.0)
    tunnels.remove("n1", newer.link)
    assert not tunnels.has("n1")
    assert other.is_over
    assert other.failure


def test_a_tunnel_that_has_ended_opens_no_stream(stream: TunnelStream, node: Node, tunnels: Tunnels) -> None:
    """Who has found it just before would wait for its node without end."""
    tunnel = cast("Tunnel", stream._tunnel)
    tunnels.remove("n1", node.link)
    with pytest.raises(NoTunnelError):
        tunnel.open(99, FrameType.LOGS, LOG)
    assert stream.failure


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\x01", b"\xff" * 11])
def test_other_bytes_than_frames_end_the_tunnel(node: Node, payload: bytes) -> None:
    node.hand_in(payload)
    assert node.link.is_closed


def test_frames_of_unknown_types_and_streams_are_ignored(stream: TunnelStream, node: Node) -> None:
    node.say(stream.number, b"?", 99)
    node.say(2**63, b"?")
    node.say(0, b"?", FrameType.CLOSE)
    node.say(stream.number, b"good")
    assert read(stream) == b"good"
    assert node.link.admits()


def test_a_nodes_reason_is_bounded(stream: TunnelStream, node: Node) -> None:
    """It is in the log, and in the answer of the API server."""
    node.say(stream.number, b"x" * MAX_DATA, FrameType.REMOVE)
    assert 0 < len(stream.failure) < 1000


def test_a_frame_too_long_ends_its_stream_only(node: Node) -> None:
    """KubeEdge drops what is over 1 MiB without a word."""
    stream, other = node.open(), node.open()
    node.say(stream.number, bytes(MAX_DATA + 1))
    assert "bytes" in stream.failure
    node.say(other.number, bytes(MAX_DATA))
    assert len(read(other)) == MAX_DATA


def test_a_client_that_does_not_read_holds_the_tunnel_and_loses_its_stream(
    node: Node, tunnels: Tunnels, simulation: Simulation
) -> None:
    """The tunnel is not read while a queue is full, so that memory is bounded; after a second the stream goes, and what
    the others are owed goes on.
    """
    stopped, other = node.open(), node.open()
    while node.link.admits():
        node.say(stopped.number, bytes(16 * 1024))
    failures = []
    for seconds in (0.0, PATIENCE * 1.5):
        simulation.run_for(seconds)
        tunnels.end_stalled()
        failures.append(stopped.failure)
    assert failures == ["", "the client reads too slowly"]
    assert [node.link.admits()] == [True]
    node.say(other.number, b"good")
    assert read(other) == b"good"
    told = [each for each in node.sent() if each.kind == FrameType.REMOVE]
    stopped.close()
    assert told == [Frame(stopped.number, FrameType.REMOVE)]
    assert node.sent() == []


def test_frames_of_next_to_nothing_are_bounded_too(stream: TunnelStream, node: Node) -> None:
    """A node whose client does not read cannot fill the cloud's memory with frames of one byte."""
    sent = 0
    while node.link.admits() and sent < QUEUE_BYTES // 4:
        node.say(stream.number, b"x")
        sent += 1
    assert len(read(stream)) == sent <= QUEUE_BYTES // 64


def test_frames_without_data_do_not_wait(
    stream: TunnelStream, node: Node, tunnels: Tunnels, simulation: Simulation
) -> None:
    """Their number has no bound, so none is kept for the client, none counts, and none wakes it."""
    for _ in range(QUEUE_BYTES // FRAME_COST):
        node.say(stream.number, b"")
    assert select.select([stream], [], [], 0)[0] == []
    assert node.link.admits()
    node.say(stream.number, b"x")
    simulation.run_for(2 * PATIENCE_ALONE)
    tunnels.end_stalled()
    assert stream.failure == ""


def test_a_client_that_reads_slowly_keeps_its_stream_when_it_disturbs_no_other(
    stream: TunnelStream, node: Node, tunnels: Tunnels, simulation: Simulation
) -> None:
    for _ in range(10):
        while node.link.admits():
            node.say(stream.number, bytes(16 * 1024))
        simulation.run_for(PATIENCE_ALONE * 0.9)
        tunnels.end_stalled()
        assert stream.receive(simulation.clock.monotonic())
    assert stream.failure == ""
    assert len(read(stream)) <= QUEUE_BYTES + 128 * 1024
    assert node.link.admits()


def test_the_time_that_a_client_was_alone_is_not_held_against_it(
    node: Node, tunnels: Tunnels, simulation: Simulation
) -> None:
    slow = node.open()
    for seconds in (PATIENCE_ALONE * 0.9, PATIENCE / 2):
        while node.link.admits():
            node.say(slow.number, bytes(16 * 1024))
        simulation.run_for(seconds)
        tunnels.end_stalled()
        read(slow, simulation.clock.monotonic())
        assert slow.failure == ""
        node.open()


def test_a_client_that_reads_slowly_loses_its_stream_when_it_slows_down_others(
    node: Node, tunnels: Tunnels, simulation: Simulation
) -> None:
    """The times that it holds up the tunnel add up, and count less with time: half a second each minute is no
    harm.
    """
    node.open()
    for pause, ends in ((60.0, False), (0.1, True)):
        slow = node.open()
        for _ in range(6):
            while node.link.admits() and not slow.failure:
                node.say(slow.number, bytes(16 * 1024))
            simulation.run_for(PATIENCE / 2)
            tunnels.end_stalled()
            read(slow, simulation.clock.monotonic())
            simulation.run_for(pause)
        assert bool(slow.failure) is ends
        slow.close()
    assert node.link.admits()


@pytest.mark.parametrize("reads", [0, 2])
def test_a_client_that_stops_reading_a_log_loses_it(reads: int) -> None:
    """After its first bytes, and after later ones."""
    clock = StandingClock()
    tunnels = Tunnels(clock)
    node = Node(tunnels)
    number = 1

    def fill(_milliseconds: float = 0.0) -> None:
        while node.link.admits():
            node.say(number, bytes(16 * 1024))

    streams = NodeStreams(tunnels, clock, make_poll=lambda: Mock(poll=fill))
    reply = streams.reply("n1", LOG.target, Request(method="GET", target=LOG.target, parts=()))
    assert isinstance(reply, Stream)
    pieces = reply.pieces(Mock())
    for _ in range(reads):
        assert next(pieces)
    fill()
    clock.go(PATIENCE_ALONE + 1)
    tunnels.end_stalled()
    assert tunnels.streams() == 0
    reply.done()
    clock.close()


def test_many_streams_that_nobody_reads_share_the_memory(tunnels: Tunnels) -> None:
    """Above the bound each may have a frame only; what is read or closed is free again."""
    memory = tunnels._memory = QueueMemory(most=QUEUE_BYTES)
    node = Node(tunnels)
    first, second = node.open(), node.open()
    node.say(first.number, bytes(16 * 1024))
    assert memory.of_stream == QUEUE_BYTES
    while memory.used < QUEUE_BYTES:
        node.say(first.number, bytes(16 * 1024))
    assert memory.of_stream == LEAST_BYTES
    for _ in range(4):
        node.say(second.number, bytes(16 * 1024))
    assert len(read(second)) == 4 * 16 * 1024
    for each in (first, second):
        each.close()
        each.close()
    assert memory.used == 0


def granted(frames: list[Frame], number: int) -> int:
    """The bytes that a stream of a node was granted."""
    return sum(credit_of(each) for each in frames if each.kind == FrameType.CREDIT and each.connection == number)


def test_with_credit_a_client_that_stops_holds_up_nobody(tunnels: Tunnels, simulation: Simulation) -> None:
    """It keeps its stream; its node is granted more when the client reads on, and the others go on meanwhile."""
    node = Node(tunnels, has_credit=True)
    stopped, other = node.open(), node.open()
    assert node.sent()[0] == Frame(0, FrameType.CREDIT)
    node.say(stopped.number, bytes(FIRST_CREDIT - FRAME_COST))
    simulation.run_for(3600.0)
    tunnels.end_stalled()
    assert (stopped.failure, node.link.admits(), node.sent()) == ("", True, [])
    node.say(other.number, b"good")
    assert read(other) == b"good"
    assert len(read(stopped)) == FIRST_CREDIT - FRAME_COST
    assert granted(node.sent(), stopped.number) == QUEUE_BYTES
    for each in (stopped, other):
        each.close()
    assert tunnels._memory.used == 0


def test_with_credit_the_memory_of_all_streams_is_bounded(tunnels: Tunnels) -> None:
    """What is granted counts as used, so that streams share the memory, and each can go on. A stream that its node has
    ended is granted nothing more, however long its client keeps it.
    """
    memory = tunnels._memory = QueueMemory(most=2 * QUEUE_BYTES)
    node = Node(tunnels, has_credit=True)
    streams = [node.open() for _ in range(20)]
    for _ in range(3):
        for each in streams:
            node.say(each.number, bytes(LEAST_BYTES // 2))
            read(each)
            node.sent()
    assert memory.used <= 3 * QUEUE_BYTES
    for each in streams:
        node.say(each.number, kind=FrameType.REMOVE)
    assert memory.used == 0
    for each in streams:
        each.close()
    assert memory.used == 0


def test_with_credit_what_was_granted_may_come_when_the_memory_is_full(
    tunnels: Tunnels, simulation: Simulation
) -> None:
    """A client that does not read is no harm to the others then either."""
    memory = tunnels._memory = QueueMemory(most=QUEUE_BYTES)
    node = Node(tunnels, has_credit=True)
    stopped, other = node.open(), node.open()
    for each in (stopped, other):
        node.say(each.number, b"x")
        read(each)
    assert memory.of_stream == LEAST_BYTES
    for _ in range(5):
        node.say(stopped.number, bytes(32 * 1024))
    simulation.run_for(3600.0)
    tunnels.end_stalled()
    assert (stopped.failure, node.link.admits()) == ("", True)


def test_with_credit_a_node_that_sends_more_loses_the_stream_only(tunnels: Tunnels) -> None:
    node = Node(tunnels, has_credit=True)
    stream, other = node.open(), node.open()
    node.say(stream.number, bytes(3 * FIRST_CREDIT))
    assert stream.failure == "the node has sent more than it was granted"
    node.say(other.number, b"good")
    assert read(other) == b"good"
    node.say(other.number, b"\xff", FrameType.CREDIT)
    assert node.link.is_closed, "what is no number ends the tunnel"


def test_with_credit_a_container_that_does_not_read_stops_its_client(tunnels: Tunnels) -> None:
    """And no other; the client goes on when the node grants more."""
    node = Node(tunnels, has_credit=True)
    stopped, other = node.open(), node.open()
    while room := stopped.room:
        stopped.send(bytes(room))
    assert other.room
    node.sent()
    node.say(stopped.number, credit_frame(1, 1000).data, FrameType.CREDIT)
    assert select.select([stopped], [], [], 0)[0]
    assert stopped.room == 1000 - FRAME_COST


def test_a_stream_needs_a_tunnel_and_room(tunnels: Tunnels) -> None:
    """The error says what to do; where tunnels are not served at all, it says that."""
    with pytest.raises(NoTunnelError, match="--tunnel-listen"):
        tunnels.open("n1", FrameType.LOGS, LOG)
    tunnels.port = 10004
    with pytest.raises(NoTunnelError, match=r"modules.edgeStream.server: HOST:10004"):
        tunnels.open("n1", FrameType.LOGS, LOG)
    node = Node(tunnels)
    streams = []
    for _ in range(MOST_STREAMS):
        streams.append(node.open())
        node.sent()
    with pytest.raises(TooManyStreamsError):
        node.open()
    for each in streams:
        each.close()
        node.sent()
    node.open().close()
    assert tunnels.streams() == 0


def test_a_stream_that_could_not_be_sent_has_no_share(tunnels: Tunnels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a client that tries again and again at a node with a bad link could soon open none there."""
    node = Node(tunnels)
    monkeypatch.setattr(node.link, "send", Mock(side_effect=BrokenPipeError))
    with pytest.raises(NoTunnelError):
        tunnels.open("n1", FrameType.LOGS, LOG, Client("a"))
    assert not tunnels._by_node["n1"]._shares._of_client


def test_the_streams_of_a_node_are_shared_by_its_users(tunnels: Tunnels) -> None:
    """A tenant with 200 followed logs on a node kept its administrator from any command there."""
    node = Node(tunnels, most=16)
    tenant, other, administrator = Client("a"), Client("b"), Client("root", is_privileged=True)

    def opened(client: Client) -> TunnelStream:
        stream = tunnels.open("n1", FrameType.LOGS, LOG, client)
        node.sent()
        return stream

    streams = [opened(tenant) for _ in range(12)]
    with pytest.raises(TooManyStreamsError, match="of 16"):
        opened(tenant)
    streams += [opened(other), opened(Client("c"))]
    with pytest.raises(TooManyStreamsError):
        opened(Client("d"))
    streams += [opened(administrator), opened(OWN)]
    with pytest.raises(TooManyStreamsError):
        opened(OWN)
    streams[0].close()
    node.say(streams[1].number, b"", FrameType.REMOVE)
    assert tunnels.streams() == 14
    streams[12].close()
    opened(other).close()
    for each in streams:
        each.close()
    (tunnel,) = tunnels._by_node.values()
    assert not tunnel._shares._of_client
    assert not tunnel._clients


def test_a_node_is_found_by_its_address_when_no_other_has_it(tunnels: Tunnels) -> None:
    """KubeEdge mixes up nodes with one address behind NAT."""
    for name, address in (("n1", "10.0.0.1"), ("n2", "10.0.0.2"), ("n3", "10.0.0.2")):
        Node(tunnels, name, address)
    found = [tunnels.node_at(each) for each in ("10.0.0.1", "n2", "10.0.0.2", "10.0.0.3")]
    assert found == ["n1", "n2", "", ""]
