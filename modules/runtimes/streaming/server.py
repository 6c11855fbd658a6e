"""The streaming server of the runtime: HTTP on the loopback interface, for exec, attach and port-forward.

CRI answers Exec, Attach and PortForward with an address that works once, within a minute; the client, or edged's
server in its name, connects to it.
"""

import logging
import socket
import threading
from contextlib import ExitStack
from typing import Final

from beehive import Clock
from beehive.http.connection_server import ConnectionServer
from beehive.http.connections import OpenConnection, OpenConnections, Phase
from beehive.printable import clipped
from modules.runtimes.streaming.backend import StreamingBackend
from modules.runtimes.streaming.requests import (
    StreamRequest,
    WaitingRequests,
    attach_request,
    exec_request,
    port_forward_request,
)
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64
"""At one time, beside streams. The oldest that has not asked for an address makes room for a new one."""
_MOST_STREAMS: Final = 128
"""At one time, and requests whose streams have not begun."""
_MOST_FORWARDED: Final = 384
"""Connections to ports of pods, of all clients at a time; each takes a descriptor of this process."""

_BACKLOG: Final = 1024


class StreamingServer(ConnectionServer):
    """The server of streams from the first address that it gives until `stop`: most nodes have none in days, and no
    port.

    Args:
        backend: runs commands and connects to ports; called on the connections' threads.
        clock: for deadlines and tokens.
    """

    def __init__(self, backend: StreamingBackend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._waiting = WaitingRequests(clock)
        self._places = threading.Semaphore(_MOST_FORWARDED)
        connections = OpenConnections(
            "the runtime's streaming server", clock, MOST_CONNECTIONS, MOST_CONNECTIONS, _MOST_STREAMS
        )
        self._starting = threading.Lock()
        self._is_started = False
        with ExitStack() as failing:
            listening = failing.enter_context(socket.socket())
            listening.bind(("127.0.0.1", 0))
            failing.pop_all()
        super().__init__(listening, connections, "streaming")

    def start(self) -> None:
        """Begin to listen and to serve, if that has not begun. Raises OSError."""
        with self._starting:
            if not self._is_started:
                self._listening.listen(_BACKLOG)
                super().start()
                self._is_started = True

    def exec_url(self, request: cri.ExecRequest) -> str:
        """Return the address of a command's streams. Raises BadRequestError, TooManyError."""
        return self._url(exec_request(request))

    def attach_url(self, request: cri.AttachRequest) -> str:
        """Return the address of a container's streams. Raises BadRequestError, TooManyError."""
        return self._url(attach_request(request))

    def port_forward_url(self, request: cri.PortForwardRequest) -> str:
        """Return the address of a sandbox's ports. Raises BadRequestError, TooManyError."""
        return self._url(port_forward_request(request))

    def _url(self, request: StreamRequest) -> str:
        self.start()
        token = self._waiting.add(request)
        return f"http://127.0.0.1:{self.port}/{request.kind}/{token}"

    def _serve(self, connection: OpenConnection) -> None:
        # what speaks HTTP, SPDY and WebSocket: most nodes have no stream in days
        from modules.runtimes.streaming.connection import StreamingConnection  # noqa: PLC0415

        def began() -> None:
            connection.is_upgraded = True
            self._open.enter(connection, Phase.STREAM)

        try:
            StreamingConnection(
                connection.socket, self._waiting, self._backend, self._clock, self._places, began
            ).serve()
        except (OSError, ValueError) as error:
            _log.info("a stream broke off: %s", clipped(str(error)))
