"""The tunnels of all nodes."""

import itertools
import logging
import threading
from typing import Final

from beehive.clock import Clock
from beehive.http.connections import Client
from modules.cloud.cloudstream.errors import NoTunnelError
from modules.cloud.cloudstream.queue_memory import QueueMemory
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnel import MOST_STREAMS, OWN, Tunnel
from modules.cloud.websocket.connection import WebsocketLink
from modules.cloud.websocket.link import Link
from modules.streams.connect import StreamRequest
from modules.streams.frames import FrameError, FrameType

_log = logging.getLogger(__name__)

_NONE: Final = (
    "the node has no stream tunnel to this cloudcore: if it is connected, enable modules.edgeStream in its "
    "configuration, with modules.edgeStream.server: HOST:{port} of this cloudcore; `edgecore doctor` on the node names "
    "the file, and says why a tunnel that is enabled is not there"
)
NOT_SERVED: Final = (
    "this cloudcore serves no stream tunnel: start `cloudcore run` with --tunnel-listen ADDRESS:10004, and enable "
    "modules.edgeStream in the configuration of the node, whose file `edgecore doctor` there names"
)


class Tunnels:
    """The tunnels of nodes, one each: of two of one node, the newer counts and the older is closed. Thread-safe.

    The object is made by the process and outlives a restart of the module, as stream numbers must never come again.

    Args:
        clock: for the tunnels.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._memory = QueueMemory()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._by_node: dict[str, Tunnel] = {}
        self.port = 0
        """The TCP port of the tunnel server; 0 without one."""

    def __len__(self) -> int:
        return len(self._by_node)

    def streams(self) -> int:
        """Return the number of open streams."""
        with self._lock:
            return sum(map(len, self._by_node.values()))

    def has(self, node: str) -> bool:
        """Return whether a node has a tunnel."""
        return node in self._by_node

    def add(
        self, node: str, address: str, link: WebsocketLink, *, has_credit: bool = False, most: int = MOST_STREAMS
    ) -> None:
        """Take a node's new tunnel; an older one is closed."""
        tunnel = Tunnel(node, address, link, self._clock, self._memory, has_credit=has_credit, most=most)
        with self._lock:
            older, self._by_node[node] = self._by_node.get(node), tunnel
        if older is not None:
            _log.info("node %s: a newer tunnel takes the place of the older", node)
            older.link.close()
            older.end("the node has opened another tunnel")

    def remove(self, node: str, link: Link) -> None:
        """Forget a tunnel that has ended, unless a newer one has taken its place; its streams are cut."""
        with self._lock:
            tunnel = self._by_node.get(node)
            if tunnel is None or tunnel.link is not link:
                return
            del self._by_node[node]
        tunnel.end("the node's tunnel has ended")

    def receive(self, node: str, link: WebsocketLink, payload: bytes) -> None:
        """Take a message of a node; a message over an older tunnel is ignored."""
        tunnel = self._by_node.get(node)
        if tunnel is None or tunnel.link is not link:
            link.handled(len(payload))
            return
        try:
            tunnel.receive(payload)
        except FrameError as error:
            _log.warning("node %s: its tunnel is closed: %s", node, error)
            link.close()

    def open(self, node: str, kind: FrameType, request: StreamRequest, client: Client = OWN) -> TunnelStream:
        """Open a stream to a node, for a client.

        Raises:
            NoTunnelError: it has no tunnel here.
            TooManyStreamsError: it has too many streams.
            ConnectError: the request cannot be sent.
        """
        tunnel = self._by_node.get(node)
        if tunnel is None:
            hint = _NONE.format(port=self.port) if self.port else NOT_SERVED
            raise NoTunnelError("no stream can be opened", f"node {node}", hint)
        return tunnel.open(next(self._numbers), kind, request, client)

    def node_at(self, address: str) -> str:
        """Return the node with this name or, if there is one only, this internal address, or ""."""
        if address in self._by_node:
            return address
        with self._lock:
            nodes = [tunnel.node for tunnel in self._by_node.values() if tunnel.address == address]
        return nodes[0] if len(nodes) == 1 else ""

    def end_stalled(self) -> None:
        """Remove the streams whose clients do not read."""
        now = self._clock.monotonic()
        with self._lock:
            tunnels = list(self._by_node.values())
        for tunnel in tunnels:
            tunnel.end_stalled(now)
