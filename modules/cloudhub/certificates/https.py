"""The HTTPS server of certificates, port 10002 in KubeEdge.

Threads: one that accepts, and one for each connection, outside the actor model because a blocking read of a socket
has no other form. One request a connection, with one deadline, a bounded number of connections (`guests`), bounded
headers and body: whoever connects is a stranger.
"""

import logging
import socket
import ssl
import threading
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from modules.cloudhub.certificates.enrolment import Answer, Request, refusal
from modules.cloudhub.certificates.guests import SECONDS, Guest, Guests
from modules.cloudhub.certificates.names import node_in
from modules.cloudhub.lingering import end_gently

_log = logging.getLogger(__name__)
_LARGEST_BODY = 1024 * 1024
"""KubeEdge's limit."""
_HEADERS = 32 * 1024
"""Bytes of request line and headers."""
_LOOK_EVERY = 0.5
"""Seconds between looks at what is overdue."""

Respond = Callable[[Request], Answer]


class HttpsServer:
    """See the module's docstring.

    Args:
        address: to listen on.
        port: to listen on; 0 takes a free one.
        context: of TLS.
        respond: answers requests, on the connection's thread.
        now: seconds since the epoch, for the header Date.
        monotonic: seconds, for deadlines.

    Raises:
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        respond: Respond,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self._server = _Server(address, port, context, respond, now, monotonic)
        host, bound_port = self._server.socket.getsockname()[:2]
        self._address = (str(host), int(bound_port))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOK_EVERY,), name="certificates/accept", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are really listened on; also after `stop`."""
        return self._address

    def start(self) -> None:
        """Begins to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Ends. Requests under way end by themselves, or with their silence."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(
        self,
        address: str,
        port: int,
        context: ssl.SSLContext,
        respond: Respond,
        now: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.respond = respond
        self.now = now
        self.guests = Guests(monotonic)
        self._context = context
        super().__init__((address, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection its thread, if there is room for one more."""
        guest = self.guests.come(str(client_address[0]), request)
        if guest is None:
            _log.warning("certificates: too many connections at once; one more is refused")
            self.close_request(request)
            return
        super().process_request(request, (*client_address, guest))

    def service_actions(self) -> None:
        """Now and then, and after each connection."""
        self.guests.end_overdue()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serves a connection; the handshake is done here so that a slow one holds up nobody."""
        guest: Guest = client_address[-1]
        try:
            request.settimeout(SECONDS)
            secure = self._context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            self.guests.secured(guest, secure)
            try:
                secure.do_handshake()
            except OSError as error:
                _log.info("certificates: %s: no TLS with this client: %s", client_address[0], error)
                self.shutdown_request(secure)
            else:
                super().process_request_thread(secure, client_address)
        finally:
            self.guests.gone(guest)

    def shutdown_request(self, request: Any) -> None:
        """Ends a connection when its answer has been read."""
        end_gently(request)
        self.close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - socketserver's signature
        """A client that went away in the middle is no news."""
        _log.info("certificates: %s: connection failed", client_address[0], exc_info=True)


class _Bounded:
    """A reader whose lines are request line and headers: of all of them, so many bytes are read."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._left = _HEADERS
        self.read = file.read
        self.close = file.close

    def readline(self, limit: int) -> bytes:
        """The next line.

        Raises:
            LineTooLong: there are too many; http.server answers with 431.
        """
        line: bytes = self._file.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("header")
        return line


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Bounds what is read before the body."""
        super().setup()
        self.rfile = _Bounded(self.rfile)  # type: ignore[assignment]

    def do_GET(self) -> None:
        """Reads the body, if there is one, and answers."""
        length = self.headers.get("Content-Length", "0")
        if not length.isascii() or not length.isdigit() or "Transfer-Encoding" in self.headers:
            self._send(refusal(HTTPStatus.LENGTH_REQUIRED, "a body needs a Content-Length"))
        elif len(length) > 9 or int(length) > _LARGEST_BODY:
            self._send(refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {_LARGEST_BODY} bytes"))
        else:
            request = self._request(self.rfile.read(int(length)))
            self.server.guests.answered(self.client_address[-1])  # type: ignore[arg-type]
            self._send(self.server.respond(request))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Into our log, without the headers: one is a token."""
        _log.info("certificates: %s: %a", self.client_address[0], format % args)

    def _request(self, body: bytes) -> Request:
        certificate = self.connection.getpeercert()
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, self.path, headers, body, bool(certificate), node_in(certificate))

    def _send(self, answer: Answer) -> None:
        """Answers with the headers of a recorded KubeEdge, and `Connection: close`."""
        if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            _log.warning("certificates: %s: refused: %a", self.client_address[0], answer.text)
        self.close_connection = True
        self.log_request(answer.status.value, len(answer.body))
        self.send_response_only(answer.status)
        self.send_header("Date", formatdate(self.server.now(), usegmt=True))
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(answer.body)
