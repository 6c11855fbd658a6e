"""The streaming server of the runtime: HTTP on the loopback interface, for exec, attach and port-forward.

CRI answers Exec, Attach and PortForward with an address that works once, within a minute; the client, or edged's
server in its name, connects to it. As with edged's HTTP server, one thread accepts and each connection has a thread:
they are outside the actor model, and block no module.
"""

import logging
import socket
import threading
from contextlib import suppress
from typing import Final

from beehive import Clock
from beehive.accepting import accept_connection
from beehive.printable import clipped
from edged.oci.streaming.backend import StreamingBackend
from edged.oci.streaming.requests import (
    StreamRequest,
    WaitingRequests,
    attach_request,
    exec_request,
    port_forward_request,
)
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 128
"""At one time; further ones are closed."""

_BACKLOG: Final = 64
_STOP_SECONDS: Final = 5.0
_REFUSED_SECONDS: Final = 5.0


class StreamingServer:
    """Serves streams between `start` and `stop`.

    Args:
        backend: runs commands and connects to ports; called on the connections' threads.
        clock: for deadlines and tokens.
    """

    def __init__(self, backend: StreamingBackend, clock: Clock) -> None:
        self._backend = backend
        self._clock = clock
        self._waiting = WaitingRequests(clock)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, threading.Thread] = {}
        self._thread = threading.Thread(target=self._accept, name="streaming", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port and cut the connections; commands whose clients are cut end."""
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join()
        self._listening.close()
        with self._lock:
            open_ones = list(self._connections.items())
            for connection, _ in open_ones:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for _, thread in open_ones:
            thread.join(_STOP_SECONDS)

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
        token = self._waiting.add(request)
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}/{request.kind}/{token}"

    def _accept(self) -> None:
        while (connection := accept_connection(self._listening, _REFUSED_SECONDS)) is not None:
            self._start_thread(connection)

    def _start_thread(self, connection: socket.socket) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="stream", daemon=True)
        with self._lock:
            if len(self._connections) >= MOST_CONNECTIONS:
                _log.warning("%d streams are open already; a connection is closed", MOST_CONNECTIONS)
                connection.close()
                return
            try:
                thread.start()
            except RuntimeError:
                _log.warning("there can be no more threads; a stream's connection is closed")
                connection.close()
                return
            self._connections[connection] = thread

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                # what speaks HTTP, SPDY and WebSocket: most nodes have no stream in days
                from edged.oci.streaming.connection import StreamingConnection  # noqa: PLC0415

                StreamingConnection(connection, self._waiting, self._backend, self._clock).serve()
        except (OSError, ValueError) as error:
            _log.info("a stream broke off: %s", clipped(str(error)))
        except Exception:  # noqa: BLE001 - a connection that fails must not end the server
            _log.exception("a stream failed")
        finally:
            with self._lock:
                self._connections.pop(connection, None)
