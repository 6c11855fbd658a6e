"""The streaming server of the runtime: HTTP on the loopback interface, for exec, attach and port-forward.

CRI answers Exec, Attach and PortForward with an address that works once, within a minute; the client, or edged's
server in its name, connects to it. As with edged's HTTP server, one thread accepts and each connection has a thread:
they are outside the actor model, and block no module.
"""

import logging
import socket
import threading
from contextlib import suppress
from functools import partial
from typing import Final

from beehive import Clock
from beehive.accepting import accept_connection
from beehive.http.connections import OpenConnection, OpenConnections, Phase, address_of
from beehive.printable import clipped
from modules.runtimes.oci.streaming.backend import StreamingBackend
from modules.runtimes.oci.streaming.requests import (
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

_BACKLOG: Final = 1024
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
        self._threads: dict[OpenConnection, threading.Thread] = {}
        self._open = OpenConnections(
            "the runtime's streaming server", clock, MOST_CONNECTIONS, MOST_CONNECTIONS, _MOST_STREAMS
        )
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
        self._open.end_all()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
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
        while (accepted := accept_connection(self._listening, _REFUSED_SECONDS, self._open.end_one)) is not None:
            self._start_thread(accepted)

    def _start_thread(self, accepted: socket.socket) -> None:
        connection = self._open.accept(address_of(accepted), accepted)
        if connection is None:
            accepted.close()
            return
        thread = threading.Thread(target=self._serve, args=(connection,), name="stream", daemon=True)
        with self._lock:
            try:
                thread.start()
            except RuntimeError:
                _log.warning("there can be no more threads; a stream's connection is closed")
                self._open.remove(connection)
                accepted.close()
                return
            self._threads[connection] = thread

    def _serve(self, connection: OpenConnection) -> None:
        began = partial(self._open.enter, connection, Phase.STREAM)
        try:
            with connection.socket as accepted:
                # what speaks HTTP, SPDY and WebSocket: most nodes have no stream in days
                from modules.runtimes.oci.streaming.connection import StreamingConnection  # noqa: PLC0415

                StreamingConnection(accepted, self._waiting, self._backend, self._clock, began).serve()
        except (OSError, ValueError) as error:
            _log.info("a stream broke off: %s", clipped(str(error)))
        except Exception:  # noqa: BLE001 - a connection that fails must not end the server
            _log.exception("a stream failed")
        finally:
            self._open.remove(connection)
            with self._lock:
                self._threads.pop(connection, None)
