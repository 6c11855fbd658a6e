"""A small HTTP/1.1 server for a handful of read-only paths.

The standard library's own costs 9 MB resident, because it loads the e-mail package for its headers (measured in
design/libraries.md). This one understands GET and HEAD, bounded request lines and headers, and closes each connection.

It has threads of its own, outside the actor model: one blocks in `accept`, one serves each connection for at most some
seconds. They only read snapshots that are handed to them, so nothing can block a module.
"""

import contextlib
import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from edged.errors import EdgedError

_log = logging.getLogger(__name__)

_MAX_HEAD = 16 * 1024
_PATIENCE = 5.0
_MAX_CONNECTIONS = 32
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error",
            503: "Service Unavailable"}  # fmt: skip


class Answer(NamedTuple):
    """What a path answers."""

    status: int
    content_type: str
    body: bytes


Handler = Callable[[], Answer]


def text(status: int, body: str) -> Answer:
    """An answer of plain text."""
    return Answer(status, "text/plain; charset=utf-8", body.encode())


class ServerError(EdgedError):
    """The local HTTP server cannot have its address."""


class HttpServer:
    """Serves `routes` (path to handler) on one address.

    Args:
        address: IP address to bind.
        port: TCP port; 0 takes a free one, see `port`.

    Raises:
        ServerError: the address cannot be bound.
    """

    def __init__(self, address: str, port: int, routes: Mapping[str, Handler]) -> None:
        try:
            self._server = _Server((address, port), routes)
        except OSError as error:
            hint = f"{error.strerror}; is a kubelet or another edgecore there? readOnlyPort is the setting"
            raise ServerError("cannot serve on", f"{address}:{port}", hint) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.5,), name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._server.server_address[1]

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Handler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.routes = routes
        self._free = threading.BoundedSemaphore(_MAX_CONNECTIONS)
        super().__init__(address, _Connection)

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002 - the base's signature
        """Take no more connections than there may be threads."""
        return self._free.acquire(blocking=False)

    def process_request_thread(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002
        _log.debug("a connection to the local HTTP server broke", exc_info=True)


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        connection: socket.socket = self.request
        connection.settimeout(_PATIENCE)
        line = _request_line(connection)
        answer, with_body = self._answer(line)
        reason = _REASONS.get(answer.status, "")
        head = (
            f"HTTP/1.1 {answer.status} {reason}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
        )
        connection.sendall(head.encode() + (answer.body if with_body else b""))
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)

    def _answer(self, line: str) -> tuple[Answer, bool]:
        parts = line.split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return text(400, "this is an HTTP/1.1 server\n"), True
        method, target = parts[0], parts[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return text(405, "only GET and HEAD are served here\n"), True
        routes = cast("_Server", self.server).routes
        handler = routes.get(target.rstrip("/") or "/")
        if handler is None:
            return text(404, f"nothing is served here; there is {', '.join(sorted(routes))}\n"), method == "GET"
        return _call(handler, target), method == "GET"


def _call(handler: Handler, target: str) -> Answer:
    try:
        return handler()
    except Exception:  # noqa: BLE001 - one path that fails must not end the server
        _log.exception("the handler of %s failed", target)
        return text(500, "internal error; see the log\n")


def _request_line(connection: socket.socket) -> str:
    """The first line, after the whole head was read so that the peer can finish writing; empty when it is too long."""
    head = b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        chunk = connection.recv(4096)
        head += chunk
        if not chunk or len(head) > _MAX_HEAD:
            return ""
    return head.split(b"\n", 1)[0].rstrip(b"\r").decode("latin-1")
