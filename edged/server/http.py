"""A small HTTP/1.1 server for the node's own paths, on TCP or a unix socket.

The standard library's own costs 9 MB resident, because it loads the e-mail package for its headers (measured in
design/libraries.md). This one takes one request a connection, within bounds: the head in bytes and seconds, connections
and long answers by number, each write by a deadline.

It has threads of its own, outside the actor model: one blocks in `accept`, one serves each connection. They read
snapshots that are handed to them and ask the container runtime; nothing they do can block a module.
"""

import contextlib
import logging
import select
import socket
import threading
from typing import Final

import msgspec

from beehive import Clock
from edged.server.answers import Answer, Reply, Stream, Takeover, text
from edged.server.errors import RequestError
from edged.server.listening import accepted
from edged.server.request import Request, body_length, has_head, parse
from edged.server.router import Service

_log = logging.getLogger(__name__)

PATIENCE: Final = 5.0
"""Seconds that a client has for its request, and for taking an answer."""
STREAM_PATIENCE: Final = 300.0
"""Seconds in which a client must have taken a piece of a stream: a person may have stopped a pager."""
MAX_CONNECTIONS: Final = 64
"""At one time; what comes beyond is closed."""
MAX_LONG: Final = 32
"""Of them, streams and connections that were taken over: half is left for who only asks how the node is."""

_STOP_SECONDS = 5.0
_READ_BYTES = 16 * 1024
_REASONS: Final = {
    200: "OK", 201: "Created", 302: "Found", 400: "Bad Request", 403: "Forbidden", 404: "Not Found",
    405: "Method Not Allowed", 406: "Not Acceptable", 409: "Conflict", 410: "Gone", 411: "Length Required",
    413: "Content Too Large", 415: "Unsupported Media Type", 422: "Unprocessable Entity",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class HttpServer:
    """Serves a service on one socket; `start` and `stop` it.

    Args:
        listening: from `listen_tcp` or `listen_unix`; closed by `stop`.
        service: a router, for instance. It is called on the connections' threads.
        clock: for the deadline of a request.
        max_body: bytes of a request's body that are read before it is served; 0 leaves bodies unread.
    """

    def __init__(self, listening: socket.socket, service: Service, clock: Clock, *, max_body: int = 0) -> None:
        self._listening = listening
        self._service = service
        self._clock = clock
        self._max_body = max_body
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._long = threading.BoundedSemaphore(MAX_LONG)
        self._thread = threading.Thread(target=self._accept, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The TCP port that was bound."""
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Serve no more: connections are cut, the port is free."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self._listening.close()
        with self._lock:
            under_way = list(self._connections.items())
            for connection, _ in under_way:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for _, thread in under_way:
            thread.join(_STOP_SECONDS)

    def _accept(self) -> None:
        while (connection := accepted(self._listening)) is not None:
            self._take(connection)

    def _take(self, connection: socket.socket) -> None:
        """Give it a thread, unless there are as many as there may be."""
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                connection.close()
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="http-connection", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                _log.warning("the local HTTP server can have no more threads; a connection is closed")
                connection.close()
                return
            self._connections[connection] = thread

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._converse(connection)
        except OSError:
            _log.debug("a connection to the local HTTP server broke", exc_info=True)
        except Exception:  # noqa: BLE001 - a connection that fails must not end the server
            _log.exception("an answer of the local HTTP server broke off")
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _converse(self, connection: socket.socket) -> None:
        request: Request | None = None
        try:
            request = self._read(connection)
            reply = self._reply(request)
        except RequestError as refusal:
            reply = text(refusal.status, f"{refusal}\n")
        if isinstance(reply, Answer):
            _send_answer(connection, reply, with_body=request is None or request.method != "HEAD")
        elif request is not None:
            self._send_long(connection, request, reply)

    def _read(self, connection: socket.socket) -> Request:
        deadline = self._clock.monotonic() + PATIENCE
        data = b""
        while not has_head(data):
            data += self._more(connection, deadline)
        request = parse(data)
        return self._with_body(connection, request, deadline) if self._max_body else request

    def _with_body(self, connection: socket.socket, request: Request, deadline: float) -> Request:
        length = body_length(request, self._max_body)
        body = bytearray(request.rest)
        while len(body) < length:
            body += self._more(connection, deadline)
        return msgspec.structs.replace(request, body=bytes(body[:length]), rest=b"")

    def _more(self, connection: socket.socket, deadline: float) -> bytes:
        left = deadline - self._clock.monotonic()
        if left <= 0:
            raise RequestError(400, "the request is not complete", hint=f"it has {PATIENCE:g} s")
        connection.settimeout(left)
        chunk = connection.recv(_READ_BYTES)
        if not chunk:
            raise RequestError(400, "this is an HTTP/1.1 server")
        return chunk

    def _reply(self, request: Request) -> Reply:
        try:
            return self._service.serve(request)
        except RequestError:
            raise
        except Exception:  # noqa: BLE001 - one path that fails must not end the server
            _log.exception("the handler of %s failed", request.path)
            return text(500, "internal error; see the log\n")

    def _send_long(self, connection: socket.socket, request: Request, reply: Stream | Takeover) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(reply.done)
            if not self._long.acquire(blocking=False):
                busy = text(503, f"{MAX_LONG} streams are open already; close one\n")
                return _send_answer(connection, busy, with_body=True)
            stack.callback(self._long.release)
            if isinstance(reply, Takeover):
                return reply.carry_on(connection)
            return _send_stream(connection, request, reply)


class _Waiting:
    """`Peer` on its connection. Whatever the client sends now is no request, so it counts as its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection.fileno()
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN | select.POLLHUP)

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """See the contract."""
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        return any(ready == self._connection for ready, _ in self._poll.poll(seconds * 1000))


def _send_answer(connection: socket.socket, answer: Answer, *, with_body: bool) -> None:
    connection.settimeout(PATIENCE)
    fields = [f"Content-Type: {answer.content_type}", f"Content-Length: {len(answer.body)}"]
    fields += [f"Location: {answer.location}"] if answer.location else []
    connection.sendall(_head(answer.status, fields) + (answer.body if with_body else b""))
    _end(connection)


def _send_stream(connection: socket.socket, request: Request, stream: Stream) -> None:
    connection.settimeout(STREAM_PATIENCE)
    fields = [f"Content-Type: {stream.content_type}", "X-Content-Type-Options: nosniff"]
    connection.sendall(_head(200, fields + (["Transfer-Encoding: chunked"] if request.chunks else [])))
    if request.method != "HEAD":
        with contextlib.closing(stream.pieces(_Waiting(connection))) as pieces:
            for piece in pieces:
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if request.chunks else piece)
        connection.sendall(b"0\r\n\r\n" if request.chunks else b"")
    _end(connection)


def _head(status: int, fields: list[str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}", *fields, "Connection: close", "", ""]
    return "\r\n".join(lines).encode("latin-1")


def _end(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
