"""The bytes between this process and an API server: a socket, perhaps a proxy's tunnel, perhaps TLS."""

import os
import selectors
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import Final, TypeAlias

import h11

from modules.cloud.client.http.server_url import ServerUrl
from modules.cloud.client.http.tls import tls_reason
from modules.cloud.client.transport_errors import KubeConnectError, KubeCutError, KubeTlsError
from modules.cloud.tls_stream import TlsStream

SocketAddress: TypeAlias = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]

_READ: Final = 256 * 1024
"""Bytes of one `recv`."""
_TCP_OPTIONS: Final = {
    socket.TCP_NODELAY: 1,
    socket.TCP_KEEPIDLE: 15,
    socket.TCP_KEEPINTVL: 15,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 60_000,
}
"""A server that vanishes without closing the connection is noticed within a minute, by a stream and before the next
request.
"""
_CANNOT: Final = "cannot connect to the API server"

_MAX_HEAD: Final = 64 * 1024
_OK: Final = range(200, 300)


class _Phase(Enum):
    CONNECTING = auto()
    TUNNEL = auto()
    HANDSHAKE = auto()
    OPEN = auto()


class ProxyTunnel:
    """The CONNECT request of one connection (RFC 9110 §9.3.6), and its answer."""

    def __init__(self, server: ServerUrl) -> None:
        self._server = server
        self._protocol = h11.Connection(h11.CLIENT, _MAX_HEAD)
        headers = [("Host", server.address)]
        if server.proxy is not None and server.proxy.authorization:
            headers.append(("Proxy-Authorization", server.proxy.authorization))
        head = h11.Request(method="CONNECT", target=server.address, headers=headers)
        self.request: bytes = (self._protocol.send(head) or b"") + (self._protocol.send(h11.EndOfMessage()) or b"")
        """The bytes to send to the proxy."""
        self.is_open = False
        """Whether later bytes come from the server."""

    @property
    def rest(self) -> bytes:
        """The bytes that came after the proxy's answer."""
        return self._protocol.trailing_data[0]

    def receive(self, data: bytes) -> None:
        """Take bytes from the proxy.

        Raises:
            KubeConnectError: it refuses, or is no HTTP proxy.
        """
        try:
            self._protocol.receive_data(data)
            event = self._protocol.next_event()
            while isinstance(event, h11.InformationalResponse):
                event = self._protocol.next_event()
        except h11.RemoteProtocolError:
            raise self._refused("the proxy does not speak HTTP/1.1: check proxy-url") from None
        if isinstance(event, h11.Response):
            if event.status_code == 407:
                raise self._refused("the proxy wants a user: write http://USER:PASSWORD@HOST:PORT as proxy-url")
            if event.status_code not in _OK:
                raise self._refused(f"the proxy answers {event.status_code}: check what it may connect to")
            self.is_open = True

    def _refused(self, why: str) -> KubeConnectError:
        proxy = self._server.proxy.text if self._server.proxy else ""
        return KubeConnectError(f"cannot connect to the API server through the proxy {proxy}", self._server.text, why)


class NetworkStream:
    """A non-blocking connection, for the transport's thread only.

    Args:
        server: where to connect to.
        context: TLS; None for http.
        name: the server's certificate must be valid for it.
    """

    def __init__(self, server: ServerUrl, context: ssl.SSLContext | None, name: str) -> None:
        self._server = server
        self._context = context
        self._name = name
        self.socket: socket.socket | None = None
        """Another one after each address that did not answer."""
        self.is_ended = False
        """Whether the server sends nothing more."""
        self.is_unwritable = False
        """Whether the server receives nothing more; its answer can still be read."""
        self._phase = _Phase.CONNECTING
        self._addresses: deque[SocketAddress] = deque()
        self._tunnel: ProxyTunnel | None = None
        self._tls: TlsStream | None = None
        self._outgoing = bytearray()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._phase is _Phase.OPEN

    @property
    def wanted(self) -> int:
        """The selector's events that sending, or connecting, waits for."""
        return selectors.EVENT_WRITE if self._outgoing or self._phase is _Phase.CONNECTING else 0

    @property
    def unsent(self) -> int:
        """Bytes that wait for the socket."""
        return len(self._outgoing)

    def connect(self, addresses: Iterable[SocketAddress]) -> None:
        """Begin with the first address.

        Raises:
            KubeConnectError: there is no address that can be tried.
        """
        self._addresses = deque(addresses)
        self.try_next("its name has no address: check the server's URL and DNS")

    def try_next(self, why: str) -> None:
        """Leave an address that does not answer, for the next one.

        Raises:
            KubeConnectError: it was the last; with the reason.
        """
        while self._addresses:
            family, address = self._addresses.popleft()
            try:
                self._begin(family, address)
            except OSError as error:
                why = _why(error)
            else:
                return
        through = f" through the proxy {self._server.proxy.text}" if self._server.proxy else ""
        raise KubeConnectError(_CANNOT + through, self._server.text, why)

    def _begin(self, family: socket.AddressFamily, address: tuple[str, int] | tuple[str, int, int, int]) -> None:
        self.close()
        self._phase, self._tunnel, self._tls = _Phase.CONNECTING, None, None
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_OPTIONS.items():
            self.socket.setsockopt(socket.IPPROTO_TCP, option, value)
        with suppress(BlockingIOError):
            self.socket.connect(address)

    def on_writable(self) -> None:
        """Go on connecting, or sending.

        Raises:
            KubeConnectError: no address answers.
        """
        if self._phase is _Phase.CONNECTING and self.socket is not None:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.try_next(_why(OSError(code, os.strerror(code))))
                return
            self._connected()
        self.flush()

    def _connected(self) -> None:
        proxy = self._server.proxy
        if proxy is not None and self._context is not None:
            self._phase = _Phase.TUNNEL
            self._tunnel = ProxyTunnel(self._server)
            self._outgoing += self._tunnel.request
        else:
            self._secure()

    def _secure(self) -> None:
        if self._context is None:
            self._phase = _Phase.OPEN
            return
        self._phase = _Phase.HANDSHAKE
        self._tls = TlsStream(self._context, self._name)
        self._decrypt(self._tls, b"")

    def receive(self) -> bytes:
        """Return the plain bytes that came, perhaps none; then look at `is_ended`.

        Raises:
            KubeConnectError: the connection cannot be opened: the proxy or TLS refuses it.
            KubeCutError: the connection broke.
        """
        if self.socket is None or self._phase is _Phase.CONNECTING:
            return b""
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return b""
        except OSError as error:
            self._cut(_why(error))
        if not data:
            self.is_ended = True
            if not self.is_open:
                self._cut("the connection was closed while it was opened: check the server's URL and port")
            return b""
        return self._plain(data)

    def _plain(self, data: bytes) -> bytes:
        if self._tunnel is not None and self._phase is _Phase.TUNNEL:
            self._tunnel.receive(data)
            if not self._tunnel.is_open:
                return b""
            data = self._tunnel.rest
            self._secure()
        plain = data if self._tls is None else self._decrypt(self._tls, data)
        self.flush()
        return plain

    def _decrypt(self, tls: TlsStream, data: bytes) -> bytes:
        try:
            plain = tls.decrypt(data)
        except ssl.SSLError as error:
            self._outgoing += tls.to_send()
            self.flush()
            raise KubeTlsError("TLS to the API server failed", self._server.text, tls_reason(error)) from error
        self._outgoing += tls.to_send()
        if tls.is_established and self._phase is _Phase.HANDSHAKE:
            self._phase = _Phase.OPEN
        self.is_ended = self.is_ended or tls.is_ended
        return plain

    def send(self, data: bytes) -> None:
        """Send bytes of HTTP; only when open."""
        self._outgoing += data if self._tls is None else self._tls.encrypt(data)
        self.flush()

    def flush(self) -> None:
        """Write until the socket's buffer is full."""
        try:
            while self._outgoing and self.socket is not None:
                del self._outgoing[: self.socket.send(self._outgoing)]
        except BlockingIOError:
            return
        except OSError:
            self.is_unwritable = True
            self._outgoing.clear()

    def close(self) -> None:
        """Close the socket immediately."""
        self._outgoing.clear()
        if self.socket is not None:
            self.socket.close()

    def _cut(self, why: str) -> None:
        if self.is_open:
            raise KubeCutError("the connection to the API server broke", self._server.text, why)
        raise KubeConnectError(_CANNOT, self._server.text, why)


def _why(error: OSError) -> str:
    words = (error.strerror or type(error).__name__).lower()
    if isinstance(error, ConnectionRefusedError):
        return f"{words}: check that it runs, and the server's URL"
    return words
