"""A tunnel through an HTTP proxy (RFC 9110 §9.3.6)."""

from typing import Final

import h11

from modules.cloud.client.http.server_url import ServerUrl
from modules.cloud.client.transport_errors import KubeConnectError

_MAX_HEAD: Final = 64 * 1024
_OK: Final = range(200, 300)


class ProxyTunnel:
    """The CONNECT request of one connection, and its answer."""

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
