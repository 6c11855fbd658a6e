"""The module cloudStream."""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Protocol

from beehive.handlers import handles
from beehive.http.http_server import HttpServer
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from modules.cloud.cloudstream.node_ports import NodePorts
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.messages import KUBELET_PORTS


class Server(Protocol):
    """The tunnel server."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""

    def start(self) -> None:
        """Begin to accept tunnels."""

    def stop(self) -> None:
        """Close all."""


class CloudStream(Module):
    """The module that serves the nodes' tunnels and, for a cluster's API server, a kubelet's logs, commands, port
    forwarding and metrics.

    Streams are served on the threads of HTTP servers and of the tunnel server: bytes are no messages. The actor starts
    and ends the servers, and writes a port into the status of each node that has opened a tunnel: there the API
    server of a cluster reaches this cloudcore for it.

    Args:
        tunnels: of all nodes; outlives a restart of this module.
        make_server: makes the tunnel server for a port, 0 for the configured one, with what it calls for each node
            that has opened a tunnel, on its thread; raises ListenError.
        listener: the stream server for a cluster's API server; None: the embedded API server uses `tunnels`.
    """

    name: ClassVar[str] = ModuleName.CLOUDSTREAM
    group: ClassVar[str] = ModuleName.CLOUDSTREAM

    def __init__(
        self,
        tunnels: Tunnels,
        make_server: Callable[[int, Callable[[str], None]], Server],
        listener: StreamListener | None = None,
    ) -> None:
        super().__init__()
        self._tunnels = tunnels
        self._make_server = make_server
        self._listener = listener
        self._server: Server | None = None
        self._streams: HttpServer | None = None
        self._ports: NodePorts | None = None
        """With a stream server."""

    def on_start(self) -> None:
        """Begin to listen.

        Raises:
            ListenError: the address of the tunnels cannot be listened on.
            ServerError: the address of the streams cannot.
        """
        self._server = server = self._make_server(self._tunnels.port, self._node_opened)
        self._tunnels.port = server.address[1]
        if self._listener is not None:
            self._streams = self._listener.start(self.hive, self.clock)
            self._ports = NodePorts(self, self._tunnels, self._listener.advertised_port)
        server.start()

    def on_end(self) -> None:
        """Close all tunnels and streams; the nodes come again."""
        self._close()

    def _node_opened(self, node: str) -> None:
        """Write the node's port; on the server's thread."""
        ports = self._ports
        if ports is not None:
            self.call_soon(partial(ports.opened, node))

    @handles(None, KUBELET_PORTS, source=ModuleName.EDGECONTROLLER)
    def on_kubelet_ports(self, message: Message) -> None:
        """Write the port of a node again: its status has another one now."""
        for node, port in message.content_as(dict[str, int]).items():
            if self._ports is not None:
                self._ports.seen(node, port)

    def _close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.stop()
