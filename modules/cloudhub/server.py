"""The websocket server: connections of nodes become links, their frames become messages.

Threads: `websockets.sync` has a thread that accepts and two for each connection (one reads the socket, one is
ours and decodes). They are outside the actor model because a blocking read has no other form; all they do
with what they read is to hand it to `deliver`, which blocks when cloudhub is behind, so that TCP holds the
node back. Nothing here is touched from two threads but the set of open links, under a lock.

With TLS (`tls_socket`), a node is who its certificate says; KubeEdge looks at that only where authorization is on.
"""

import logging
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from beehive.codec import decode
from beehive.errors import FrameError
from modules.cloudhub.certificates.names import is_node_name, node_in
from modules.cloudhub.link import FrameCame, LinkClosed, LinkEvent, LinkOpened
from modules.cloudhub.tls_socket import TlsListener, TlsSocket

if TYPE_CHECKING:
    import ssl

    from websockets.http11 import Request, Response

_log = logging.getLogger(__name__)
_USE_MESSAGES = "msg"

Deliver = Callable[[LinkEvent], None]


class WebsocketLink:
    """A link over one websocket."""

    def __init__(self, connection: ServerConnection, write_timeout: float) -> None:
        self._connection = connection
        timeout = struct.pack("ll", int(write_timeout), int(write_timeout % 1 * 1_000_000))
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)

    def send(self, frame: bytes) -> None:
        """Writes a text message, as a Go peer does.

        Raises:
            OSError: the connection is closed, or did not take the message within the write timeout.
        """
        try:
            self._connection.send(frame, text=True)
        except ConnectionClosed as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        """Ends the TCP connection without a close frame, as KubeEdge does; the reader then sees the end."""
        try:
            self._connection.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("the connection was closed already")


class WebsocketServer:
    """See the module's docstring.

    Args:
        address: to listen on.
        port: to listen on; 0 takes a free one.
        deliver: takes what happens on the links, on the connection's thread.
        node_limit: most nodes connected at a time; more are refused with 503.
        max_frame_bytes: a longer message ends its connection (close code 1009).
        write_timeout: seconds a write may block.
        ssl_context: for TLS, which must demand client certificates; None for plain TCP.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        address: str,
        port: int,
        deliver: Deliver,
        *,
        node_limit: int,
        max_frame_bytes: int,
        write_timeout: float,
        ssl_context: "ssl.SSLContext | None" = None,
    ) -> None:
        self._deliver = deliver
        self._node_limit = node_limit
        self._write_timeout = write_timeout
        self._lock = threading.Lock()
        self._open: dict[WebsocketLink, str] = {}
        self.rejected: Counter[str] = Counter()
        """Frames that were not messages, by reason."""
        listening = socket.create_server((address, port))
        self._server: Server = serve(
            self._serve_connection,
            sock=listening if ssl_context is None else TlsListener(listening, ssl_context),
            process_request=self._check_request,
            compression="deflate",
            ping_interval=None,
            max_size=max_frame_bytes,
            server_header=None,
        )
        host, bound_port = self._server.socket.getsockname()[:2]
        self._address = (str(host), int(bound_port))
        self._thread = threading.Thread(target=self._server.serve_forever, name="cloudhub/accept", daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are really listened on; also after `stop`."""
        return self._address

    def start(self) -> None:
        """Begins to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Ends all connections and waits until their threads have ended."""
        with self._lock:
            links = list(self._open)
        for link in links:
            link.close()
        self._server.shutdown()
        self._thread.join()

    def _check_request(self, connection: ServerConnection, request: "Request") -> "Response | None":
        """Refuses, before the upgrade, who could not be served; the text says why."""
        node = _first(request, "node_id")
        if not is_node_name(node):
            text = "header node_id is missing or is not a node name\n"
            return connection.respond(HTTPStatus.BAD_REQUEST, text)
        if _first(request, "ConnectionUse") != _USE_MESSAGES:
            return connection.respond(HTTPStatus.BAD_REQUEST, "header ConnectionUse: msg is wanted\n")
        origin = _first(request, "Origin")
        if origin and origin.rpartition("/")[2] != _first(request, "Host"):
            return connection.respond(HTTPStatus.FORBIDDEN, "a foreign Origin is not served\n")
        if isinstance(connection.socket, TlsSocket):
            holder = node_in(connection.socket.certificate())
            if holder != node:
                text = f"wrong node: the certificate is that of {holder or 'no node'}, the header node_id says {node}\n"
                _log.warning("connection refused: %s", text.strip())
                return connection.respond(HTTPStatus.FORBIDDEN, text)
        with self._lock:
            nodes = {*self._open.values(), node}
        if len(nodes) > self._node_limit:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "the node limit is reached\n")
        return None

    def _serve_connection(self, connection: ServerConnection) -> None:
        request = connection.request
        if request is None:
            return
        node = _first(request, "node_id")
        link = WebsocketLink(connection, self._write_timeout)
        with self._lock:
            self._open[link] = node
        try:
            self._deliver(LinkOpened(node, link))
            self._read(connection, node, link)
        finally:
            with self._lock:
                del self._open[link]
            self._deliver(LinkClosed(node, link))

    def _read(self, connection: ServerConnection, node: str, link: WebsocketLink) -> None:
        while True:
            try:
                frame = connection.recv(decode=False)
            except ConnectionClosed as closed:
                _log.info("node %s: connection closed: %s", node, closed)
                return
            try:
                message = decode(frame)
            except FrameError as error:
                self.rejected[error.reason] += 1
                _log.warning("node %s: a frame of %d bytes was rejected: %s", node, len(frame), error)
                continue
            self._deliver(FrameCame(node, link, message))


def _first(request: "Request", name: str) -> str:
    """The first value of a header (a Go edge repeats some with each retry); empty when there is none."""
    values = request.headers.get_all(name)
    return values[0] if values else ""
