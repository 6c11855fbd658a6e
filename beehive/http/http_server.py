"""The HTTP/1.1 server of the node, on TCP or a unix socket: h11 on threads.

A connection carries one request, or one after the other if the server keeps it, within bounds that the standard
library's server does not have: bytes and seconds of the head, connections and streams by number, in all and for a
client, a deadline for each write. A client that sends nothing makes room for another (`OpenConnections`).

The threads read snapshots that the modules leave, and call the container runtime.
"""

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, TypeVar

import msgspec

from beehive import Clock
from beehive.http.connection_server import ConnectionServer
from beehive.http.connections import (
    Client,
    OpenConnection,
    OpenConnections,
    Phase,
    StreamShares,
    peer_address,
)
from beehive.http.errors import HttpStatusError
from beehive.http.lingering_close import linger
from beehive.http.request import MAX_HEAD, Request, read_body, read_request
from beehive.http.responses import Reply, Response, Stream, StreamHead, Takeover, text
from beehive.http.router import Admitted, HttpService, admit
from beehive.http.unsent_bytes import HeldBytes, UnsentBytes
from beehive.rate import TokenBucket
from beehive.sockets.tls import peer_certificate

_log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 5.0
"""Seconds from the start of a connection to the end of its first request, from the first byte of another request to
its end, and for each 256 KiB of the response.
"""
STREAM_SECONDS: Final = 300.0
"""Seconds within which a client must receive a piece of a stream: a person may have stopped a pager."""
MAX_CONNECTIONS: Final = 64
"""Connections at one time, beside streams. Then a connection without a whole request makes room for a new one."""
MAX_STREAMS: Final = 32
"""Streams and taken-over connections at one time."""

REFUSALS: Final = 100
"""Answers to clients without rights in a second, and in a burst, after which further ones are held back."""
PAUSE_SECONDS: Final = 0.25
"""Seconds that such a refusal is held back, and up to twice as long."""
_SKIPPED_BYTES: Final = 64 * 1024
"""Longest body that is read although its request is refused: a new connection would cost both sides more."""
_SHARES: Final = 16
_REFUSED: Final = (401, 403, 429)

_READ_BYTES: Final = 16 * 1024
_PIECE_BYTES: Final = 256 * 1024
"""Bytes of a response that a client must receive in `REQUEST_SECONDS`, and then the next."""
_CHUNK_BYTES: Final = 64 * 1024
"""Bytes of a stream that are sent together."""
_COPIED_BYTES: Final = 16 * 1024
"""Bytes of a body that are sent together with the head, and need not be counted while they wait."""
_INSTANT: Final = 0.001
"""Seconds; a socket's time-out of 0 would mean that it does not block."""
_Result = TypeVar("_Result")


class HttpServer(ConnectionServer):
    """A server of an `HttpService` on one socket, between `start` and `stop`.

    Beyond `REFUSALS` in a second, a refusal (401, 403, 429), and over HTTPS any answer to a client without credentials,
    is held back for a moment, while its connection makes room for others: clients without rights that ask without
    end would take the interpreter from all others, some dozen threads of theirs standing in line before each step of
    every other request.

    Args:
        listening: from `listen_tcp` or `listen_unix`; closed by `stop`.
        service: a router, for instance. It is called on the connections' threads. An `AdmittingService` decides on each
            request before its body is read.
        clock: for the deadline of a request.
        max_body: bytes of a request's body that are read before the service serves it; 0 leaves bodies unread.
        context: serves HTTPS; the handshake is on the connection's thread, in at most `REQUEST_SECONDS`.
        idle_seconds: keeps a connection for further requests until none has come for so long; 0 closes it after one.
        refusal: makes the response to a request that is not read or not admitted, or that the service fails to answer;
            default plain text.
        max_connections: at one time, beside streams; one address has three quarters of them at most.
        max_streams: at one time; see `StreamShares`.
        unsent: the memory for what clients have not taken, and for bodies; None: one of this server alone.
    """

    def __init__(
        self,
        listening: socket.socket,
        service: HttpService,
        clock: Clock,
        *,
        max_body: int = 0,
        context: "ssl.SSLContext | None" = None,
        idle_seconds: float = 0.0,
        refusal: Callable[[HttpStatusError], Response] = lambda error: text(error.status, f"{error}\n"),
        max_connections: int = MAX_CONNECTIONS,
        max_streams: int = MAX_STREAMS,
        unsent: UnsentBytes | None = None,
    ) -> None:
        self._refusal = refusal
        self._service = service
        self._clock = clock
        self._max_body = max_body
        self._context = context
        self._idle_seconds = idle_seconds
        of_address = max_connections if listening.family == socket.AF_UNIX else max_connections * 3 // 4
        name = f"the HTTP server at {_name_of(listening)}"
        connections = OpenConnections(name, clock, max_connections, of_address, max_streams)
        super().__init__(listening, connections, "http")
        self._streams = StreamShares(max_streams)
        self._unsent = unsent or UnsentBytes(clock)
        self._refusals = TokenBucket(REFUSALS, REFUSALS)
        self._refusals_lock = threading.Lock()
        self._held_back = 0

    def end_connections(self, refused: Callable[[Mapping[str, Any] | None, str], bool]) -> None:
        """End the connections of clients whose certificates or credentials are refused now, also while they are
        answered.

        Args:
            refused: is given a client's certificate, and the header `Authorization` of its last request.
        """
        self._open.end_where(lambda each: _is_refused(each, refused))

    def _secured(self, accepted: socket.socket) -> socket.socket:
        """Return the connection, with TLS if it is served; nothing is read yet. Raises OSError."""
        if self._context is None:
            return accepted
        return self._context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)

    def _serve(self, connection: OpenConnection) -> None:
        exchanges = _Connection(connection, self._clock)
        exchanges.shake_hands()
        while self._reply(exchanges) and self._wait(exchanges):
            pass
        if exchanges.is_unread:
            self._open.enter(connection, Phase.IDLE)
            linger(connection.socket, self._clock)

    def _wait(self, connection: "_Connection") -> bool:
        """Wait for another request; return False if none comes, or the connection is closed in favour of a new one."""
        self._open.enter(connection.open, Phase.IDLE)
        has_begun = connection.wait(self._idle_seconds)
        return self._open.enter(connection.open, Phase.UNFINISHED) and has_begun

    def _reply(self, connection: "_Connection") -> bool:
        """Answer a request; return whether the connection can carry another."""
        client, is_stranger = Client(connection.open.address), self._context is not None
        try:
            request = connection.read_request()
            connection.open.credentials = request.header("authorization")
            is_stranger = is_stranger and not (request.certificate or connection.open.credentials)
            decided = self._decided(connection, request)
            client = _client_of(decided, request, connection.open.address)
            reply = self._served(connection, request, decided, client)
        except HttpStatusError as error:
            self._open.enter(connection.open, Phase.ANSWERED)
            reply = self._refusal(error)
        if isinstance(reply, Response):
            if is_stranger or reply.status in _REFUSED:
                self._hold_back(connection)
            with self._unsent.of(connection.open, client.name) as held:
                return connection.send(reply, held, keeps=self._idle_seconds > 0)
        return self._send_long(connection, reply, client)

    def _hold_back(self, connection: "_Connection") -> None:
        """Wait before an answer to a client without rights, if there were too many."""
        with self._refusals_lock:
            is_one_of_many = self._refusals.reserve(self._clock.monotonic()) > 0
            self._held_back += is_one_of_many
            share = self._held_back % _SHARES / _SHARES
        if is_one_of_many:
            self._open.enter(connection.open, Phase.IDLE)
            connection.pause(PAUSE_SECONDS * (1 + share))  # else all would go on at the same moment
            self._open.enter(connection.open, Phase.ANSWERED)

    def _decided(self, connection: "_Connection", request: Request) -> Admitted | Reply:
        """Return what the service decides on a request before its body is read."""
        if not self._takes_body(request):
            self._open.enter(connection.open, Phase.ANSWERED)
        try:
            with connection.time_out():
                return _guarded(partial(admit, self._service), request)
        except HttpStatusError as error:
            return self._refusal(error)

    def _served(self, connection: "_Connection", request: Request, decided: Admitted | Reply, client: Client) -> Reply:
        """Return the reply of the service, for which the body is read."""
        takes_body = self._takes_body(request)
        with self._unsent.of(connection.open, client.name) as held:
            if self._max_body and isinstance(decided, Admitted):
                most = min(self._max_body, decided.most_body or self._max_body)
                request = connection.read_body(request, most, held.grow)
            elif self._max_body:
                connection.skip_body(request)
            if takes_body:
                self._open.enter(connection.open, Phase.ANSWERED)
            if not isinstance(decided, Admitted):
                return decided
            return _guarded(decided.serve, msgspec.structs.replace(request, client=client))

    def _takes_body(self, request: Request) -> bool:
        return bool(self._max_body) and request.has_body

    def _send_long(self, connection: "_Connection", reply: Stream | Takeover, client: Client) -> bool:
        """Serve a stream or a takeover; return whether the connection can carry another request."""
        with contextlib.ExitStack() as stack:
            stack.callback(reply.done)
            held = stack.enter_context(self._unsent.of(connection.open, client.name))
            if not self._streams.acquire(client):
                attempt = f"of {self._streams.most} streams too many are open already"
                connection.send(self._refusal(HttpStatusError(503, attempt, hint="close one")), held)
                return False
            stack.callback(self._streams.release, client)
            self._open.enter(connection.open, Phase.STREAM)
            if isinstance(reply, Takeover):
                connection.open.is_upgraded = True
                reply.carry_on(connection.socket)
                return False
            return connection.send_stream(reply, held, keeps=self._idle_seconds > 0)


def _guarded(handler: Callable[[Request], _Result], request: Request) -> _Result:
    """Return the result of a handler. Raise HttpStatusError for any failure."""
    try:
        return handler(request)
    except HttpStatusError:
        raise
    except Exception:  # noqa: BLE001 - one path that fails must not end the server
        _log.exception("the handler of %s failed", request.path)
        raise HttpStatusError(500, "internal error", hint="see the log") from None


class _Connection:
    """A connection with its requests and the responses to them."""

    def __init__(self, connection: OpenConnection, clock: Clock) -> None:
        from beehive.http.server import ServerExchange  # noqa: PLC0415 - h11, with the first request

        self.open = connection
        self.socket = connection.socket
        self._address = peer_address(connection.socket)
        self._exchange = ServerExchange(MAX_HEAD)
        self._clock = clock
        self._deadline = connection.since + REQUEST_SECONDS
        self.is_unread = False
        """Whether the last response was sent before the request was read to its end; the sending side is open still."""

    def shake_hands(self) -> None:
        """Begin TLS, if it is served. Raise OSError when that fails."""
        if isinstance(self.socket, ssl.SSLSocket):
            self.socket.settimeout(max(self._seconds_left(), _INSTANT))
            self.socket.do_handshake()

    def read_request(self) -> Request:
        """Return the request, by its head. Raise HttpStatusError when it cannot be read."""
        request = read_request(self._exchange, self._receive)
        certificate = peer_certificate(self.socket) if isinstance(self.socket, ssl.SSLSocket) else None
        if certificate is None and not self._address:
            return request
        return msgspec.structs.replace(request, certificate=certificate, address=self._address)

    def read_body(self, request: Request, most: int, received: Callable[[int], None]) -> Request:
        """Return the request with its body. Raise HttpStatusError when it cannot be read.

        Args:
            request: its head.
            most: bytes of the body.
            received: is told the number of each further bytes.
        """

        def receive() -> bytes:
            data = self._receive()
            received(len(data))
            return data

        return read_body(request, self._exchange, receive, most, self.socket.sendall)

    def skip_body(self, request: Request) -> None:
        """Read the body of a request that is refused, if it is short and on its way, so that the connection can carry
        another one.
        """
        if request.header("expect") or request.header("transfer-encoding"):
            return
        with contextlib.suppress(HttpStatusError):
            read_body(request, self._exchange, self._receive, _SKIPPED_BYTES)

    @contextlib.contextmanager
    def time_out(self) -> Iterator[None]:
        """Leave the seconds that the context takes out of the request's own."""
        since = self._clock.monotonic()
        yield
        self._deadline += self._clock.monotonic() - since

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

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the connection is closed."""
        poll = select.poll()
        poll.register(self.socket, 0)  # POLLHUP is always reported
        poll.poll(seconds * 1000)

    def send(self, response: Response, held: HeldBytes, *, keeps: bool = False) -> bool:
        """Send a whole response, and end the connection's sending side unless it `keeps` the connection. Return whether
        another request can come.
        """
        self.socket.settimeout(REQUEST_SECONDS)
        headers = [("Content-Type", response.content_type)] if response.content_type else []
        headers.append(("Content-Length", str(len(response.body))))
        headers += [("Location", response.location)] if response.location else []
        headers += response.headers
        head = self._exchange.response(response.status, headers, keeps=keeps)
        first = head + self._exchange.data(response.body[:_COPIED_BYTES])
        if len(response.body) <= _COPIED_BYTES or self._exchange.is_head:
            self.socket.sendall(first + self._exchange.end())
            return self._keeps(keeps)
        held.hold(response.body)
        self.socket.sendall(first)
        for at in range(_COPIED_BYTES, len(response.body), _PIECE_BYTES):
            self.socket.sendall(self._exchange.data(response.body[at : at + _PIECE_BYTES]))
        self._exchange.end()
        return self._keeps(keeps)

    def send_stream(self, stream: Stream, held: HeldBytes, *, keeps: bool = False) -> bool:
        """Send a response in pieces; when the pieces raise, the connection closes without the last chunk. Return
        whether another request can come: clients that follow something, such as Python's of Kubernetes, let go of the
        socket of an answer with `Connection: close`, and could not end their watch.
        """
        peer = _SocketPeer(self.socket)
        head: StreamHead | Response = StreamHead(200, (("Content-Type", stream.content_type),))
        if stream.begin is not None:
            head = stream.begin(peer)
        if isinstance(head, Response):
            return self.send(head, held, keeps=keeps)
        self.socket.settimeout(STREAM_SECONDS)
        headers = [*head.headers, ("X-Content-Type-Options", "nosniff")]
        self.socket.sendall(self._exchange.response(head.status, headers, keeps=keeps))
        if not self._exchange.is_head:
            with contextlib.closing(stream.pieces(peer)) as pieces:
                for piece in pieces:
                    self._send_piece(piece, held)
                    del piece  # the next one may come in an hour
        self.socket.sendall(self._exchange.end())
        return self._keeps(keeps)

    def _send_piece(self, piece: bytes, held: HeldBytes) -> None:
        held.hold(piece)
        for at in range(0, len(piece), _CHUNK_BYTES):
            self.socket.sendall(self._exchange.data(piece[at : at + _CHUNK_BYTES]))
        held.hold(b"")

    def _receive(self) -> bytes:
        left = self._seconds_left()
        if left <= 0:
            raise HttpStatusError(400, "the request is not complete", hint=f"it has {REQUEST_SECONDS:g} s")
        self.socket.settimeout(left)
        return self.socket.recv(_READ_BYTES)

    def _seconds_left(self) -> float:
        return self._deadline - self._clock.monotonic()

    def _keeps(self, keeps: bool) -> bool:
        """Prepare for another request, if the connection is kept; else end its sending side."""
        if keeps and self._exchange.next_request():
            return True
        self.is_unread = self._exchange.is_unread
        if not self.is_unread:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        return False


def _name_of(listening: socket.socket) -> str:
    name = listening.getsockname()
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name)


def _client_of(decided: Admitted | Reply, request: Request, address: str) -> Client:
    """Return the client: as the service has authenticated it, or by its certificate or address. A program of this
    machine that has shown no certificate cannot be told from others.
    """
    if isinstance(decided, Admitted) and decided.client is not None:
        return decided.client
    if subject := (request.certificate or {}).get("subject"):
        return Client(str(subject), is_privileged=True)
    is_local = not address or ip_address(address.partition("/")[0]).is_loopback
    return Client("" if is_local else address, is_privileged=True)


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
        found = self._poll.poll(seconds * 1000)
        if wake is not None:
            self._poll.unregister(wake)  # the next wait may be for the client alone
        return any(ready == self._connection for ready, _ in found)


def _is_refused(each: OpenConnection, refused: Callable[[Mapping[str, Any] | None, str], bool]) -> bool:
    try:
        certificate = peer_certificate(each.socket) if isinstance(each.socket, ssl.SSLSocket) else None
        return refused(certificate, each.credentials)
    except (OSError, ValueError):  # it has just ended, or the handshake lasts
        return False
