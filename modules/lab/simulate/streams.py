"""Users who follow logs of nodes at any cloudcore, and what must hold of the answers.

The product's own parts run: edgestream with its sessions, cloudstream with its tunnels, and the way of a request
from the cloudcore that is asked to the one that has the node's tunnel. In the place of sockets between cloudcores, of
the websocket, and of the node's own server are doubles. Streams that switch protocols (exec, attach, port-forward) are
left out.
"""

import itertools
import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from greenlet import getcurrent, greenlet

from beehive.clock import Clock
from beehive.hive import Hive
from beehive.http.connections import Client
from beehive.http.errors import HttpError
from beehive.http.request import Request, request_from
from beehive.http.responses import Response, Stream
from beehive.http.server import ServerExchange
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream.module import CloudStream
from modules.cloud.cloudstream.opening import NodeStreams
from modules.cloud.cloudstream.passed_streams import (
    MOST_ASKED,
    ReceivedStreams,
    StreamsElsewhere,
    ask_cloudcores,
)
from modules.cloud.cloudstream.queue_memory import QUEUE_BYTES
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnel import OWN
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.coordination.known_cloudcores import CLOUDCORES_ORGANIZATION, KnownCloudcores
from modules.cloud.messages import Cloudcores
from modules.cloud.router.callers import LoopbackCallers
from modules.cloud.router.other_cloudcores import NO_ROUTER, OtherCloudcores
from modules.cloud.router.rest_service import RestService
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.module import EdgeStream
from modules.edge.edgestream.stream import WINDOW
from modules.lab.simulate.network import CloudEndpoint, NetworkLine
from modules.lab.simulate.tunnel_wire import (
    SimulatedPoll,
    SimulatedTunnel,
    SimulatedTunnelLink,
    SimulatedTunnelServer,
)
from modules.lab.simulate.virtual_socket import VirtualPeer, VirtualSocket
from modules.lab.simulate.world import Process, World
from modules.streams.connect import StreamRequest
from modules.streams.frames import SENT_DATA, FrameType

if TYPE_CHECKING:
    from modules.lab.simulate.node import SimulatedNode

BOUND: Final = 180.0
"""Seconds after which a cloudcore knows where a node is: a reflector lists after 120 s of silence, and retries."""
_LONGEST: Final = 150.0
"""Seconds within which a stream has ended: its lines, the longest waits for answers, and a tunnel that is dead."""
_SAME: Final = 35.0
"""Seconds within which a stream that has ended at one end of a tunnel has ended at the other."""
_CHANCE: Final = 0.6
"""Of a request in a second."""
_PORT: Final = 10002
_CERTIFICATE: Final = {"subject": ((("commonName", "a cloudcore"),), (("organizationName", CLOUDCORES_ORGANIZATION),))}


class _Asked(msgspec.Struct, eq=False):
    """A user's request for a log."""

    number: int
    node: str
    cloudcore: "CloudcoreStreams"
    at: float
    lines: int
    size: int
    """Bytes of a line."""
    pauses: tuple[float, float]
    """Seconds between two lines, and before the user reads on."""
    leaves_at: float
    received: bytes = b""
    holder: str = ""
    """The cloudcore that has the node, by the answer of edgecontroller."""
    passed_to: list[str] = []

    def line(self, number: int) -> bytes:
        """Return a line of the log."""
        return f"{self.node} {self.number} {number} ".encode().ljust(self.size, b".") + b"\n"

    def __str__(self) -> str:
        return f"log {self.number} of {self.node} at {self.cloudcore.known.own}"


class EdgeStreams:
    """The streams of one life of a node's process: edgestream, and the node's own server.

    Args:
        site: has the wanted logs.
        process: of the node.
        hive: gets edgestream.
        line: of the node.
    """

    def __init__(self, site: "StreamSite", process: Process, hive: Hive, line: NetworkLine) -> None:
        self._site = site
        self._process = process
        self.counters = StreamCounters()
        self.module: EdgeStream | None = None
        self._connections: list[socket.socket] = []

        def see(module: EdgeStream) -> None:
            self.module = module

        make_link = partial(SimulatedTunnelLink, process, line, site.tunnel_servers)
        poll = partial(SimulatedPoll, process)
        hive.add(_ObservedEdgeStream, see, make_link, self._dial, self.counters, make_poll=poll)

    @property
    def streams(self) -> dict[int, Any]:
        """The open streams, by number."""
        session = None if self.module is None else self.module._session
        return {} if session is None else session._streams

    def left(self) -> Iterator[tuple[str, int]]:
        """Yield the names and numbers of the things that must end with the streams."""
        session = None if self.module is None else self.module._session
        yield "streams in the counters", sum(self.counters.open.values())
        yield "streams", len(self.streams)
        yield "sockets", sum(each.fileno() >= 0 for each in self._connections)
        if session is not None:
            yield "unconfirmed frames", len(session._sent)
            yield "frames that wait", len(session._intake._frames)

    def _dial(self) -> socket.socket:
        here, there = self._site.pair()
        here.settimeout(0.0)
        self._connections = [each for each in (*self._connections, here, there) if each.fileno() >= 0]
        self._process.run(partial(self._serve, there))
        return here

    def _serve(self, accepted: socket.socket) -> None:
        """Answer a request for a log, as the node's own server does."""
        with closing(VirtualSocket(self._process, accepted)) as connection, suppress(OSError, HttpError):
            exchange = ServerExchange(64 * 1024)
            asked = self._site.logs.get(exchange.read_head(connection.recv).target.split("/")[3])
            if asked is None:
                return
            connection.sendall(exchange.response(200, [("Content-Type", "text/plain")]))
            for number in range(asked.lines):
                self._process.sleep(asked.pauses[0])
                connection.sendall(exchange.data(asked.line(number)))
            connection.sendall(exchange.end())


class _ObservedEdgeStream(EdgeStream):
    """edgestream, made known to the simulation."""

    def __init__(self, seen: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        seen(self)


class CloudcoreStreams:
    """The streams of one life of a cloudcore, composed as in its process.

    Args:
        site: has all cloudcores.
        process: of this one.
        hive: gets the module cloudStream, and has edgecontroller.
        known: the cloudcores that this one takes for alive, and their routers.
        host: name of its machine.
    """

    def __init__(self, site: "StreamSite", process: Process, hive: Hive, known: KnownCloudcores, host: str) -> None:
        self._site = site
        self._hive = hive
        self.process = process
        self.known = known
        clock, make_poll = process.clock, partial(SimulatedPoll, process)
        self.tunnels = _ObservedTunnels(clock)
        self._server = SimulatedTunnelServer(site.tunnel_servers, process, self.tunnels)
        others = _Routers(site, self, host)
        others.announce(_PORT)
        self._elsewhere = StreamsElsewhere(others, self._cloudcores, clock)
        self.nodes = NodeStreams(self.tunnels, clock, self._elsewhere, make_poll)
        received = ReceivedStreams(self.tunnels, NodeStreams(self.tunnels, clock, make_poll=make_poll))
        nothing: Any = None
        self._router = RestService(LoopbackCallers(), nothing, nothing, streams=received)
        self.connections: list[VirtualSocket] = []
        hive.add(CloudStream, self.tunnels, lambda _port, _opened: self._server, None)
        site.cloudcores[host] = self

    def end(self) -> None:
        """End with the process, as its kernel closes its sockets."""
        self._server.stop()
        for connection in self.connections:
            connection.close()

    def left(self) -> Iterator[tuple[str, int]]:
        """Yield the names and numbers of the things that must end with the streams."""
        yield "streams", self.tunnels.streams()
        yield "streams with a descriptor", sum(not each._is_closed for each in self.tunnels.made)
        yield "bytes", self.tunnels._memory.used
        yield "sockets", sum(each.fileno() >= 0 for each in self.connections)
        yield "requests at other cloudcores", self._elsewhere._opening.total()

    def accept(self, client: "CloudcoreStreams") -> VirtualSocket:
        """Return another cloudcore's end of a new connection to this one's router."""
        here, there = self._site.pair()
        accepted, connected = VirtualSocket(self.process, here), VirtualSocket(client.process, there)
        self.connections.append(accepted)
        client.connections.append(connected)
        self.process.run(partial(self._serve, accepted))
        return connected

    def _serve(self, connection: VirtualSocket) -> None:
        """Answer a request of another cloudcore, as the router's server does."""
        with closing(connection), suppress(OSError, HttpError):
            exchange = ServerExchange(64 * 1024)
            request = request_from(exchange.read_head(connection.recv), b"")
            reply = self._router.serve(msgspec.structs.replace(request, certificate=_CERTIFICATE))
            if isinstance(reply, Response):
                head = exchange.response(reply.status, [("Content-Length", str(len(reply.body)))])
                connection.sendall(head + exchange.data(reply.body) + exchange.end())
            elif isinstance(reply, Stream):
                try:
                    connection.sendall(exchange.response(200, [("Content-Type", reply.content_type)]))
                    with closing(reply.pieces(VirtualPeer(self.process, float("inf"), connection))) as pieces:
                        for piece in pieces:
                            connection.sendall(exchange.data(piece))
                    connection.sendall(exchange.end())
                finally:
                    reply.done()

    def _cloudcores(self, node: str) -> Cloudcores:
        found = ask_cloudcores(self._hive, self.process.clock, node)
        self._site.record(node, found)
        return found


class _ObservedTunnels(Tunnels):
    """Tunnels whose streams are known to the simulation."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.made: list[TunnelStream] = []

    def open(self, node: str, kind: FrameType, request: StreamRequest, client: Client = OWN) -> TunnelStream:
        """Open a stream to a node."""
        stream = super().open(node, kind, request, client)
        self.made = [*(each for each in self.made if not each._is_closed), stream]
        return stream


class _Routers(OtherCloudcores):
    """The routers of other cloudcores, reached without TLS."""

    def __init__(self, site: "StreamSite", own: CloudcoreStreams, host: str) -> None:
        super().__init__(own.known, ssl.create_default_context, "cloud", host)
        self._site = site
        self._own = own

    def connect(self, identity: str, clock: Clock, seconds: float) -> ssl.SSLSocket:  # noqa: ARG002 - no waits
        """Return a connection to the cloudcore that listens now where that one did."""
        router = self.router_of(identity)
        if router is None:
            raise OSError(NO_ROUTER)
        self._site.passed(identity, self._own)
        self._own.process.sleep(0.01)
        there = self._site.cloudcores[router[0]]
        if not there.process.alive:
            raise ConnectionRefusedError(111, "Connection refused")
        return cast("ssl.SSLSocket", there.accept(self._own))


class StreamSite:
    """All cloudcores and nodes with their streams, and the users.

    Args:
        world: collects violations.
        endpoint: knows which cloudcore has a node's connection.
    """

    def __init__(self, world: World, endpoint: CloudEndpoint) -> None:
        self._world = world
        self._endpoint = endpoint
        self._random = random.Random(f"{world.seed} streams")  # noqa: S311 - reproducible on purpose
        self.tunnel_servers: list[SimulatedTunnelServer] = []
        """Of all cloudcores that accept tunnels."""
        self.cloudcores: dict[str, CloudcoreStreams] = {}
        """By the names of their machines, the newest of each."""
        self.logs: dict[str, _Asked] = {}
        """Open requests, by number."""
        self.asks = True
        """Whether users ask now and then."""
        self._numbers = itertools.count(1)
        self._of_thread: dict[greenlet, _Asked] = {}
        self._calm_since = float("inf")
        self._found: dict[tuple[str, str], float] = {}
        """The time of the last request of a cloudcore for a node that was answered with its log."""
        self._uneven: dict[str, dict[tuple[SimulatedTunnel, int], float]] = {}
        """By node, since when streams are at one end of its tunnel only."""
        self._sockets: list[socket.socket] = []

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """Return two connected sockets of the machine, which stay open when their process is killed."""
        pair = socket.socketpair()
        self._sockets = [*(each for each in self._sockets if each.fileno() >= 0), *pair]
        return pair

    def close(self) -> None:
        """Close the sockets that are left at the end of the run."""
        for each in self._sockets:
            each.close()

    def check(self, nodes: "list[SimulatedNode]", *, is_calm: bool) -> None:
        """Check the streams, and let a user ask now and then."""
        now = self._world.now()
        self._calm_since = min(self._calm_since, now) if is_calm else float("inf")
        running = self._running()
        for node in nodes:
            process = self._endpoint.connected_to(node.name)
            if process is not None:
                self._endpoint.linked[node.name, process.identity] = now
            self._check_tunnel(node)
        for stream in (stream for each in running for stream in each.tunnels.made):
            if stream._bytes > QUEUE_BYTES + SENT_DATA:
                self._world.violated(
                    "streams hold few bytes", f"{stream._bytes} of stream {stream.number} in the cloud"
                )
        for number, asked in list(self.logs.items()):
            if not asked.cloudcore.process.alive:
                del self.logs[number]
            elif now > asked.at + _LONGEST:
                self._world.violated("a stream ends", f"{asked} is open since {asked.at:.3f} s")
        if self.asks and running and self._random.random() < _CHANCE:
            self._ask(self._random.choice(running), self._random.choice(nodes).name)

    def settle(self, nodes: "list[SimulatedNode]") -> None:
        """Begin the end of the run: tunnels are dialled again, and each cloudcore has to find each node again."""
        self.asks = False
        self._calm_since = self._world.now()
        self._found.clear()
        for node in nodes:
            if node.line.tunnel is not None:
                node.line.tunnel.break_at_node(0.0)

    def disagreements(self, nodes: "list[SimulatedNode]") -> Iterator[str]:
        """Let each cloudcore find each node; yield the failures, and then the things that have not ended."""
        running = self._running()
        missing = [
            (cloudcore, node.name)
            for cloudcore in running
            for node in nodes
            if self._found.get((cloudcore.known.own, node.name), -1.0) < self._calm_since
        ]
        asked = {(each.cloudcore, each.node) for each in self.logs.values()}
        for cloudcore, name in missing:
            if (cloudcore, name) not in asked:
                self._ask(cloudcore, name)
        yield from (f"{cloudcore.known.own} has not found the log of {name}" for cloudcore, name in missing)
        for cloudcore in running:
            yield from (f"{cloudcore.known.own} has {number} {name}" for name, number in cloudcore.left() if number)
        for node in nodes:
            left = node.streams.left() if node.streams is not None else ()
            yield from (f"{node.name} has {number} {name} of streams" for name, number in left if number)

    def record(self, node: str, found: Cloudcores) -> None:
        """Note edgecontroller's answer: the cloudcore that it names has had the node a short while ago."""
        asked = self._of_thread.get(getcurrent())
        holder = found.elsewhere().get(node, "")
        if asked is not None:
            asked.holder = holder
        last = self._endpoint.linked.get((node, holder), float("-inf"))
        if holder and self._world.now() > last + BOUND:
            self._world.violated("a node is where cloudcore takes it to be", f"{found.own}: {node} is at {holder}")

    def passed(self, identity: str, by: CloudcoreStreams) -> None:
        """Check that a request is passed on by the cloudcore that a user has asked, to each other one once."""
        asked = self._of_thread.get(getcurrent())
        wrong = ""
        if asked is None:
            wrong = f"{by.known.own} passes on a request of another cloudcore"
        elif identity in (*asked.passed_to, by.known.own) or len(asked.passed_to) >= MOST_ASKED:
            wrong = f"{asked} goes to {identity} after {asked.passed_to}"
        elif asked.holder and not asked.passed_to and identity != asked.holder:
            wrong = f"{asked} goes to {identity} first, and the node is at {asked.holder}"
        if asked is not None:
            asked.passed_to.append(identity)
        if wrong:
            self._world.violated("a request is passed on once", wrong)

    def _running(self) -> list[CloudcoreStreams]:
        return [each for each in self.cloudcores.values() if each.process.alive]

    def _ask(self, cloudcore: CloudcoreStreams, node: str) -> None:
        draw, now = self._random, self._world.now()
        lines, size, pauses = draw.choice(
            ((1, 30, (0.0, 0.0)), (8, 30, (0.5, 0.0)), (4, 30, (3.0, 0.0)), (50, 20_000, (0.0, 0.2)))
        )
        leaves_at = draw.choice((float("inf"), float("inf"), now + 2.0))
        asked = _Asked(next(self._numbers), node, cloudcore, now, lines, size, pauses, leaves_at)
        self.logs[str(asked.number)] = asked
        cloudcore.process.run(partial(self._follow, asked))

    def _follow(self, asked: _Asked) -> None:
        """Follow a log, on a thread of the cloudcore's HTTP server."""
        self._of_thread[getcurrent()] = asked
        process, why = asked.cloudcore.process, ""
        target = f"/containerLogs/default/{asked.number}/app?follow=true"
        try:
            reply = asked.cloudcore.nodes.reply(asked.node, target, Request(method="GET", target=target, parts=()))
            if isinstance(reply, Stream):
                try:
                    with closing(reply.pieces(VirtualPeer(process, asked.leaves_at))) as pieces:
                        for piece in pieces:
                            asked.received += piece
                            process.sleep(asked.pauses[1])
                            if self._world.now() >= asked.leaves_at:
                                break
                finally:
                    reply.done()
        except ApiStatusError as error:
            why = f"{error.code} {error.message}"
            if asked.node not in why:
                self._world.violated("an error names the node", f"{asked}: {why}")
        except ConnectionAbortedError as error:
            why = f"breaks off: {error}"
        del self._of_thread[getcurrent()]
        self.logs.pop(str(asked.number), None)
        self._judge(asked, why)

    def _judge(self, asked: _Asked, why: str) -> None:
        """Check the answer: the node's log, whole and in order, or after `BOUND` seconds without a fault no error."""
        self._world.log_line("streams", f"{asked}: {why or len(asked.received)}, passed to {asked.passed_to}")
        whole = b"".join(map(asked.line, range(asked.lines)))
        has_left = self._world.now() >= asked.leaves_at
        if not whole.startswith(asked.received) or (asked.received != whole and not (why or has_left)):
            received = asked.received[-80:].decode(errors="replace")
            self._world.violated("a log is whole and in order", f"{asked}: {len(asked.received)} bytes, … {received}")
        if not why:
            self._found[asked.cloudcore.known.own, asked.node] = asked.at
        elif asked.at > max(self._calm_since, self._world.last_fault_at) + BOUND:
            self._world.violated("every cloudcore finds every node", f"{asked}: {why}")

    def _check_tunnel(self, node: "SimulatedNode") -> None:
        """Check that both ends of a tunnel have the same streams, and that few bytes are on their way to the cloud."""
        tunnel = node.line.tunnel
        if tunnel is None or not tunnel.is_whole or node.streams is None:
            return
        now, here = self._world.now(), node.streams.streams
        known = tunnel.server.tunnels._by_node.get(node.name)
        if known is None or known.link is not tunnel.cloud_link:
            self._world.violated(
                "the newest tunnel of a node counts", f"{node.name} has one since {tunnel.began:.3f} s"
            )
            return
        there = known._streams
        before = self._uneven.get(node.name, {})
        uneven = {(tunnel, each): before.get((tunnel, each), now) for each in sorted(here.keys() ^ there.keys())}
        self._uneven[node.name] = uneven
        for (_, number), since in uneven.items():
            if now > since + _SAME:
                where = "node" if number in here else "cloud"
                self._world.violated(
                    "a stream ends at both ends", f"{node.name}: stream {number} is at the {where} only"
                )
        for number, each in here.items():
            if each.unconfirmed > WINDOW + SENT_DATA:
                self._world.violated("streams hold few bytes", f"{node.name}: {each.unconfirmed} of stream {number}")
