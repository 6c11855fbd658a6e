"""Streams of a node whose tunnel leads to another cloudcore, over real sockets and TLS."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from beehive import Clock, Hive, RealClock, Threads
from beehive.http.http_server import HttpServer
from beehive.http.request import Request
from beehive.http.responses import Reply, Stream
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.client.calls import ApiResult
from modules.cloud.cloudhub.certificates.cloudcore_credentials import CloudcoreCredentials
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.cloudstream import passed_streams
from modules.cloud.cloudstream.opening import NODE_SECONDS, NodeStreams
from modules.cloud.cloudstream.passed_streams import PassedStream, ReceivedStreams, StreamsElsewhere, ask_cloudcores
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.messages import Cloudcores
from modules.cloud.router.other_cloudcores import OtherCloudcores
from modules.cloud.router.rest_service import RestAnswer, RestListener
from modules.streams.frames import FrameType
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG
from tests.modules.cloud.cloudstream.edges import Edge, spdy
from tests.modules.cloud.cloudstream.sites import Site, read_all, read_until
from tests.modules.cloud.cloudstream.test_servers import EXEC, SWITCHED, UPGRADE, GoingClock
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

LOG = "GET /containerLogs/n1/web/main?follow=true"
MUCH = 3 * 1024 * 1024


class Admits:
    """Callers of the router, which a test admits, or not: they may call applications, and no more."""

    are_admitted = False

    def check(self, request: Request, _api: object) -> None:
        if not self.are_admitted:
            raise ApiStatusError(403, f"not admitted: {request.path}")


class Pair:
    """Two cloudcores with one authority: `here` is asked, `there` has the tunnel of n1."""

    def __init__(self, directory: Path, clock: GoingClock) -> None:
        self.clock = clock
        self.callers = Admits()
        self.there = Site(directory, clock)
        self.router, self.server = self.router_of(self.there.tunnels)
        self.known = KnownCloudcores("here")
        self.known.routers = {"there": f"127.0.0.1:{self.router.port}"}
        self.cloudcores = Cloudcores("here", ("here", "there"), {"n1": "there"})
        credentials = CloudcoreCredentials(self.there.files, self.there.authority, "here", _Earlier(clock))
        self.others = OtherCloudcores(self.known, credentials.context, "127.0.0.1")
        self.elsewhere = StreamsElsewhere(self.others, lambda _: self.cloudcores, clock)
        self.here = Site(directory, clock, self.elsewhere)

    def close(self) -> None:
        self.here.close()
        self.server.stop()
        self.there.close()

    def router_of(self, tunnels: Tunnels) -> tuple[RestListener, HttpServer]:
        """The router of a cloudcore with some tunnels."""
        received, context = ReceivedStreams(tunnels, NodeStreams(tunnels, self.clock)), https_context(self.there.files)
        listener = RestListener("127.0.0.1", 0, self.callers, context, streams=received, max_streams=40)
        return listener, listener.start(lambda _: RestAnswer(200, b"called"), lambda _: ApiResult(), self.clock)

    def asked(self, request: str = LOG, **headers: str) -> str:
        """The whole answer of `here`."""
        with self.here.client(request, **headers) as client:
            return read_all(client)[0].decode()

    @contextmanager
    def impostor(self, context: ssl.SSLContext) -> Iterator[list[bytes]]:
        """A server in the place of the router of `there`; yields what it has received."""
        received: list[bytes] = []
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve() -> None:
                accepted, _ = listening.accept()
                try:
                    with context.wrap_socket(accepted, server_side=True) as secured:
                        received.append(secured.recv(4096))
                except OSError:
                    accepted.close()

            thread = threading.Thread(target=serve, daemon=True)
            thread.start()
            self.known.routers = {"there": f"127.0.0.1:{listening.getsockname()[1]}"}
            yield received
            thread.join(PATIENCE)


class _Earlier(GoingClock):
    """A second ago (`OPENSSL_LAG`), so that the certificate is valid."""

    def __init__(self, clock: GoingClock) -> None:
        super().__init__()
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() - OPENSSL_LAG


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        clock = GoingClock()
        stack.callback(clock.close)
        made = Pair(tmp_path, clock)
        stack.callback(made.close)
        yield made


def test_a_log_comes_from_there_and_ends_as_it_ends_there(pair: Pair) -> None:
    """Without the user's credentials; half of it is not taken for the whole when the tunnel ends."""
    with pair.there.edge() as edge:
        with pair.here.client(LOG, Authorization="Bearer abc") as client:
            frame, request = edge.opened()
            assert (frame.kind, request.target) == (FrameType.LOGS, LOG.split()[1])
            assert b"Bearer" not in frame.data
            edge.send(frame.connection, b"one\n")
            assert read_until(client, b"one\n\r\n").startswith(b"HTTP/1.1 200 ")
            edge.end(frame.connection)
            assert read_until(client, b"0\r\n\r\n")
        with pair.here.client(LOG) as client:
            frame, _ = edge.opened()
            edge.send(frame.connection, b"half")
            assert read_until(client, b"half\r\n")
            edge.connection.close()
            assert read_all(client)[0] == b""


def test_a_client_that_goes_ends_the_stream_of_the_node(pair: Pair) -> None:
    with pair.there.edge() as edge:
        with pair.here.client(LOG) as client:
            frame, _ = edge.opened()
            edge.send(frame.connection, b"one\n")
            read_until(client, b"one\n\r\n")
        assert edge.receive().kind == FrameType.REMOVE


def command(pair: Pair, edge: Edge, stack: ExitStack) -> tuple[socket.socket, int]:
    """A command that has begun: the client's connection, and the stream's number at the node."""
    client = stack.enter_context(pair.here.client(EXEC, **UPGRADE))
    frame, request = edge.opened()
    assert (frame.kind, request.method) == (FrameType.EXEC, "POST")
    edge.send(frame.connection, SWITCHED + spdy(b"first"))
    assert read_until(client, b"first") == SWITCHED + spdy(b"first")
    return client, frame.connection


def test_a_command_passes_bytes_both_ways_until_it_ends(pair: Pair) -> None:
    """Much in each direction, although the client begins to read late."""
    with pair.there.edge() as edge, ExitStack() as stack:
        client, number = command(pair, edge, stack)
        sender = threading.Thread(target=client.sendall, args=(b"x" * MUCH,), daemon=True)
        sender.start()
        come = 0
        while come < MUCH:
            come += len(edge.receive().data)
        sender.join(PATIENCE)

        said = spdy(b"y" * 65536)

        def says() -> None:
            for _ in range(MUCH // 65536):
                edge.send(number, said)
            edge.send(number, spdy(b"", last=True))
            edge.end(number)

        feeder = threading.Thread(target=says, daemon=True)
        feeder.start()
        found, is_proper = read_all(client)
        assert (found, is_proper) == (said * (MUCH // 65536) + spdy(b"", last=True), True)
        feeder.join(PATIENCE)


def test_a_command_whose_tunnel_is_cut_is_reset(pair: Pair) -> None:
    """A polite end would be success to a client of SPDY."""
    with pair.there.edge() as edge, ExitStack() as stack:
        client, _ = command(pair, edge, stack)
        edge.connection.close()
        assert read_all(client) == (b"", False)


def test_a_command_ends_with_the_cloudcore_that_has_it(pair: Pair) -> None:
    with pair.there.edge() as edge, ExitStack() as stack:
        client, _ = command(pair, edge, stack)
        pair.server.stop()
        assert read_all(client) == (b"", False)


@pytest.mark.parametrize(
    ("answer", "status", "told"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno such", 404, "no such"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 502, "status 200"),
    ],
    ids=["refused", "no-upgrade"],
)
def test_a_refusal_of_the_node_is_answered_here(pair: Pair, answer: bytes, status: int, told: str) -> None:
    """And nothing of another answer than 101 passes as it came."""
    with pair.there.edge() as edge, pair.here.client(EXEC, **UPGRADE) as client:
        frame, _ = edge.opened()
        edge.send(frame.connection, answer)
        found = read_all(client)[0].decode()
    assert found.startswith(f"HTTP/1.1 {status} ")
    assert told in found


@pytest.mark.parametrize("is_gone", [True, False])
def test_the_tunnel_may_be_at_another_one_than_the_link(pair: Pair, *, is_gone: bool) -> None:
    """As behind a load balancer: who has no tunnel of the node says so, or is gone, and the next is asked."""
    router, server = pair.router_of(Tunnels(pair.clock))
    pair.known.routers = {"linked": f"127.0.0.1:{router.port}", **pair.known.routers}
    pair.cloudcores = Cloudcores("here", ("here", "linked", "there"), {"n1": "linked"})
    if is_gone:
        server.stop()
    with pair.there.edge() as edge, pair.here.client(LOG) as client:
        frame, _ = edge.opened()
        edge.end(frame.connection)
        assert read_until(client, b"0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    if not is_gone:
        server.stop()


@pytest.mark.parametrize(
    ("router", "told"),
    [
        ("there", "the node has no stream tunnel to this cloudcore"),
        ("gone", "cloudcore there, to which it is connected, cannot be reached from here: Connection refused"),
        ("", "cannot be reached from here: it has not said where its router is: --router-listen"),
    ],
    ids=["no-tunnel", "gone", "no-address"],
)
def test_nobody_has_it(pair: Pair, router: str, told: str) -> None:
    """Nobody passes a stream on a second time: without a tunnel there, the answer is an error."""
    if router != "there":
        pair.known.routers = {"there": f"127.0.0.1:{free_port()}"} if router else {}
    answer = pair.asked()
    assert answer.startswith("HTTP/1.1 503 ")
    assert "node n1" in answer
    assert told in answer


def test_without_certificates_the_other_one_is_named(pair: Pair) -> None:
    nodes = NodeStreams(Tunnels(pair.clock), pair.clock, StreamsElsewhere(None, lambda _: pair.cloudcores, pair.clock))
    with pytest.raises(ApiStatusError, match=r"cloudcore there, to which it is connected,: ask that one \(with --tls"):
        nodes.reply("n1", "/containerLogs/n1/web/main", Request(method="GET", target="/", parts=()))


@pytest.mark.parametrize(("are_admitted", "status"), [(False, 403), (True, 200)])
def test_only_cloudcores_pass_streams_on(pair: Pair, status: int, *, are_admitted: bool) -> None:
    """The header of a node, a user or nobody means nothing: whoever may call the router calls an application."""
    pair.callers.are_admitted = are_admitted
    certificates = {
        "node": pair.there.of_node("n2"),
        "user": pair.there.of_user("alice"),
        "nobody": pair.there.of_nobody(),
    }
    request = b"GET /containerLogs/n1/web/main HTTP/1.1\r\nHost: x\r\nX-Cloudcore-Node: n1\r\nConnection: close\r\n\r\n"
    with pair.there.edge():
        for name, context in certificates.items():
            with (
                socket.create_connection(("127.0.0.1", pair.router.port), PATIENCE) as plain,
                context.wrap_socket(plain) as client,
            ):
                client.sendall(request)
                answer, _ = read_all(client)
                assert answer.startswith(f"HTTP/1.1 {status} ".encode()), name
                assert (b"called" in answer) == are_admitted
        assert pair.there.tunnels.streams() == 0


def test_a_cloudcore_passes_on_no_other_paths(pair: Pair) -> None:
    with pair.there.edge(), pair.others.connect("there", RealClock(), PATIENCE) as client:
        client.sendall(b"GET /configz HTTP/1.1\r\nHost: x\r\nX-Cloudcore-Node: n1\r\nConnection: close\r\n\r\n")
        assert read_all(client)[0].startswith(b"HTTP/1.1 404 ")


def test_nothing_is_sent_to_a_server_that_is_not_the_cloud(pair: Pair) -> None:
    """Whoever has written the address: a node's certificate is of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair.there.of_node("n2")
    context.load_cert_chain(pair.there.directory / "n2.pem")
    with pair.impostor(context) as received:
        answer = pair.asked()
    assert answer.startswith("HTTP/1.1 503 ")
    assert "certificate verify failed" in answer
    assert received in ([], [b""])


def test_an_answer_that_cannot_be_read(pair: Pair) -> None:
    """As of a cloudcore that ends meanwhile."""
    with pair.impostor(https_context(pair.there.files)) as received:
        answer = pair.asked()
    assert b"x-cloudcore-node: n1" in received[0].lower()
    assert answer.startswith("HTTP/1.1 502 ")
    assert "cloudcore there has sent no answer for node n1 that can be read" in answer


def test_few_wait_for_others_at_a_time(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that two cloudcores that ask each other leave room for their callers."""
    monkeypatch.setattr(passed_streams, "OPENING", 1)
    elsewhere = StreamsElsewhere(pair.others, lambda _: pair.cloudcores, pair.clock)
    with (
        closing(Site(pair.here.directory, pair.clock, elsewhere)) as here,
        pair.there.edge() as edge,
        here.client(EXEC, **UPGRADE) as client,
    ):
        frame, _ = edge.opened()
        with here.client(LOG) as refused:
            assert read_all(refused)[0].startswith(b"HTTP/1.1 429 ")
        edge.send(frame.connection, SWITCHED)
        read_until(client, b"\r\n\r\n")
        with here.client(LOG):
            edge.opened()


def test_statistics_of_nodes_there(pair: Pair) -> None:
    """One that does not answer is late; one that nobody has is left out."""
    pair.cloudcores = Cloudcores("here", ("here", "there"), {"n1": "there", "n2": "there", "n4": "here"})
    found: dict[str, bytes] = {}
    streams = NodeStreams(pair.here.tunnels, pair.clock, pair.elsewhere)
    with pair.there.edge() as edge, pair.here.edge("n4") as own:

        def answers() -> None:
            for each in (edge, own):
                frame, request = each.opened()
                assert request.target == "/stats/summary"
                each.send(frame.connection, b"{}")
                each.end(frame.connection)

        thread = threading.Thread(target=answers, daemon=True)
        thread.start()
        late = streams.gather(["n1", "n2", "n3", "n4"], "/stats/summary", found.__setitem__)
        thread.join(PATIENCE)
    assert (found, late) == ({"n1": b"{}", "n4": b"{}"}, ["n2"])
    wait_until(lambda: pair.there.tunnels.streams() == 0, "the streams have ended")


def test_the_last_bytes_are_taken_before_the_end() -> None:
    here, there = socket.socketpair()
    stream = PassedStream(cast("ssl.SSLSocket", here))
    there.sendall(b"firstsecond")
    there.close()
    taken = []
    while not stream.is_over:
        taken.append(stream.receive(0.0))
    assert b"".join(taken) == b"firstsecond"
    stream.close()


def test_a_stream_has_room_only_when_all_was_taken() -> None:
    """So nothing is lost, and of a client that is faster than the other cloudcore little is held."""
    here, there = socket.socketpair()
    with there:
        stream = PassedStream(cast("ssl.SSLSocket", here))
        sent = 0
        while sent < 1000 and (room := stream.room):
            stream.send(b"%010d" % sent * (room // 10))
            sent += 1
        assert not stream.room
        there.settimeout(0.0)
        read = b""
        while len(read) < sent * (65536 // 10) * 10:
            with suppress(BlockingIOError):
                read += there.recv(1 << 20)
            assert stream.room in (0, 65536)
        assert read == b"".join(b"%010d" % number * (65536 // 10) for number in range(sent))
        stream.close()


class Unreachable:
    """Routers of other cloudcores that answer nobody; remembers who was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def router_of(self, cloudcore: str) -> str:
        return "" if cloudcore == "without-router" else f"{cloudcore}:443"

    def connect(self, cloudcore: str, _clock: Clock, _seconds: float) -> ssl.SSLSocket:
        self.asked.append(cloudcore)
        raise ConnectionRefusedError(111, "refused")


def test_the_cloudcore_of_the_node_is_asked_first_and_few_others() -> None:
    """Not the one that asks, none without a router, and of a crowd not all: each costs seconds when it is away."""
    clock, others = GoingClock(), Unreachable()
    crowd = [f"c{number}" for number in range(20)]
    known = Cloudcores("own", ("own", "without-router", *crowd, "holder"), {"n1": "holder", "n2": "own"})
    elsewhere = StreamsElsewhere(cast("OtherCloudcores", others), lambda _: known, clock)
    assert elsewhere.gather(["n1", "n2", "unknown"], "/stats/summary", lambda _node, _body: None) == ["n1"]
    assert others.asked == ["holder", *crowd[: passed_streams.MOST_ASKED - 1]]
    clock.close()


def test_cloudcores_that_do_not_answer_take_no_more_time_together_than_a_node() -> None:
    """However many there are: who waits for the statistics of all nodes is promised an end."""
    clock, crowd = StandingClock(), [f"c{number}" for number in range(passed_streams.MOST_ASKED)]

    class Silent(Unreachable):
        def connect(self, cloudcore: str, _clock: Clock, seconds: float) -> ssl.SSLSocket:
            self.asked.append(cloudcore)
            clock.go(2 * seconds)  # TCP, and then TLS
            raise TimeoutError

    others = Silent()
    known = Cloudcores("own", ("own", *crowd), {"n1": "c0"})
    elsewhere = StreamsElsewhere(cast("OtherCloudcores", others), lambda _: known, clock)
    began = clock.monotonic()
    assert elsewhere.gather(["n1"], "/stats/summary", lambda _node, _body: None) == ["n1"]
    assert others.asked[0] == "c0"
    assert clock.monotonic() - began <= NODE_SECONDS
    clock.close()


def test_a_node_that_does_not_answer_leaves_room_for_others() -> None:
    """Streams that are opened while others wait, until there is no place left."""
    clock, others, waiting = GoingClock(), Unreachable(), list[str]()
    refused: dict[str, int] = {}
    request = Request(method="GET", target="/", parts=())

    def cloudcores(node: str) -> Cloudcores:
        waiting.append(node)
        for each in (node, f"{node}x"):
            if each not in refused:
                with suppress(ApiStatusError):
                    ask(each)
        return Cloudcores("own", ("own",), {})

    def ask(node: str) -> None:
        try:
            elsewhere.reply(node, "/containerLogs/default/web/main", request)
        except ApiStatusError as error:
            assert error.code == 429
            refused.setdefault(node, len(waiting))
            raise

    elsewhere = StreamsElsewhere(cast("OtherCloudcores", others), cloudcores, clock)
    ask("n")
    of_a_node, in_all = passed_streams.OPENING_OF_A_NODE, passed_streams.OPENING
    nodes = ["n", "nx", "nxx", "nxxx"]
    assert waiting[:in_all] == [node for node in nodes for _ in range(of_a_node)]
    assert [refused[node] for node in (*nodes, "nxxxx")] == [8, 16, 24, 32, 32]
    waiting.clear()
    refused.clear()
    ask("n")
    assert waiting[:in_all] == [node for node in nodes for _ in range(of_a_node)], "the places are free again"
    clock.close()


def test_streams_that_were_refused_wait_no_longer() -> None:
    """However many have failed, the next one is told why, and not that too many wait."""
    clock, others = GoingClock(), Unreachable()
    known = Cloudcores("own", ("own", "holder"), {"n1": "holder"})
    elsewhere = StreamsElsewhere(cast("OtherCloudcores", others), lambda _: known, clock)
    request = Request(method="GET", target="/", parts=())
    for _ in range(passed_streams.OPENING + 1):
        with pytest.raises(ApiStatusError, match="to which it is connected, cannot be reached"):
            elsewhere.reply("n1", "/containerLogs/default/web/main", request)
    assert dict(elsewhere._opening) == {}, "the names of nodes are not kept"
    clock.close()


class Scripted:
    """Routers of other cloudcores with an answer each; one without an answer is not reached."""

    def __init__(self, **answers: bytes) -> None:
        self.answers = answers
        self.connections: list[socket.socket] = []
        self.reached: list[str] = []
        self._theirs: list[socket.socket] = []

    def router_of(self, cloudcore: str) -> tuple[str, int]:
        return cloudcore, 443

    def connect(self, cloudcore: str, _clock: Clock, _seconds: float) -> socket.socket:
        if cloudcore not in self.answers:
            raise ConnectionRefusedError(111, "refused")
        here, there = socket.socketpair()
        there.sendall(self.answers[cloudcore])
        self._theirs.append(there)
        self.reached.append(cloudcore)
        self.connections.append(here)
        return here

    def asked(self, holder: str, *others: str) -> Reply | None:
        """The reply for a node that is connected to `holder`."""
        clock = GoingClock()
        known = Cloudcores("own", ("own", holder, *others), {"n1": holder})
        elsewhere = StreamsElsewhere(cast("OtherCloudcores", self), lambda _: known, clock)
        try:
            request = Request(method="GET", target="/", parts=())
            return elsewhere.reply("n1", "/containerLogs/default/web/main", request)
        finally:
            clock.close()
            for each in self._theirs:
                each.close()


MISDIRECTED = b"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("answers", [{}, {"other": MISDIRECTED}], ids=["all-away", "other-has-no-tunnel"])
def test_the_error_names_the_cloudcore_that_has_the_node(answers: dict[str, bytes]) -> None:
    """Not another one that is away as well, and not that no cloudcore has a tunnel: that one may have it."""
    with pytest.raises(ApiStatusError, match="cloudcore holder, to which it is connected, cannot be reached") as raised:
        Scripted(**answers).asked("holder", "other")
    assert raised.value.code == 503


def test_connections_without_a_stream_are_closed() -> None:
    """To cloudcores that have no tunnel of the node, each of which is asked once, and to one that refuses."""
    routers = Scripted(holder=MISDIRECTED, other=MISDIRECTED)
    assert routers.asked("holder", "other") is None
    assert routers.reached == ["holder", "other"]
    assert [each.fileno() for each in routers.connections] == [-1, -1]
    routers = Scripted(holder=b"HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nno such")
    with pytest.raises(ApiStatusError, match="no such"):
        routers.asked("holder")
    assert [each.fileno() for each in routers.connections] == [-1]


def test_the_connection_of_a_stream_ends_with_it() -> None:
    routers = Scripted(holder=MISDIRECTED, other=b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlog\n")
    reply = routers.asked("holder", "other")
    assert isinstance(reply, Stream)
    assert routers.connections[-1].fileno() >= 0
    reply.done()
    assert routers.connections[-1].fileno() == -1


def test_without_an_answer_of_edgecontroller_the_error_is_not_that_the_node_has_no_tunnel() -> None:
    """It may have one at any cloudcore: nobody is to change its configuration."""
    clock, hive = GoingClock(), Hive(Threads())
    nodes = NodeStreams(Tunnels(clock), clock, StreamsElsewhere(None, partial(ask_cloudcores, hive, clock), clock))
    with pytest.raises(ApiStatusError, match=r"node n1 .* which cloudcore has it is not known") as raised:
        nodes.reply("n1", "/containerLogs/default/web/main", Request(method="GET", target="/", parts=()))
    assert raised.value.code == 503
    assert "edgeStream" not in raised.value.message
    hive.clock.close()
    clock.close()


def test_edgecontroller_is_asked_for_the_one_node() -> None:
    """The states of all nodes may be many pages of the API server's."""
    clock, wanted = GoingClock(), list[str]()

    def cloudcores(node: str) -> Cloudcores:
        wanted.append(node)
        return Cloudcores("own", ("own",), {})

    elsewhere = StreamsElsewhere(None, cloudcores, clock)
    request = Request(method="GET", target="/", parts=())
    assert elsewhere.reply("n1", "/containerLogs/default/web/main", request) is None
    assert wanted == ["n1"]
    clock.close()
