"""The HTTP/1.1 server of the node, on TCP or a unix socket: h11 on threads.

A connection carries one request, or one after the other if the server keeps it, within bounds that the standard
library's server does not have: bytes and seconds of the head, connections and streams by number, a deadline for each
write.

The threads are outside the actor model: one blocks in `accept`, one serves each connection. They read snapshots that
the modules leave and call the container runtime; they cannot block a module.
"""

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from beehive import Clock
from beehive.accepting import accept_connection
from beehive.peer_certificate import peer_certificate
from edged.server.errors import RequestError
from edged.server.request import MAX_HEAD, Request, read_request
from edged.server.responses import Reply, Response, Stream, Takeover, text
from edged.server.router import HttpService

_log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 5.0
"""Seconds in which a client must send its request, and receive a response."""
STREAM_SECONDS: Final = 300.0
"""Seconds in which a client must receive a piece of a stream: a person may have stopped a pager."""
MAX_CONNECTIONS: Final = 64
"""Connections at one time; further ones are closed."""
MAX_STREAMS: Final = 32
"""Streams and taken-over connections at one time; the other connections are left for short requests."""

_STOP_SECONDS: Final = 5.0
_READ_BYTES: Final = 16 * 1024


class HttpServer:
    """Serves an `HttpService` on one socket, between `start` and `stop`.

    Args:
        listening: from `listen_tcp` or `listen_unix`; closed by `stop`.
        service: a router, for instance. It is called on the connections' threads.
        clock: for the deadline of a request.
        max_body: bytes of a request's body that are read before the service is called; 0 leaves bodies unread.
        context: serves HTTPS; the handshake is on the connection's thread, in at most `REQUEST_SECONDS`.
        idle_seconds: keeps a connection for further requests until none has come for so long; 0 closes it after one.
            Beyond `MAX_CONNECTIONS` the one that has waited longest is closed for a new one.
        admit: is given each request before its body is read; a RequestError refuses it.
    """

    def __init__(
        self,
        listening: socket.socket,
        service: HttpService,
        clock: Clock,
        *,
        max_body: int = 0,
        context: ssl.SSLContext | None = None,
        idle_seconds: float = 0.0,
        admit: Callable[[Request], None] | None = None,
    ) -> None:
        self._admit = admit
        self._listening = listening
        self._service = service
        self._clock = clock
        self._max_body = max_body
        self._context = context
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._idle: dict[socket.socket, None] = {}
        """The connections that wait for another request, the longest first."""
        self._streams = threading.BoundedSemaphore(MAX_STREAMS)
        self._thread = threading.Thread(target=self._accept, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The TCP port that was bound."""
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and cut the connections."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self._listening.close()
        with self._lock:
            open_ones = list(self._connections.items())
            for connection, _ in open_ones:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)  # SSLSocket's would let plain text out
        for _, thread in open_ones:
            thread.join(_STOP_SECONDS)

    def end_connections(self, refused: Callable[[Mapping[str, Any] | None], bool]) -> None:
        """End the connections of clients whose certificates are refused now, also while they are answered.

        Args:
            refused: is given a client's certificate.
        """
        with self._lock:
            open_ones = list(self._connections)
        for connection in open_ones:
            with contextlib.suppress(OSError, ValueError):  # it has just ended, or the handshake lasts
                if isinstance(connection, ssl.SSLSocket) and refused(peer_certificate(connection)):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _accept(self) -> None:
        while (connection := accept_connection(self._listening)) is not None:
            with contextlib.suppress(OSError):  # the client has gone already
                self._start_thread(self._secured(connection))

    def _secured(self, connection: socket.socket) -> socket.socket:
        """Return the connection, with TLS if it is served; nothing is read yet."""
        if self._context is None:
            return connection
        return self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)

    def _start_thread(self, connection: socket.socket) -> None:
        """Serve the connection on a thread of its own, or close it beyond `MAX_CONNECTIONS`."""
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS and not self._end_idle():
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

    def _end_idle(self) -> bool:
        """End the connection that has waited longest for another request; return False if none waits."""
        if not self._idle:
            return False
        longest = next(iter(self._idle))
        del self._idle[longest]
        with contextlib.suppress(OSError):
            socket.socket.shutdown(longest, socket.SHUT_RDWR)
        return True

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                if isinstance(connection, ssl.SSLSocket):
                    connection.settimeout(REQUEST_SECONDS)
                    connection.do_handshake()
                exchanges = _Connection(connection, self._clock)
                while self._reply(exchanges) and self._wait(exchanges):
                    pass
        except OSError:
            _log.debug("a connection to the local HTTP server broke", exc_info=True)
        except Exception:  # noqa: BLE001 - a connection that fails must not end the server
            _log.exception("an answer of the local HTTP server broke off")
        finally:
            with self._lock:
                self._connections.pop(connection, None)

    def _wait(self, connection: "_Connection") -> bool:
        """Wait for another request; return False if none comes, or the connection is closed in favour of a new one."""
        with self._lock:
            self._idle[connection.socket] = None
        has_begun = connection.wait(self._idle_seconds)
        with self._lock:
            return self._idle.pop(connection.socket, self) is None and has_begun

    def _reply(self, connection: "_Connection") -> bool:
        """Answer a request; return whether the connection can carry another."""
        try:
            reply = self._call_service(connection.read_request(self._max_body, self._admit))
        except RequestError as refusal:
            reply = text(refusal.status, f"{refusal}\n")
        if isinstance(reply, Response):
            return connection.send(reply, keeps=self._idle_seconds > 0)
        self._send_long(connection, reply)
        return False

    def _call_service(self, request: Request) -> Reply:
        try:
            return self._service.serve(request)
        except RequestError:
            raise
        except Exception:  # noqa: BLE001 - one path that fails must not end the server
            _log.exception("the handler of %s failed", request.path)
            return text(500, "internal error; see the log\n")

    def _send_long(self, connection: "_Connection", reply: Stream | Takeover) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(reply.done)
            if not self._streams.acquire(blocking=False):
                connection.send(text(503, f"{MAX_STREAMS} streams are open already; close one\n"))
                return
            stack.callback(self._streams.release)
            if isinstance(reply, Takeover):
                reply.carry_on(connection.socket)
            else:
                connection.send_stream(reply)


class _Connection:
    """A connection with its requests and the responses to them."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        from beehive.http.server import ServerExchange  # noqa: PLC0415 - h11, with the first request

        self.socket = connection
        self._exchange = ServerExchange(MAX_HEAD)
        self._clock = clock
        self._deadline = clock.monotonic() + REQUEST_SECONDS

    def read_request(self, max_body: int, admit: Callable[[Request], None] | None) -> Request:
        """Return the request. Raise RequestError when it cannot be read, or is not admitted."""

        def admitted(request: Request) -> None:
            if admit is not None:
                admit(self._certified(request))

        return self._certified(read_request(self._exchange, self._receive, max_body, admitted))

    def _certified(self, request: Request) -> Request:
        if isinstance(self.socket, ssl.SSLSocket):
            return msgspec.structs.replace(request, certificate=peer_certificate(self.socket))
        return request

    def wait(self, seconds: float) -> bool:
        """Wait for the first bytes of another request; return False if they do not come within `seconds`."""
        if not self._exchange.rest:
            self.socket.settimeout(seconds)
            try:
                data = self.socket.recv(_READ_BYTES)
            except TimeoutError:
                return False
            if not data:
                return False
            self._exchange.receive(data)
        self._deadline = self._clock.monotonic() + REQUEST_SECONDS
        return True

    def send(self, response: Response, *, keeps: bool = False) -> bool:
        """Send a whole response, and end the connection's sending side unless it `keeps` the connection. Return whether
        another request can come.
        """
        self.socket.settimeout(REQUEST_SECONDS)
        headers = [("Content-Type", response.content_type), ("Content-Length", str(len(response.body)))]
        headers += [("Location", response.location)] if response.location else []
        headers += response.headers
        head = self._exchange.response(response.status, headers, keeps=keeps)
        self.socket.sendall(head + self._exchange.data(response.body) + self._exchange.end())
        if keeps and self._exchange.next_request():
            return True
        self._end()
        return False

    def send_stream(self, stream: Stream) -> None:
        """Send a response in pieces; when the pieces raise, the connection closes without the last chunk."""
        self.socket.settimeout(STREAM_SECONDS)
        headers = [("Content-Type", stream.content_type), ("X-Content-Type-Options", "nosniff")]
        self.socket.sendall(self._exchange.response(200, headers))
        if not self._exchange.is_head:
            with contextlib.closing(stream.pieces(_SocketPeer(self.socket))) as pieces:
                for piece in pieces:
                    self.socket.sendall(self._exchange.data(piece))
            self.socket.sendall(self._exchange.end())
        self._end()

    def _receive(self) -> bytes:
        left = self._deadline - self._clock.monotonic()
        if left <= 0:
            raise RequestError(400, "the request is not complete", hint=f"it has {REQUEST_SECONDS:g} s")
        self.socket.settimeout(left)
        return self.socket.recv(_READ_BYTES)

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)


class _SocketPeer:
    """`Peer` on its socket. Bytes that the client sends during a stream are no request and count as its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection.fileno()
        self._poll = select.poll()
        self._poll.register(self._connection, select.POLLIN | select.POLLHUP)

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """See `Peer`."""
        if wake is not None:
            self._poll.register(wake, select.POLLIN)
        return any(ready == self._connection for ready, _ in self._poll.poll(seconds * 1000))
