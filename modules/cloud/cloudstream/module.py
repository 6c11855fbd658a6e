"""The module cloudStream."""

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Final, Protocol

from beehive.errors import BeehiveError
from beehive.message import Message
from beehive.module import Module
from beehive.names import ModuleName
from edged.server.http import HttpServer
from modules.cloud.apiserver import commands
from modules.cloud.apiserver.commands import Verb
from modules.cloud.client.calls import STRATEGIC, ApiCall, ApiResult
from modules.cloud.cloudstream.stream_service import StreamListener
from modules.cloud.cloudstream.tunnels import Tunnels

_log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 20.0
"""Between two attempts to write a node's port, as in KubeEdge."""
_ATTEMPTS: Final = 6
_REPLY_SECONDS: Final = 30.0


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
    """Serves the nodes' tunnels and, for a cluster's API server, a kubelet's logs, commands, port forwarding and
    metrics.

    Streams are served on the threads of HTTP servers and of the tunnel server: bytes are no messages. The actor starts
    and ends the servers, and writes into the status of each node that has opened a tunnel the port at which the API
    server of a cluster reaches this cloudcore for it.

    Args:
        tunnels: of all nodes; outlives a restart of this module.
        make_server: makes the tunnel server for a port, 0 for the configured one; raises ListenError.
        listener: the stream server for a cluster's API server; None: the embedded API server uses `tunnels`.
    """

    name: ClassVar[str] = ModuleName.CLOUDSTREAM
    group: ClassVar[str] = ModuleName.CLOUDSTREAM

    def __init__(
        self, tunnels: Tunnels, make_server: Callable[[int], Server], listener: StreamListener | None = None
    ) -> None:
        super().__init__()
        self._tunnels = tunnels
        self._make_server = make_server
        self._listener = listener
        self._server: Server | None = None
        self._streams: HttpServer | None = None

    def on_start(self) -> None:
        """Begins to listen.

        Raises:
            ListenError: the address of the tunnels cannot be listened on.
            ServerError: that of the streams cannot.
        """
        self._tunnels.opened = self._node_opened if self._listener is not None else None
        self._server = server = self._make_server(self._tunnels.port)
        self._tunnels.port = server.address[1]
        server.start()
        if self._listener is not None:
            try:
                self._streams = self._listener.start(self.hive, self.clock)
            except BeehiveError:
                self._close()
                raise

    def on_stop(self) -> None:
        """Closes all tunnels and streams."""
        self._close()

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        """Closes all tunnels and streams; the nodes come again."""
        self._close()
        super().on_failure(exception_type, exception_value, traceback)

    def _node_opened(self, node: str) -> None:
        """Write the node's port; on the server's thread."""
        self.call_soon(lambda: self._write_port(node, _ATTEMPTS))

    def _write_port(self, node: str, attempts: int) -> None:
        """Write the node's port once; again later when that fails, while the node has a tunnel here."""
        if self._listener is None or not self._tunnels.has(node):
            return
        body = {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": self._listener.advertised_port}}}}
        call = ApiCall(
            verb="patch", api_version="v1", plural="nodes", name=node, subresource="status", patch_type=STRATEGIC,
            body=body,
        )  # fmt: skip

        def answered(answer: Message | BeehiveError) -> None:
            why = _failure(answer)
            if why and attempts > 1:
                self.after(RETRY_SECONDS, lambda: self._write_port(node, attempts - 1))
            if why:
                _log.warning("node %s: the port of its streams cannot be written: %s", node, why)

        self.request(
            ModuleName.EDGECONTROLLER, self.message(commands.RESOURCE, Verb.CALL, call), _REPLY_SECONDS, answered
        )

    def _close(self) -> None:
        self._tunnels.opened = None
        server, self._server = self._server, None
        if server is not None:
            server.stop()
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.stop()


def _failure(answer: Message | BeehiveError) -> str:
    """Return why the port is not written, "" if it is."""
    if not isinstance(answer, Message):
        return str(answer)
    refusal = answer.content_as(ApiResult).refusal
    return "" if refusal is None else f"{refusal.get('code')} {refusal.get('message')}"
