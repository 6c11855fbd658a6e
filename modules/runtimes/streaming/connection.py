"""A connection to the streaming server: its request, and the session that carries the streams."""

import base64
import hashlib
import socket
from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Final, NamedTuple

from beehive import Clock
from beehive.http.errors import HttpError
from beehive.http.lingering_close import linger
from beehive.http.server import RequestHead, ServerExchange
from modules.runtimes.streaming import channels, port_streams
from modules.runtimes.streaming.backend import StreamingBackend
from modules.runtimes.streaming.channels import CommandChannels, SpdyChannels, WebSocketChannels
from modules.runtimes.streaming.command_session import CommandSession
from modules.runtimes.streaming.link import SocketLink, TunnelLink
from modules.runtimes.streaming.port_session import PortForwardSession
from modules.runtimes.streaming.port_streams import PortStreams, SpdyPorts, WebSocketPorts
from modules.runtimes.streaming.requests import StreamRequest, WaitingRequests

HEAD_SECONDS: Final = 10.0
"""Seconds that a client has to send its request."""

_MOST_HEAD: Final = 16 * 1024
_READ_BYTES: Final = 16 * 1024

_SPDY: Final = "spdy/3.1"
_VERSIONS: Final = "x-stream-protocol-version"
_SUBPROTOCOLS: Final = "sec-websocket-protocol"
_GUID: Final = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_KEY_BYTES: Final = 16


class StreamingConnection:
    """One connection, which carries one request.

    Args:
        connection: accepted, closed by its owner.
        waiting: the requests whose addresses were given out.
        backend: runs commands and connects to ports.
        clock: for deadlines.
        places: for forwarded connections.
        began: called when an address that was given out has been asked for.
    """

    def __init__(
        self,
        connection: socket.socket,
        waiting: WaitingRequests,
        backend: StreamingBackend,
        clock: Clock,
        places: Semaphore,
        began: Callable[[], object] = lambda: None,
    ) -> None:
        self._places = places
        self._began = began
        self._connection = connection
        self._waiting = waiting
        self._backend = backend
        self._clock = clock
        self._exchange = ServerExchange(_MOST_HEAD)

    def serve(self) -> None:
        """Serve the request until its streams end, or refuse it. Raises OSError, ValueError."""
        try:
            head = self._head()
            check_upgrade(head)
            request = self._request(head.target)
            self._began()
            streams = upgrade(head, request, SocketLink(self._connection, self._exchange.rest))
        except (UpgradeError, HttpError) as error:
            self._refuse(error.status, str(error))
            return
        if streams.command is not None:
            CommandSession(streams.command, request, self._backend, self._clock).run()
        if streams.ports is not None:
            PortForwardSession(streams.ports, request.target, self._backend, self._clock, self._places).run()

    def _head(self) -> RequestHead:
        deadline = self._clock.monotonic() + HEAD_SECONDS

        def receive() -> bytes:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                raise HttpError(408, f"the request is not complete after {HEAD_SECONDS:g} s")
            self._connection.settimeout(left)
            return self._connection.recv(_READ_BYTES)

        return self._exchange.read_head(receive)

    def _request(self, target: str) -> StreamRequest:
        kind, _, token = target.partition("?")[0].lstrip("/").partition("/")
        request = self._waiting.pop(kind, token)
        if request is None:
            raise UpgradeError(404, "this address is not known; it works once, within a minute")
        return request

    def _refuse(self, status: int, reason: str) -> None:
        body = f"{reason}\n".encode()
        self._connection.settimeout(HEAD_SECONDS)
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        exchange = self._exchange
        self._connection.sendall(exchange.response(status, headers) + exchange.data(body) + exchange.end())
        if exchange.is_unread:
            linger(self._connection, self._clock)


class UpgradeError(Exception):
    """The client asks for streams in a way that is not spoken here; `status` is the answer's."""

    def __init__(self, status: int, reason: str) -> None:
        self.status = status
        super().__init__(reason)


class Upgraded(NamedTuple):
    """The streams of a request: one of both, by its kind."""

    command: CommandChannels | None = None
    ports: PortStreams | None = None


def check_upgrade(head: RequestHead) -> None:
    """Check that a request begins streams.

    Raises:
        UpgradeError: it does not.
    """
    wanted = head.header("upgrade").lower()
    if wanted not in (_SPDY, "websocket"):
        raise UpgradeError(400, "streams begin with an upgrade to SPDY/3.1 or websocket")
    if head.method not in ("GET", "POST"):
        raise UpgradeError(405, "streams begin with GET or POST")


def upgrade(head: RequestHead, request: StreamRequest, link: SocketLink) -> Upgraded:
    """Answer the request on its connection, and return the streams.

    Raises:
        UpgradeError: no common protocol; nothing has been answered.
    """
    is_ports = request.kind == "portforward"
    if head.header("upgrade").lower() == _SPDY:
        protocol = _chosen(head, _VERSIONS, port_streams.SPDY_PROTOCOLS if is_ports else channels.SPDY_PROTOCOLS)
        link.queue(_switching("SPDY/3.1", [(_VERSIONS, protocol)]))
        return Upgraded(ports=SpdyPorts(link)) if is_ports else Upgraded(SpdyChannels(link, protocol, request))
    from modules.runtimes.streaming.web_socket import WebSocketLink  # noqa: PLC0415 - see there

    spoken = port_streams.WEB_SOCKET_PROTOCOLS if is_ports else channels.WEB_SOCKET_PROTOCOLS
    protocol = _chosen(head, _SUBPROTOCOLS, spoken)
    link.queue(_switching("websocket", _web_socket_answer(head, protocol)))
    messages = WebSocketLink(link, protocol)
    if not is_ports:
        return Upgraded(WebSocketChannels(messages, request))
    if messages.subprotocol == port_streams.TUNNEL_PROTOCOL:
        return Upgraded(ports=SpdyPorts(TunnelLink(messages)))
    return Upgraded(ports=WebSocketPorts(messages, request.ports))


def _chosen(head: RequestHead, header: str, spoken: Sequence[str]) -> str:
    """Return the first protocol that both sides speak; the last one to a client that names none."""
    values = [value for name, value in head.headers if name == header]
    offered = {each.strip() for value in values for each in value.split(",")}
    if not offered:
        return spoken[-1]
    for each in spoken:
        if each in offered:
            return each
    raise UpgradeError(403, f"none of the protocols is spoken; these are: {', '.join(spoken)}")


def _web_socket_answer(head: RequestHead, protocol: str) -> list[tuple[str, str]]:
    """Return the headers of a WebSocket's handshake (RFC 6455 §4.2.2). Raises UpgradeError."""
    key = head.header("sec-websocket-key")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except ValueError:
        is_key = False
    if not is_key or head.header("sec-websocket-version") != "13" or head.method != "GET":
        raise UpgradeError(400, "this is no handshake of WebSocket version 13")
    proof = base64.b64encode(hashlib.sha1(f"{key}{_GUID}".encode(), usedforsecurity=False).digest()).decode()
    chosen = [(_SUBPROTOCOLS, protocol)] if head.header(_SUBPROTOCOLS) else []
    return [("sec-websocket-accept", proof), *chosen]


def _switching(protocol: str, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", f"Upgrade: {protocol}"]
    return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers), "", ""]).encode()
