"""The HTTPS server of certificates, port 10002 in KubeEdge: `socketserver` accepts, h11 reads and writes.

One thread accepts and one serves each connection, outside the actor model: a blocking read of a socket has no other
form. Every client is a stranger, so a connection carries one request with one deadline, and connections, headers and
body are bounded.
"""

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

from beehive.clock import Clock
from beehive.http.connections import OpenConnection, OpenConnections, Phase, address_of
from beehive.http.errors import HttpError, HttpStatusError
from beehive.http.lingering_close import linger
from beehive.http.request import parts_of
from beehive.http.server import RequestHead, ServerExchange, body_length
from beehive.on_failure import on_failure
from beehive.sockets.ports import listen_errors
from beehive.sockets.tls import peer_certificate
from modules.cloud.cloudhub.certificates.enrolment import EnrolmentRequest, EnrolmentResponse, error_response
from modules.cloud.identities.peer import read_peer

_log = logging.getLogger(__name__)
_MAX_BODY = 1024 * 1024
"""Bytes of a body, KubeEdge's limit."""
REQUEST_SECONDS = 10.0
"""Seconds from the start of the connection to the end of the request, and from there to the end of the response."""
MAX_CONNECTIONS = 64
MAX_CONNECTIONS_PER_ADDRESS = 16
"""Of one address; several nodes may be behind one address translation."""
_MAX_HEAD = 32 * 1024
"""Bytes of request line and headers."""
_READ_BYTES = 16 * 1024
_OVERDUE_SECONDS = 0.5
"""Seconds between checks for overdue connections."""
_BACKLOG = 1024
"""Connections that wait to be accepted; with `socketserver`'s 5, of many nodes that join at once most would try again
after a second or more.
"""

Respond = Callable[[EnrolmentRequest], EnrolmentResponse]


class HttpsServer:
    """A server of `respond` over HTTPS, between `start` and `stop`.

    Args:
        address: to listen on.
        port: to listen on; 0 takes a free one.
        context: of TLS.
        respond: answers requests, on the connection's thread.
        clock: for the header Date and deadlines.

    Raises:
        ListenError: the address cannot be listened on.
    """

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        respond: Respond,
        clock: Clock,
    ) -> None:
        with listen_errors(address, port, "--https-listen"):
            self._server = _Server(address, port, context, respond, clock)
        host, bound_port = self._server.server_address[:2]
        self._address = (str(host), int(bound_port))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_OVERDUE_SECONDS,), name="certificates/accept", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """The bound host and port; also after `stop`."""
        return self._address

    def start(self) -> None:
        """Begin to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port. Open requests end by themselves or by their deadline."""
        if self._thread.ident is not None:
            self._server.socket.shutdown(socket.SHUT_RDWR)  # the thread looks up now, and not after its interval
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = _BACKLOG
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        respond: Respond,
        clock: Clock,
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.respond = respond
        self._clock = clock
        self.now = clock.now
        self.connections = OpenConnections(
            "the certificate server", clock, MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS
        )
        self._context = context
        super().__init__((address, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own, or close it when there are too many."""
        connection = self.connections.accept(address_of(request), request)
        if connection is None:
            self.close_request(request)
            return
        with on_failure(lambda: self.connections.remove(connection)):  # no thread
            super().process_request(request, (*client_address, connection))

    def service_actions(self) -> None:
        """End overdue connections; called every `_OVERDUE_SECONDS` and after each connection."""
        self.connections.end_overdue(REQUEST_SECONDS)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Shake hands on the connection's own thread, so that a slow client delays no other, and serve it."""
        connection: OpenConnection = client_address[-1]
        try:
            try:
                request.settimeout(REQUEST_SECONDS)
                request = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
                self.connections.replace_socket(connection, request)
                request.do_handshake()
            except OSError as error:
                _log.info("certificates: %s: no TLS with this client: %s", client_address[0], error)
                self.shutdown_request(request)
            else:
                super().process_request_thread(request, client_address)
        finally:
            self.connections.remove(connection)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection once the client has read the response."""
        linger(request, self._clock)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """Log a connection that broke, with level info: clients go away all the time."""
        _log.info("certificates: %s: connection failed", client_address[0], exc_info=True)


class _Handler(BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Read the request and send the response."""
        exchange = ServerExchange(_MAX_HEAD)
        line = "no request"
        try:
            head = exchange.read_head(self._receive)
            line = f"{head.method} {head.target} HTTP/{head.version}"
            response = self._response(head, exchange)
        except HttpError as error:
            response = error_response(HTTPStatus(error.status), error.reason)
        except HttpStatusError as error:
            response = error_response(HTTPStatus(error.status), str(error))
        self._send(exchange, line, response)

    def _receive(self) -> bytes:
        data: bytes = self.request.recv(_READ_BYTES)
        return data

    def _response(self, head: RequestHead, exchange: ServerExchange) -> EnrolmentResponse:
        """Return the response; the body is read for who has a token or a certificate. Raise HttpError."""
        if head.method != "GET":
            raise HttpError(HTTPStatus.NOT_IMPLEMENTED, "only GET is served")
        length = body_length(head, _MAX_BODY)
        is_read = partial(self.server.connections.enter, self.client_address[-1], Phase.ANSWERED)
        if not length:
            is_read()

        def body() -> bytes:
            self.request.sendall(exchange.go_ahead())
            found = exchange.read_body(self._receive)
            is_read()
            return found

        path = "/" + "/".join(parts_of(head.target.partition("?")[0]))
        peer = read_peer(peer_certificate(self.request))
        return self.server.respond(EnrolmentRequest(head.method, path, dict(head.headers), body, peer))

    def _send(self, exchange: ServerExchange, line: str, response: EnrolmentResponse) -> None:
        """Send the response with the headers of a recorded KubeEdge, and log it without the headers: one is a token."""
        client = self.client_address[0]
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            _log.warning("certificates: %s: refused: %a", client, response.text)
        _log.info("certificates: %s: %a", client, f'"{line}" {response.status.value} {len(response.body)}')
        headers = [
            ("Date", formatdate(self.server.now(), usegmt=True)),
            ("Content-Length", str(len(response.body))),
            ("Content-Type", response.content_type),
            *response.headers,
        ]
        self.request.sendall(exchange.response(response.status.value, headers) + exchange.data(response.body))
        self.server.connections.enter(self.client_address[-1], Phase.IDLE)
