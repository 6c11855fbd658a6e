"""edgestream on the bus with a cloud's end and a node's server on real sockets."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from beehive import Actor, ModuleName, Operation, Source
from beehive.clock import RealClock
from beehive.errors import BeehiveError
from beehive.exposition import CollectorRegistry
from beehive.http.responses import text
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE, REGISTRATION_RESOURCE
from beehive.testing import Harness
from edgehub.framing import Opcode
from modules.edge.edgestream import module, session, stream
from modules.edge.edgestream.counters import StreamCounters, stream_metrics
from modules.edge.edgestream.module import MOST_STREAMS, EdgeStream
from modules.edge.edgestream.session import Intake, TunnelSession
from modules.edge.edgestream.stream import Stream
from modules.edge.edgestream.tunnel import TunnelEvents
from modules.lab.doubles.memory_cloud import MemoryCloud
from modules.streams.connect import StreamRequest
from modules.streams.credit import FIRST_CREDIT, FRAME_COST
from modules.streams.frames import MAX_DATA, SENT_DATA, Frame, FrameType, credit_frame, credit_of, decode
from tests.end_to_end.processes import wait_until
from tests.modules.edge.edgestream.beds import EXEC, LOGS, METRICS, Bed, CloudEnd, connect_frame, registered
from tests.support.clocks import StandingClock
from tests.support.descriptors import open_descriptors
from tests.support.failing import Attempt, Failing, PlannedError, fail_at_each_call
from tests.support.patience import PATIENCE

DATA, REMOVE = FrameType.DATA, FrameType.REMOVE


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A node whose tunnel a test accepts, and that dials again soon."""
    monkeypatch.setattr(module, "BASE", 0.05)
    with Bed(tmp_path) as made:
        yield made


@pytest.fixture
def cloud(bed: Bed) -> CloudEnd:
    """The cloud's end of its tunnel."""
    return bed.accept()


def test_upgrade(bed: Bed) -> None:
    """The node dials KubeEdge's path with its name, and without an Origin or a subprotocol."""
    head = bed.cloud.connection().accept().decode()
    assert head.startswith("GET /v1/kubeedge/connect HTTP/1.1\r\n")
    assert "\r\nSessionHostNameOverride: n1" in head
    assert "Origin" not in head
    assert "Sec-WebSocket-Protocol" not in head


def test_logs(bed: Bed, cloud: CloudEnd) -> None:
    """A log arrives piece by piece without the chunks of HTTP, and ends with one `remove` without a reason. Nothing of
    the caller's headers reaches the node's server.
    """
    cloud.send(connect_frame(300, query="follow=true&tailLines=5&x=a?b", header={"Authorization": ["Bearer x"]}))
    for line in (b"one\n", b"\xff\xfe\x00 two\n"):
        bed.node.log.put(line)
        assert cloud.next() == Frame(300, DATA, line)
    bed.node.log.put(None)
    assert cloud.next() == Frame(300, REMOVE)
    request = bed.node.requests.get(timeout=PATIENCE)
    assert request.target == f"{LOGS}?follow=true&tailLines=5&x=a?b"
    assert request.headers == (("host", "edgecore"), ("connection", "close"))


def test_a_caller_who_leaves(bed: Bed, cloud: CloudEnd) -> None:
    """The cloud's `remove` is answered with one, once; the next frames of the stream are dropped."""
    cloud.send(connect_frame(1, query="follow=true"))
    bed.node.log.put(b"line\n")
    assert cloud.next() == Frame(1, DATA, b"line\n")
    cloud.send(Frame(1, REMOVE), Frame(1, REMOVE), Frame(1, DATA, b"late"), connect_frame(2, path="/pods"))
    assert cloud.next() == Frame(1, REMOVE)
    assert {cloud.next().connection, cloud.next().connection} == {2}
    wait_until(lambda: bed.counters.open[FrameType.LOGS] == 0, "the stream has ended")


@pytest.mark.parametrize("path", METRICS)
def test_metrics_and_pods(cloud: CloudEnd, path: str) -> None:
    """They pass as they are, carriage returns included."""
    cloud.send(connect_frame(4, FrameType.METRICS, path))
    assert cloud.whole(4) == (b"node_cpu 1\r\nnode_memory 2\n", "")


def test_exec(bed: Bed, cloud: CloudEnd) -> None:
    """An upgraded connection passes as bytes, the answer's head included, in both directions, until the container's
    side ends it.
    """
    everything = bytes(range(256)) * 1000
    cloud.send(connect_frame(2, FrameType.EXEC, EXEC, "command=sh&input=1"), Frame(2, DATA, b"\x80\x03"))
    with bed.node.stream() as container:
        request = bed.node.requests.get(timeout=PATIENCE)
        assert (request.method, request.all("command"), request.header("upgrade")) == ("POST", ("sh",), "SPDY/3.1")
        container.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        assert cloud.until(2, lambda data: data.endswith(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        cloud.send(Frame(2, DATA, everything), Frame(2, DATA, b"end"))
        received = request.rest
        while len(received) < len(everything) + 5:
            received += container.recv(65536)
        assert received == b"\x80\x03" + everything + b"end"
        container.sendall(everything)
        assert cloud.until(2, lambda data: len(data) == len(everything)) == everything
    assert cloud.next() == Frame(2, REMOVE)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (connect_frame(9, path="/pods"), "is not served through the tunnel"),
        (connect_frame(9, path="/containerLogs/a/../b"), "is not served"),
        (connect_frame(9, path="/api/v1/secrets"), "is not served"),
        (connect_frame(9, path=EXEC), "is not served"),
        (connect_frame(9, FrameType.METRICS, LOGS), "is not served"),
        (connect_frame(9, FrameType.METRICS, "/edgecore/state"), "is not served"),
        (connect_frame(9, FrameType.METRICS, "/pods/default"), "is not served"),
        (connect_frame(9, FrameType.METRICS, "/edgecore/chains/default/.."), "is not served"),
        (connect_frame(9, FrameType.METRICS, "/edgecore/chains/default/a%3Fb"), "is not served"),
        (connect_frame(9, FrameType.ATTACH, "/run/a/b/c"), "is not served"),
        (connect_frame(9, FrameType.EXEC, EXEC, header={}), "begins with an upgrade"),
        (connect_frame(9, method="POST"), "asked for with GET"),
        (connect_frame(9, MessID=10), "its frame for 9"),
        (connect_frame(9, MessID=0), "its frame for 9"),
        (connect_frame(9, path="/containerLogs/a/b"), "is not served"),
        (connect_frame(9, FrameType.EXEC, EXEC, header={"Connection": ["close"]}), "begins with an upgrade"),
        (Frame(9, FrameType.EXEC, b"{"), "cannot be read"),
    ],
    ids=range(17),
)  # fmt: skip
def test_refused(bed: Bed, cloud: CloudEnd, frame: Frame, why: str) -> None:
    """An unlisted request does not reach the node's server; the caller gets an error and the end immediately."""
    cloud.send(frame)
    data, reason = cloud.whole(9)
    assert why in reason
    assert data.startswith(b"HTTP/1.1 403 Forbidden") is (frame.kind in (FrameType.EXEC, FrameType.ATTACH))
    assert data.endswith(reason.encode() + b"\n")
    assert bed.node.requests.empty()
    wait_until(lambda: bed.counters.refused == 1, "the refusal is counted")


def test_without_the_node_server(bed: Bed, cloud: CloudEnd) -> None:
    """A caller gets an error and the end at once when edged does not serve, not a wait without end as with KubeEdge."""
    bed.node.stop()
    cloud.send(connect_frame(1), connect_frame(2, FrameType.EXEC, EXEC))
    assert "cannot be reached" in cloud.whole(1)[1]
    head, _, body = cloud.whole(2)[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"Content-Length: %d\r\n" % len(body) in head


def test_an_error_of_the_node_server(bed: Bed, cloud: CloudEnd) -> None:
    """The text of an error passes as KubeEdge's does, and the reason of the end has the status."""
    bed.node.answer = text(404, "no such container\n")
    cloud.send(connect_frame(3))
    assert cloud.whole(3) == (b"no such container\n", "the node answers with status 404")


def test_a_log_that_breaks_off(bed: Bed, cloud: CloudEnd) -> None:
    """A log that is not complete ends with a reason, so that its reader can know."""
    cloud.send(connect_frame(3))
    bed.node.log.put(b"half")
    assert cloud.next() == Frame(3, DATA, b"half")
    bed.node.log.put(OSError("broken"))
    assert "broke off" in cloud.whole(3)[1]
    wait_until(lambda: bed.counters.broken == 1, "the broken stream is counted")


def test_a_command_that_breaks_off(bed: Bed, cloud: CloudEnd) -> None:
    """The node's server cannot reset a unix socket: the last frame of the command's protocol is missing."""
    said = (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\n\r\n" + bytes.fromhex("0000000300000004") + b"text"
    )
    cloud.send(connect_frame(3, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        container.sendall(said)
        assert cloud.until(3, lambda data: data == said)
    assert cloud.whole(3) == (b"", "the node's server broke off")


def test_a_container_that_does_not_read(bed: Bed, cloud: CloudEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container that takes nothing of its stdin loses its stream; another stream goes on."""
    monkeypatch.setattr(session, "STALLED", 0.2)
    cloud.send(connect_frame(1, FrameType.EXEC, EXEC), connect_frame(2))
    with bed.node.stream():
        for _ in range(40):
            cloud.send(Frame(1, DATA, bytes(32 * 1024)))
        bed.node.log.put(b"goes on\n")
        frames = [cloud.next(), cloud.next()]
    assert Frame(2, DATA, b"goes on\n") in frames
    assert [frame.kind for frame in frames if frame.connection == 1] == [REMOVE]
    assert b"takes no bytes" in b"".join(frame.data for frame in frames)


def test_a_caller_who_does_not_read(bed: Bed, cloud: CloudEnd) -> None:
    """Without the cloud's confirmation no more than a window of a stream leaves the node; with it the rest follows."""
    cloud.send(connect_frame(1, FrameType.EXEC, EXEC))
    cloud.answers_pings = False
    with bed.node.stream() as container:
        sending = threading.Thread(target=container.sendall, args=(bytes(4 * stream.WINDOW),), daemon=True)
        sending.start()
        wait_until(lambda: bed.counters.sent >= stream.WINDOW, "the window is full")
        bed.node.log.put(b"goes on\n")
        cloud.send(connect_frame(2))
        received = cloud.until(2, lambda data: data != b"")
        assert (received, sending.is_alive()) == (b"goes on\n", True)
        assert bed.counters.sent < stream.WINDOW + 32 * 1024 + len(received)
        cloud.answers_pings = True
        cloud.connection.send(Opcode.PONG, cloud.unanswered)
        while sum(len(frame.data) for frame in cloud.frames if frame.connection == 1) < 4 * stream.WINDOW:
            cloud.next()
        sending.join(PATIENCE)


def test_with_credit_a_caller_who_does_not_read_stops_the_source(bed: Bed, cloud: CloudEnd) -> None:
    """Although the cloud confirms what it has received: the node reads no more of the container than it was granted."""
    cloud.send(Frame(0, FrameType.CREDIT), connect_frame(1, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        sending = threading.Thread(target=container.sendall, args=(bytes(16 * FIRST_CREDIT),), daemon=True)
        sending.start()
        cloud.until(1, bool)
        bed.node.log.put(b"goes on\n")
        cloud.send(connect_frame(2))
        assert cloud.until(2, bool) == b"goes on\n"
        assert (bed.counters.sent <= FIRST_CREDIT, sending.is_alive()) == (True, True)
        cloud.send(credit_frame(1, 32 * FIRST_CREDIT))
        while sum(len(frame.data) for frame in cloud.frames if frame.connection == 1) < 16 * FIRST_CREDIT:
            cloud.next()
        sending.join(PATIENCE)


def test_with_credit_a_container_that_takes_bytes_lets_the_cloud_send_more(bed: Bed, cloud: CloudEnd) -> None:
    """A stuck container holds up no other stream and keeps its own, until it takes the bytes."""
    cloud.send(Frame(0, FrameType.CREDIT), connect_frame(1, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        head = bed.node.requests.get(timeout=PATIENCE).rest
        cloud.send(Frame(1, DATA, bytes(FIRST_CREDIT - FRAME_COST)))
        frame = cloud.next()
        assert (frame.connection, frame.kind, credit_of(frame) <= stream.HELD) == (1, FrameType.CREDIT, True)
        cloud.send(Frame(1, DATA, bytes(credit_of(frame) - FRAME_COST)), connect_frame(2))
        bed.node.log.put(b"goes on\n")
        assert cloud.until(2, bool) == b"goes on\n"
        left = FIRST_CREDIT + credit_of(frame) - 2 * FRAME_COST - len(head)
        while left:
            left -= len(container.recv(left))
        asked = credit_of(frame)
        while _granted(cloud) - asked <= stream.HELD - FIRST_CREDIT:
            cloud.next()
        cloud.send(Frame(1, DATA, b"x"))
        assert container.recv(1) == b"x"
    assert bed.counters.broken == 0


def _granted(cloud: CloudEnd) -> int:
    """The bytes that the node has granted for stream 1."""
    return sum(credit_of(each) for each in cloud.frames if (each.connection, each.kind) == (1, FrameType.CREDIT))


def test_a_cut_tunnel(bed: Bed, cloud: CloudEnd) -> None:
    """With the tunnel all its streams end, and the node dials again."""
    cloud.send(connect_frame(1, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        container.sendall(b"HTTP/1.1 101 x\r\n\r\n")
        cloud.next()
        cloud.connection.reset()
        assert container.recv(1) == b""
    again = bed.accept()
    again.send(connect_frame(2, FrameType.METRICS, "/metrics/resource"))
    assert again.whole(2)[1] == ""
    wait_until(lambda: sum(bed.counters.open.values()) == 0, "all streams have ended")
    wait_until(lambda: bed.counters.connections == 2, "the module counts the second tunnel")
    bed.counters.connected = True
    bed.hive.stop(PATIENCE)
    assert not bed.counters.connected


@pytest.mark.modules_fail
def test_counts_outlive_a_failure_of_the_module(bed: Bed, cloud: CloudEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of what was, and of the open streams none of before is left: neither too many nor too few."""

    def fail(*_: object) -> None:
        raise RuntimeError("planned")

    cloud.send(connect_frame(1, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        container.sendall(b"HTTP/1.1 101 x\r\n\r\n")
        cloud.next()
        assert bed.counters.open[FrameType.EXEC] == 1
        monkeypatch.setattr(EdgeStream, "_allow", fail)
        bed.hive.send(ModuleName.EDGESTREAM, registered(bed.hive.clock))
        assert container.recv(1) == b""
        monkeypatch.undo()
    again = bed.accept()
    again.send(connect_frame(1, FrameType.EXEC, EXEC))
    with bed.node.stream() as container:
        container.sendall(b"HTTP/1.1 101 x\r\n\r\n")
        again.next()
        assert (bed.counters.open[FrameType.EXEC], bed.counters.opened[FrameType.EXEC]) == (1, 2)


@pytest.mark.parametrize("payload", [b"", b"\xff" * 11, Frame(0, FrameType.CLOSE, b"node\nunknown").encode()])
def test_a_tunnel_that_cannot_go_on(bed: Bed, cloud: CloudEnd, payload: bytes) -> None:
    """A message that is no frame, and the cloud's `close`, end the tunnel; the node dials again."""
    cloud.connection.send(Opcode.TEXT, payload)
    assert cloud.connection.frame()[0] is Opcode.CLOSE
    cloud.connection.close()
    bed.accept()


def test_frames_that_nobody_knows(bed: Bed, cloud: CloudEnd) -> None:
    """Unknown types, unknown streams and a frame over the limit disturb no other stream; the last removes its own."""
    cloud.send(connect_frame(1, FrameType.EXEC, EXEC), connect_frame(2))
    cloud.send(Frame(1, 7, b"?"), Frame(2**63, 99), Frame(2**63, DATA, b"x"), Frame(0, FrameType.LOGS, b"{}"))
    with bed.node.stream():
        cloud.send(Frame(1, DATA, bytes(MAX_DATA + 1)), Frame(77, DATA, bytes(2 * MAX_DATA)))
        assert b"more than" in cloud.next().data
    bed.node.log.put(b"goes on\n")
    assert cloud.next() == Frame(2, DATA, b"goes on\n")


def test_many_streams(bed: Bed, cloud: CloudEnd) -> None:
    """Two hundred that begin together are served; beyond the limit a stream is refused; hundreds one after the other
    leave nothing behind.
    """
    numbers = range(1, MOST_STREAMS + 1)
    cloud.send(*(connect_frame(number, query="follow=true") for number in numbers), connect_frame(999))
    assert cloud.next().connection == 999
    assert b"streams of this node are open (modules.edgeStream.maxStreams)" in cloud.next().data
    assert len([bed.node.requests.get(timeout=PATIENCE) for _ in numbers]) == MOST_STREAMS
    cloud.send(*(Frame(number, REMOVE) for number in numbers))
    assert [cloud.next() for _ in numbers] == [Frame(number, REMOVE) for number in numbers]
    for number in range(1000, 1200):
        cloud.send(connect_frame(number, FrameType.METRICS, "/metrics/resource"))
        assert cloud.whole(number)[1] == ""
    wait_until(lambda: sum(bed.counters.open.values()) == 0, "all streams have ended")
    assert bed.counters.opened[FrameType.METRICS] == 200


def test_many_streams_share_the_memory() -> None:
    """One may have as much on the way as before; when they are many, each has its share, a frame at least."""
    request = StreamRequest(1, EXEC, (("Upgrade", "SPDY/3.1"),), "POST")
    local, other = socket.socketpair()
    with local, other:
        one = Stream(FrameType.EXEC, request, local)
        one.write()
        one.unconfirmed = 100_000
        assert (one.events(session.BUFFERS), one.events(100_000)) == (select.POLLIN, 0)
        one.hold(bytes(100_000))
        assert (one.is_full(session.BUFFERS), one.is_full(100_000)) == (False, True)
    tunnel = _tunnel(_Sent(), Mock(), StreamCounters())
    tunnel._streams = dict.fromkeys(range(10_000), Mock())
    assert tunnel._share() == SENT_DATA
    tunnel._intake.release()


def test_a_container_that_writes_single_bytes_becomes_so_many_frames() -> None:
    """Two hundred at a time; then its bytes gather, while another stream goes on."""
    clock, link = StandingClock(), _Sent()
    tunnel = TunnelSession(link, lambda: pairs.pop()[0], clock, StreamCounters(), 9, lambda: None)
    ends = [socket.socketpair() for _ in range(2)]
    pairs = list(ends)
    for local, _ in ends:
        local.settimeout(0)
    for number in (1, 2):
        tunnel._handle(connect_frame(number, FrameType.EXEC, EXEC))
    chatty, other = tunnel._streams[1], tunnel._streams[2]
    for count in range(201):
        assert chatty.rests_until <= clock.monotonic(), count
        ends[1][1].send(b"x")
        tunnel._serve_stream(chatty, select.POLLIN)
    assert round(chatty.rests_until - clock.monotonic(), 6) == 0.001
    assert (len(link.frames), other.rests_until) == (201, 0.0)
    assert (chatty.events(session.BUFFERS, rests=True), other.events(session.BUFFERS)) == (
        select.POLLOUT, select.POLLIN | select.POLLOUT,
    )  # fmt: skip
    for each in (end for pair in ends for end in pair):
        each.close()


def test_a_container_that_takes_some_bytes_has_its_time_anew() -> None:
    """A slow one is not taken for one that takes nothing, however often it holds up the tunnel."""
    request = StreamRequest(1, EXEC, (("Upgrade", "SPDY/3.1"),), "POST")
    local, other = socket.socketpair()
    with local, other:
        one = Stream(FrameType.EXEC, request, local)
        one.stalled_since = 1.0
        one.write()
        assert one.stalled_since is None


def test_a_container_that_reads_no_more_may_still_answer() -> None:
    """What is sent to it is dropped, and does not make its connection look ready again and again."""
    request = StreamRequest(1, EXEC, (("Upgrade", "SPDY/3.1"),), "POST")
    local, other = socket.socketpair()
    with local, other:
        one = Stream(FrameType.EXEC, request, local, has_credit=True)
        other.shutdown(socket.SHUT_RD)
        one.write()
        link, sent = _Sent(), FIRST_CREDIT
        tunnel = _tunnel(link, Mock(), StreamCounters())
        tunnel._streams[1] = one
        for count in range(100):
            tunnel._handle(Frame(1, DATA, bytes(sent)))
            assert len(link.frames) == count + 1, "the caller is not kept waiting"
            sent = credit_of(link.frames[-1])
        tunnel._intake.release()
        assert one.events(session.BUFFERS) == select.POLLIN
        other.sendall(b"the answer")
        assert one.read() == (b"the answer", None)
        one.sent(FIRST_CREDIT)
        assert one.events(session.BUFFERS) == 0, "what may not be sent is not read, and wakes nobody"


def test_bytes_that_a_container_has_not_taken_are_granted_to_nobody_again() -> None:
    request = StreamRequest(1, EXEC, (("Upgrade", "SPDY/3.1"),), "POST")
    local, other = socket.socketpair()
    with local, other:
        one = Stream(FrameType.EXEC, request, local, has_credit=True)
        one.hold(bytes(FIRST_CREDIT - FRAME_COST))
        assert 0 < one.grant(session.BUFFERS) <= stream.HELD - FIRST_CREDIT + FRAME_COST


def test_a_connection_that_fails_ends_its_stream() -> None:
    """Whatever its error is."""
    request = StreamRequest(1, EXEC, (("Upgrade", "SPDY/3.1"),), "POST")
    local = Mock(**{"recv.side_effect": OSError(5, "Input/output error")})
    assert "Input/output error" in str(Stream(FrameType.EXEC, request, local).read()[1])


def test_frames_that_were_handled_take_no_room() -> None:
    """Also empty ones, however many have come."""
    intake = Intake()
    for _ in range(2 * session.MOST_BYTES // 64):
        intake.put(Frame(1, DATA))
        intake.drop_head()
        assert intake.head() is None
    large = threading.Thread(target=intake.put, args=(Frame(1, DATA, bytes(session.MOST_BYTES)),), daemon=True)
    large.start()
    large.join(PATIENCE)
    assert not large.is_alive()
    intake.release()


@pytest.mark.parametrize("end", [Intake.close, Intake.release])
def test_a_frame_that_waits_for_room_is_let_go_at_the_end(
    monkeypatch: pytest.MonkeyPatch, end: Callable[[Intake], None]
) -> None:
    """The link's thread would hang. Later it writes to no descriptor: that may be another file's by then."""
    intake, woken = Intake(), list[int]()

    def wait() -> None:
        assert not woken, "it waits once"
        end(intake)
        assert woken

    monkeypatch.setattr(intake._changed, "wait", wait)
    monkeypatch.setattr(intake._changed, "notify_all", lambda: woken.append(1))
    for _ in range(2):
        intake.put(Frame(1, DATA, bytes(session.MOST_BYTES)))
    intake.drop_head()
    assert intake.head() is None, "who reads no more is left nothing"
    intake.release()
    monkeypatch.setattr("os.eventfd_write", Mock(side_effect=AssertionError))
    intake.confirm(1)


class _Sent:
    """A link that keeps what a session sends."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def run(self, events: TunnelEvents) -> BeehiveError:
        """End before it was open."""
        return BeehiveError("dial", "the cloud", repr(events)[:0])

    def send(self, frame: bytes) -> None:
        """Keep a frame."""
        self.frames.append(decode(frame))

    def close(self) -> None:
        """Nothing is open."""


def _tunnel(link: _Sent, dial: Callable[[], socket.socket], counters: StreamCounters) -> TunnelSession:
    return TunnelSession(link, dial, RealClock(), counters, MOST_STREAMS, lambda: None)


def _serve(dial: Callable[[], socket.socket], *frames: Frame) -> tuple[list[Frame], StreamCounters]:
    """Serve frames that all came before the streams' thread saw one; return what the cloud gets, and the counters."""
    link, counters = _Sent(), StreamCounters()
    tunnel = _tunnel(link, dial, counters)
    for each in frames:
        tunnel.received(each.encode())
    tunnel.close()
    tunnel.serve()
    return link.frames, counters


def test_a_node_server_whose_socket_is_missing_refuses_one_stream_after_the_other() -> None:
    sent, counters = _serve(Mock(side_effect=FileNotFoundError(2, "No such file")), connect_frame(1), connect_frame(2))
    assert [each.connection for each in sent if each.kind == REMOVE] == [1, 2]
    assert counters.refused == 2


def test_a_grant_that_is_no_number_ends_its_stream_only() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    opened = [connect_frame(number, FrameType.EXEC, EXEC) for number in (1, 2)]
    for local, _ in pairs:
        local.settimeout(0)
    locals_ = iter([local for local, _ in pairs])
    sent, _ = _serve(lambda: next(locals_), *opened, Frame(1, FrameType.CREDIT, b"\xff"), Frame(2, REMOVE))
    assert [(each.connection, each.kind, bool(each.data)) for each in sent] == [(1, REMOVE, True), (2, REMOVE, False)]
    for each in (end for pair in pairs for end in pair):
        each.close()


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_tunnel_is_given_up_with_a_short_reason_that_can_be_printed(*, is_whole: bool) -> None:
    """Also when not even the beginning of a long message is a frame."""
    link = _Sent()
    link.close = Mock()  # type: ignore[method-assign]
    tunnel = _tunnel(link, Mock(), StreamCounters())
    if is_whole:
        tunnel.received(Frame(0, FrameType.CLOSE, b"\x1b[2J" + b"x" * 9000).encode())
    else:
        tunnel.skipped(b"\xff" * 12, 9_000_000)
    tunnel._intake.release()
    assert link.close.called
    assert tunnel.complaint.isprintable()
    assert len(tunnel.complaint) < 400


def test_a_confirmation_that_comes_while_others_are_taken_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The streams' thread would wait for the next one, and the cloud for bytes."""
    intake = Intake()
    clear = intake.wakeup.clear

    def clear_late() -> None:
        intake.confirm(1)
        clear()

    monkeypatch.setattr(intake.wakeup, "clear", clear_late)
    assert intake.drain_confirmed() == 1
    intake.release()


def test_a_tunnel_waits_for_as_long_as_nothing_can_happen() -> None:
    poll = Mock(**{"poll.return_value": []})
    tunnel = TunnelSession(_Sent(), Mock(), RealClock(), StreamCounters(), MOST_STREAMS, lambda: None, lambda: poll)
    tunnel._poll(2.0)
    assert 2000 <= poll.poll.call_args.args[0] < 2100
    resting = Mock(rests_until=tunnel._clock.monotonic() + 1.0, **{"events.return_value": 0})
    tunnel._streams[1] = resting
    tunnel._poll(2.0)
    tunnel._intake.release()
    assert poll.poll.call_args.args[0] <= 1001


def test_bytes_just_before_the_end_of_a_stream_reach_the_container() -> None:
    local, container = socket.socketpair()
    local.settimeout(0)
    with container:
        frames = Frame(1, DATA, b"last words"), Frame(1, REMOVE)
        sent, _ = _serve(lambda: local, connect_frame(1, FrameType.EXEC, EXEC), *frames)
        assert container.recv(65536).endswith(b"last words")
        assert container.recv(1) == b""
    assert sent == [Frame(1, REMOVE)]


def test_a_tunnel_leaves_no_descriptor() -> None:
    """Neither one that was served, nor one that never opened, nor one that opens when its module has just ended."""

    class Opening(_Sent):
        def run(self, events: TunnelEvents) -> BeehiveError:
            events.opened()
            raise AssertionError

    before = open_descriptors()
    _serve(socket.socket)
    _tunnel(_Sent(), socket.socket, StreamCounters()).run()
    ended = Mock(side_effect=PlannedError)
    with pytest.raises(PlannedError):
        TunnelSession(Opening(), socket.socket, RealClock(), StreamCounters(), MOST_STREAMS, ended).run()
    assert open_descriptors() <= before


def test_the_streams_of_a_link_that_fails_end() -> None:
    """Whatever is wrong with it: their thread would wait for frames for ever."""

    class Failing(_Sent):
        def run(self, events: TunnelSession) -> BeehiveError:  # type: ignore[override]
            events.opened()
            raise RuntimeError("of this test")

    tunnel = _tunnel(Failing(), socket.socket, StreamCounters())
    with pytest.raises(RuntimeError, match="of this test"):
        tunnel.run()
    assert tunnel._intake.closed
    tunnel.serve()


def test_the_largest_frame_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_BYTES", 2 * MAX_DATA)
    local, container = socket.socketpair()
    local.settimeout(0)
    with container:
        opening = connect_frame(1, FrameType.EXEC, EXEC)
        assert _serve(lambda: local, opening, Frame(1, DATA, bytes(MAX_DATA)))[0] == []


def test_a_stream_that_has_its_share_of_the_memory_holds_up_the_tunnel_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams that are many have less each than one alone. The others send on meanwhile, as the cloud confirms."""
    monkeypatch.setattr(session, "BUFFERS", 4 * SENT_DATA)
    clock, link = StandingClock(), _Sent()
    pairs = [socket.socketpair() for _ in range(5)]
    for local, _ in pairs:
        local.settimeout(0)
    dialled = iter([local for local, _ in pairs])
    opening = [connect_frame(number, FrameType.EXEC, EXEC) for number in range(1, 6)]
    data = Frame(1, DATA, bytes(SENT_DATA))
    tunnel = TunnelSession(link, lambda: next(dialled), clock, StreamCounters(), MOST_STREAMS, lambda: None)
    for frame in (*opening[:4], data, data, opening[4]):
        tunnel.received(frame.encode())
    assert tunnel._handle_frames()
    confirmed = [Mock(), Mock()]
    for one in confirmed:
        tunnel._send(Frame(2, DATA, b"x"), one)
    tunnel.confirmed(1)
    assert tunnel._handle_frames()
    assert [one.called for one in confirmed] == [True, False]
    assert list(tunnel._streams) == [1, 2, 3, 4]
    clock.go(stream.STALLED)
    assert tunnel._handle_frames() is None
    assert list(tunnel._streams) == [2, 3, 4, 5]
    assert (link.frames[-1].connection, link.frames[-1].kind) == (1, REMOVE)
    tunnel.close()
    tunnel.serve()
    for each in (end for pair in pairs for end in pair):
        each.close()


def test_a_stream_that_is_open_is_not_opened_again() -> None:
    """Its connection to the node's server would stay open for ever."""
    local, container = socket.socketpair()
    local.settimeout(0)
    dialled: list[socket.socket] = []

    def dial() -> socket.socket:
        dialled.append(local)
        return local

    with container:
        opening = connect_frame(1, FrameType.EXEC, EXEC)
        _, counters = _serve(dial, opening, opening)
        assert len(dialled) == 1
    assert (sum(counters.opened.values()), sum(counters.open.values())) == (1, 0)


def test_a_dead_cloud(tmp_path: Path) -> None:
    """A cloud that answers no ping is given up, and dialled again."""
    with Bed(tmp_path, read_deadline=0.3) as bed:
        silent = bed.cloud.accept()
        opcode, _ = silent.frame()
        assert opcode is Opcode.PING
        assert bed.cloud.accept() is not silent


def test_back_off(caplog: pytest.LogCaptureFixture) -> None:
    """A cloud that refuses is dialled again and again, ever more rarely, at least once in 30 s, at odd times. The log
    says it once.
    """
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        cloud.refusing = True
        counters = StreamCounters()
        bee.start(EdgeStream, cloud.make_link, socket.socket, counters)
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock), wait=600)
    waits = [after - before for before, after in zip(cloud.dialled, cloud.dialled[1:], strict=False)]
    assert waits[0] <= 1
    assert 15 < len(waits) < 90
    assert max(waits) <= 30
    assert len(set(waits)) == len(waits)
    assert (counters.connected, counters.connections) == (False, 0)
    assert len([each for each in caplog.records if "no stream tunnel" in each.getMessage()]) == 1


class _NoStreams(Actor):
    """In place of the streams' actor, which waits for real sockets."""

    def on_receive(self, message: object) -> None:
        """Serve nothing."""


def test_back_off_after_a_tunnel_that_was_up_for_long(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins anew, and then grows as ever. The log names the end of each tunnel, also for the same reason."""
    monkeypatch.setattr(module, "StreamsRunner", _NoStreams)
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        bee.start(EdgeStream, cloud.make_link, socket.socket, StreamCounters())
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        for _ in range(2):
            bee.run_for(600)
            cloud.cut()
        bee.run_for(600)
        cloud.refusing = True
        cloud.cut()
        bee.run_for(600)
    assert 15 < len(cloud.dialled) - 3 < 90
    assert len([each for each in caplog.records if "cut" in each.getMessage()]) == 3


def test_stop_while_dialling() -> None:
    """The module stops although the cloud does not answer."""
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        cloud.hanging = True
        bee.start(EdgeStream, cloud.make_link, socket.socket, StreamCounters())
        bee.send(ModuleName.EDGESTREAM, bee.message("x", "insert"))
        assert cloud.dialled == []
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
    assert len(cloud.dialled) == 1


def test_a_tunnel_is_dialled_while_the_cloud_has_the_node() -> None:
    """Not before edged itself says so, nor after edgehub's connection ends until it says so again; an open tunnel
    stays.
    """
    with Harness() as bee:
        cloud, counters = MemoryCloud(bee.simulation), StreamCounters()
        cloud.hanging = True
        bee.start(EdgeStream, cloud.make_link, socket.socket, counters)
        connection(bee, CLOUD_CONNECTED)
        of_another = bee.message(REGISTRATION_RESOURCE, Operation.CONNECTED, source=Source.EDGEHUB)
        bee.send(ModuleName.EDGESTREAM, of_another)
        assert cloud.dialled == []
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        connection(bee, CLOUD_DISCONNECTED)
        connection(bee, CLOUD_CONNECTED)
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        assert len(cloud.dialled) == 1, "the tunnel is open"
        connection(bee, CLOUD_DISCONNECTED)
        counters.connected = True
        cloud.cut()
        connection(bee, CLOUD_CONNECTED)
        assert not counters.connected
        assert len(cloud.dialled) == 1
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        assert len(cloud.dialled) == 2, "at once, without the rest of a back-off"
        bee.run_for(60)
        assert len(cloud.dialled) == 2


def test_a_dial_that_was_put_off_does_not_follow_one_that_came_first() -> None:
    """It would wait for the end of that tunnel, and be made in its place at once."""
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        cloud.hanging = True
        bee.start(EdgeStream, cloud.make_link, socket.socket, StreamCounters())
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        cloud.cut()
        bee.settle()
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock), wait=60)
        assert (len(cloud.dialled), len(cloud.links)) == (2, 2)


def test_without_edged_the_tunnel_is_dialled_when_the_cloud_is_connected() -> None:
    with Harness() as bee:
        cloud = MemoryCloud(bee.simulation)
        cloud.hanging = True
        bee.start(EdgeStream, cloud.make_link, socket.socket, StreamCounters(), has_edged=False)
        assert cloud.dialled == []
        connection(bee, CLOUD_CONNECTED)
        assert len(cloud.dialled) == 1


def connection(bee: Harness, content: str) -> None:
    """edgehub's event about its connection; a minute passes."""
    message = bee.message(CONNECTION_RESOURCE, Operation.CONNECT, content, source=Source.EDGEHUB)
    bee.send(ModuleName.EDGESTREAM, message, wait=60)


def test_counters_for_prometheus(bed: Bed, cloud: CloudEnd) -> None:
    """Each kind of stream is counted by itself."""
    cloud.send(connect_frame(1, FrameType.METRICS, "/metrics/resource"))
    cloud.whole(1)
    registry = CollectorRegistry()
    registry.register(partial(stream_metrics, bed.counters))
    assert 'edgestream_opened_streams_total{kind="metrics"} 1' in registry.text()
    assert "edgestream_connected 1" in registry.text()


def test_a_stream_that_cannot_be_made_or_served_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with it: the thread ends with the error, and closes what it has open."""
    others: list[socket.socket] = []

    def dial() -> socket.socket:
        local, other = socket.socketpair()
        local.settimeout(0)
        others.append(other)
        return local

    def make(failing: Failing) -> Attempt:
        counters = StreamCounters()
        tunnel = _tunnel(_Sent(), failing.call(dial), counters)
        for number in (1, 2):
            tunnel.received(connect_frame(number, FrameType.EXEC, EXEC).encode())
        tunnel.close()

        def operation() -> None:
            monkeypatch.setattr(session, "Stream", failing.call(Stream))
            monkeypatch.setattr(tunnel, "_grant", failing.call(tunnel._grant))
            try:
                tunnel.serve()
            finally:
                monkeypatch.undo()
                while others:
                    others.pop().close()

        return Attempt(operation, left=lambda: (len(tunnel._streams), counters.open.total()), is_repeatable=False)

    assert fail_at_each_call(make, ValueError("of this test")) == 4


def test_a_tunnel_that_has_worked_is_dialled_again_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After any number of failures before it; one that has not worked for a while counts as a failure, too. The log has
    the reason of the side that gave it up, rather than the end of the connection.
    """
    delays: list[float] = []
    with Harness() as bee:
        link = _Sent()
        bee.start(EdgeStream, lambda: link, lambda: None, StreamCounters())
        running = bee.hive.slot(ModuleName.EDGESTREAM).running
        module = None if running is None else running.ref._actor_weakref()
        assert isinstance(module, EdgeStream)
        monkeypatch.setattr(module, "after", lambda seconds, _function: delays.append(seconds))
        monkeypatch.setattr(module.clock, "random", SimpleNamespace(uniform=lambda _least, most: most))
        ended = BeehiveError("read", "the tunnel", "it has ended")

        def end(up: float) -> None:
            module._opened()
            bee.run_for(up)
            session = _tunnel(link, socket.socket, StreamCounters())
            session.complaint = "the cloud sent what is no frame" if up == 30 else ""
            module._ended(session, ended)

        for up in (0.0, 1.0, 1.0, 11.0, 1.0, 30.0):
            end(up)
    assert delays[0] < delays[1] < delays[2]
    assert ["sent what is no frame" in each.getMessage() for each in caplog.records[-2:]] == [False, True]
    assert delays[3] == delays[5] == delays[0]


def test_empty_frames_take_room_and_one_that_was_handled_lets_the_next_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of others still wait."""
    intake, woken = Intake(), list[int]()
    monkeypatch.setattr(intake._changed, "wait", Mock(side_effect=PlannedError))
    with pytest.raises(PlannedError):
        for _ in range(session.MOST_BYTES):
            intake.put(Frame(1, DATA))
    assert len(intake._frames) * session._OVERHEAD == session.MOST_BYTES
    monkeypatch.setattr(intake._changed, "notify_all", lambda: woken.append(1))
    intake.drop_head()
    intake.put(Frame(1, DATA))
    assert woken == [1]

    def take() -> None:
        intake.drain_confirmed()
        intake.drop_head()

    monkeypatch.setattr(intake._changed, "wait", take)
    intake.put(Frame(1, DATA))
    assert select.select([intake.wakeup], [], [], 0)[0], "the streams' thread may wait again by then"
    monkeypatch.undo()
    intake.release()


def test_a_tunnel_that_opens_at_once_is_served_and_one_of_an_ended_module_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The counters are those of the next one then."""
    counters, served = StreamCounters(), Mock()
    with Harness() as bee:
        bee.start(EdgeStream, _Sent, socket.socket, counters)
        running = bee.hive.slot(ModuleName.EDGESTREAM).running
        ended = None if running is None else running.ref._actor_weakref()
        assert isinstance(ended, EdgeStream)
        monkeypatch.setattr(ended, "_streams", served)
        monkeypatch.setattr(ended, "_tunnel", Mock(**{"tell.side_effect": lambda tunnel: tunnel.opened()}))
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock))
        assert served.tell.called
    assert ended._session is not None
    ended._report_opened()
    assert (counters.connected, counters.connections) == (False, 1)
    counters.connected = True
    ended.report_end(ended._session, BeehiveError("read", "the tunnel", "it has ended"))
    assert counters.connected
    ended._session._intake.release()


def test_a_module_that_was_restarted_dials(monkeypatch: pytest.MonkeyPatch) -> None:
    """edged does not say again that the cloud has the Node object."""
    monkeypatch.setattr(module, "StreamsRunner", _NoStreams)
    monkeypatch.setattr(EdgeStream, "_opened", Mock(side_effect=[RuntimeError("planned"), None]))
    with Harness() as bee:
        bee.expect_failures("planned")
        cloud = MemoryCloud(bee.simulation)
        bee.start(EdgeStream, cloud.make_link, socket.socket, StreamCounters())
        bee.send(ModuleName.EDGESTREAM, registered(bee.clock), wait=60)
    assert len(cloud.dialled) == 2


def test_one_more_stream_than_there_may_be_is_refused() -> None:
    link, dial, counters = _Sent(), Mock(), StreamCounters()
    tunnel = TunnelSession(link, dial, RealClock(), counters, 1, lambda: None)
    tunnel._streams[1] = Mock()
    tunnel._handle(connect_frame(2))
    assert (dial.called, counters.refused, link.frames[-1].kind) == (False, 1, REMOVE)
    tunnel._streams.clear()
    tunnel.close()
    tunnel.serve()
