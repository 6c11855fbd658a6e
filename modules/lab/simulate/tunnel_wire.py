"""Stream tunnels between simulated nodes and cloudcores: websockets of their own, over the lines of the nodes.

Both ends are the product's. In the place of the websocket are frames that keep the order and bounds of one; threads
that poll descriptors are greenlets that look at them in virtual time.
"""

import select
from collections import deque
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from beehive.errors import BeehiveError
from beehive.simulation.runtime import SimulatedQueue
from edgehub.errors import ClosedHereError, DeadPeerError, DialError, LinkError, LinkLostError
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.edge.edgestream.tunnel import TunnelEvents
from modules.lab.simulate.frame_channel import FrameChannel
from modules.lab.simulate.network import HANDSHAKE
from modules.lab.simulate.world import Process

if TYPE_CHECKING:
    from modules.lab.simulate.network import NetworkLine

_READ_DEADLINE = 15.0
"""Seconds of silence after which a node ends its tunnel (`modules.edgeStream.readDeadline`)."""
SILENT = 30.0
"""Seconds of silence after which a cloudcore ends it."""
_FIRST_LOOK, _LONGEST_LOOK = 0.005, 0.25
"""Seconds between two looks at the descriptors, which double while nothing comes."""
_CONFIRMED = b"pong"
"""Stands for the answer to a ping: the cloud has read one more frame."""


class SimulatedPoll:
    """A poll of descriptors in virtual time (`modules.streams.waiting.Poll`).

    Args:
        process: whose thread waits.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._poll = select.poll()
        self.register = self._poll.register

    def poll(self, timeout: float | None, /) -> list[tuple[int, int]]:
        """Look at the descriptors until one is ready, or `timeout` virtual milliseconds are over."""
        now, pause = self._process.clock.monotonic, _FIRST_LOOK
        end = float("inf") if timeout is None else now() + timeout / 1000
        while not (found := self._poll.poll(0)) and now() < end:
            self._process.sleep(min(pause, end - now()))
            pause = min(2 * pause, _LONGEST_LOOK)
        return found


class SimulatedTunnelServer:
    """The tunnel server of one cloudcore (`modules.cloud.cloudstream.module.Server`).

    Args:
        accepting: the servers that accept tunnels, of all cloudcores.
        process: of the cloudcore.
        tunnels: takes opened and closed tunnels, and received messages.
    """

    address = ("192.0.2.1", 10004)

    def __init__(self, accepting: "list[SimulatedTunnelServer]", process: Process, tunnels: Tunnels) -> None:
        self._accepting = accepting
        self.process = process
        self.tunnels = tunnels
        self.connections: list[SimulatedTunnel] = []

    def start(self) -> None:
        """Begin to accept tunnels."""
        self._accepting.append(self)

    def stop(self) -> None:
        """Close all, or end with the process."""
        if self in self._accepting:
            self._accepting.remove(self)
        for tunnel in list(self.connections):
            tunnel.close_from_cloud()


class SimulatedTunnel:
    """One tunnel, between a node's process and a cloudcore's."""

    def __init__(self, line: "NetworkLine", link: "SimulatedTunnelLink", server: SimulatedTunnelServer) -> None:
        self.line = line
        self.server = server
        self.began = line.world.now()
        self._world = line.world
        self._link: SimulatedTunnelLink | None = link
        self.up = FrameChannel(self._world, line.delay, self._at_cloud, lambda: line.no_way_up > 0)
        self.down = FrameChannel(self._world, line.delay, self._at_node, lambda: line.no_way_down > 0)
        self.cloud_link = WebsocketLink(lambda _: self._world.at(self._world.now(), self._work))
        self._unread: deque[bytes] = deque()
        server.connections.append(self)
        server.tunnels.add(line.node, "192.0.2.2", self.cloud_link, has_credit=True)

    @property
    def is_whole(self) -> bool:
        """Whether both of its ends have it."""
        return self._link is not None and self in self.server.connections

    def close_from_node(self) -> None:
        """Close the node's end, or end with the node's process."""
        self._end_at_node(None)
        self._world.at(self._world.now() + 2 * self.line.delay(), self._notice)

    def close_from_cloud(self) -> None:
        """Close the cloud's end, or end with the cloudcore's process."""
        self._end_at_cloud()
        error = LinkLostError("the tunnel was lost", "cloud", "closed there")
        self._world.at(self._world.now() + self.line.delay(), lambda: self._end_at_node(error))

    def break_both(self, why: str) -> None:
        """Break both ends; frames under way are lost."""
        self.break_at_node(0.0, why)

    def break_at_node(self, seconds: float, why: str = "the address has changed") -> None:
        """Break the node's end; frames under way are lost, and the cloud notices `seconds` later."""
        self.up.open = False
        self._end_at_node(LinkLostError("the tunnel was lost", "cloud", why))
        self._world.at(self._world.now() + seconds, self._notice)

    def release(self) -> None:
        """Deliver the held frames of both directions."""
        self.up.release()
        self.down.release()

    def watch_silence(self) -> None:
        """Let the node notice a dead direction, if it lasts: without it no answer to a ping comes."""

        def check() -> None:
            if self._link is not None and (self.line.no_way_up or self.line.no_way_down):
                self._end_at_node(DeadPeerError("the peer is silent", "cloud"))
                self._notice()

        self._world.at(self._world.now() + _READ_DEADLINE, check)

    def _notice(self, silent: float = 0.0) -> None:
        """Let the cloud notice that the node's end is closed: later over a dead line, but not for ever."""
        if self.line.no_way_up and silent < SILENT:
            self._world.at(self._world.now() + 1.0, lambda: self._notice(silent + 1.0))
        else:
            self._end_at_cloud()

    def _at_cloud(self, frame: bytes) -> None:
        self._unread.append(frame)
        self._work()

    def _work(self) -> None:
        """Send and receive at the cloud, as the thread of the tunnel server."""
        link = self.cloud_link
        if self not in self.server.connections:
            return
        while link.waiting:
            self.down.send(link.pop())
        while self._unread and link.admits():
            frame = self._unread.popleft()
            link.passed_frames += 1
            link.passed_bytes += len(frame)
            self.server.tunnels.receive(self.line.node, link, frame)
            self.down.send(_CONFIRMED)
        link.is_held = bool(self._unread)
        if link.is_closed:
            self.close_from_cloud()

    def _at_node(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.receive(1 if frame is _CONFIRMED else frame)

    def _end_at_node(self, error: LinkError | None) -> None:
        link, self._link = self._link, None
        self.down.open = False
        if link is not None and error is not None:
            link.receive(error)

    def _end_at_cloud(self) -> None:
        self.up.open = False
        if self in self.server.connections:
            self.server.connections.remove(self)
            self.cloud_link.close()
            if self.server.process.alive:
                self.server.tunnels.remove(self.line.node, self.cloud_link)


class SimulatedTunnelLink:
    """The node's end (`modules.edge.edgestream.tunnel.TunnelLink`).

    Args:
        process: of the node.
        line: of the node.
        accepting: the tunnel servers behind one address: a load balancer chooses.
    """

    def __init__(self, process: Process, line: "NetworkLine", accepting: list[SimulatedTunnelServer]) -> None:
        self._process = process
        self._line = line
        self._accepting = accepting
        self._queue: Any = SimulatedQueue(process.world.scheduler)
        self._tunnel: SimulatedTunnel | None = None

    def run(self, events: TunnelEvents) -> BeehiveError:
        """Dial and deliver frames until the tunnel ends."""
        error = self._dial()
        if error is not None:
            return error
        events.opened()
        while not isinstance(item := self._queue.get(), BeehiveError):
            if isinstance(item, int):
                events.confirmed(item)
            else:
                events.received(item)
        self._tunnel = None
        return item

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        if self._tunnel is not None:
            self._tunnel.up.send(frame)

    def close(self) -> None:
        """Close the tunnel."""
        tunnel, self._tunnel = self._tunnel, None
        if tunnel is not None:
            tunnel.close_from_node()
        self.receive(ClosedHereError())

    def receive(self, item: bytes | int | LinkError) -> None:
        """Queue a frame, a confirmation, or the end."""
        self._queue.put(item)

    def _dial(self) -> LinkError | None:
        line = self._line
        self._process.sleep(line.delay())
        if line.no_way_up or line.no_way_down:
            self._process.sleep(HANDSHAKE)
            return DialError("cannot open the tunnel", "simulated line", "no answer")
        accepting = [each for each in self._accepting if each.process.alive]
        if line.cut or not accepting:
            return DialError("cannot open the tunnel", "simulated line", HTTPStatus.SERVICE_UNAVAILABLE.phrase)
        self._tunnel = line.tunnel = SimulatedTunnel(line, self, line.world.random.choice(accepting))
        return None
