"""A connection to the streaming server: its request, and the session that carries the streams."""

import socket
from collections.abc import Callable
from typing import Final

from beehive import Clock
from beehive.http.errors import HttpError
from beehive.http.server import RequestHead, ServerExchange
from modules.runtimes.oci.streaming.backend import StreamingBackend
from modules.runtimes.oci.streaming.command_session import CommandSession
from modules.runtimes.oci.streaming.link import SocketLink
from modules.runtimes.oci.streaming.port_session import PortForwardSession
from modules.runtimes.oci.streaming.requests import StreamRequest, WaitingRequests
from modules.runtimes.oci.streaming.upgrade import UpgradeError, check_upgrade, upgrade

HEAD_SECONDS: Final = 10.0
"""Seconds that a client has to send its request."""

_MOST_HEAD: Final = 16 * 1024
_READ_BYTES: Final = 16 * 1024


class StreamingConnection:
    """One connection, which carries one request.

    Args:
        connection: accepted, closed by its owner.
        waiting: the requests whose addresses were given out.
        backend: runs commands and connects to ports.
        clock: for deadlines.
        began: called when an address that was given out has been asked for.
    """

    def __init__(
        self,
        connection: socket.socket,
        waiting: WaitingRequests,
        backend: StreamingBackend,
        clock: Clock,
        began: Callable[[], object] = lambda: None,
    ) -> None:
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
            PortForwardSession(streams.ports, request.target, self._backend, self._clock).run()

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
        request = self._waiting.take(kind, token)
        if request is None:
            raise UpgradeError(404, "this address is not known; it works once, within a minute")
        return request

    def _refuse(self, status: int, reason: str) -> None:
        body = f"{reason}\n".encode()
        self._connection.settimeout(HEAD_SECONDS)
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        exchange = self._exchange
        self._connection.sendall(exchange.response(status, headers) + exchange.data(body) + exchange.end())
