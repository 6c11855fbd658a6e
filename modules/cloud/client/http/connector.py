"""Opening connections to an API server."""

import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from modules.cloud.client.http.connection import HttpConnection
from modules.cloud.client.http.network_stream import NetworkStream, SocketAddress
from modules.cloud.client.http.resolver import Resolver
from modules.cloud.client.http.server_url import ServerUrl
from modules.cloud.client.transport_errors import KubeConnectError

if TYPE_CHECKING:
    from beehive.clock import Timer

CONNECT_SECONDS: Final = 10.0
"""Timeout for one address: TCP, the proxy's tunnel and TLS."""

Attempt = Callable[[HttpConnection, Callable[[], None]], None]
"""Calls a function of a connection, whose error ends the connection."""
After = Callable[[float, Callable[[], None]], "Timer"]
"""Calls a function on the transport's thread after some seconds."""


class Connector:
    """Opens connections, and remembers those that are not open yet; for the transport's thread only.

    Args:
        server: the server to connect to.
        name: the name that its certificate must have.
        resolver: finds the addresses.
        attempt: carries on with a connection.
        after: sets timers.
    """

    def __init__(self, server: ServerUrl, name: str, resolver: Resolver, attempt: Attempt, after: After) -> None:
        self._server = server
        self._name = name
        self._resolver = resolver
        self._attempt = attempt
        self._after = after
        self._timers: dict[HttpConnection, Timer] = {}

    def new(self, context: ssl.SSLContext | None) -> HttpConnection:
        """Return a connection that is not opened yet."""
        return HttpConnection(NetworkStream(self._server, context, self._name), context, self._server.text)

    def open(self, connection: HttpConnection) -> None:
        """Look up the addresses and connect."""
        self._resolver.resolve(
            lambda found, why: self._attempt(connection, lambda: self._connect(connection, found, why))
        )

    def check(self, connection: HttpConnection) -> None:
        """Forget the deadline of a connection that is open, or closed."""
        if connection.network.is_open or connection.is_closed:
            timer = self._timers.pop(connection, None)
            if timer is not None:
                timer.cancel()

    def _connect(self, connection: HttpConnection, found: list[SocketAddress], why: str) -> None:
        if why:
            raise KubeConnectError("cannot connect to the API server", self._server.text, why)
        self._limit(connection)
        connection.network.connect(found)

    def _limit(self, connection: HttpConnection) -> None:
        self._timers[connection] = self._after(
            CONNECT_SECONDS, lambda: self._attempt(connection, lambda: self._late(connection))
        )

    def _late(self, connection: HttpConnection) -> None:
        if not connection.network.is_open:
            self._limit(connection)
            why = f"no answer within {CONNECT_SECONDS:g} s: check the server's URL, routes and firewalls"
            connection.network.try_next(why)
