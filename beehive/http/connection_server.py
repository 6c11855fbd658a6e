"""A server on one socket: one thread accepts, and each connection has a thread, within the bounds of `OpenConnections`.

The threads are outside the actor model, so that a connection that blocks holds up no module.
"""

import logging
import socket
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Final

from beehive.http.connections import OpenConnection, OpenConnections, address_of
from beehive.on_failure import on_failure
from beehive.sockets.accepting import accept_connection

_log = logging.getLogger(__name__)

_STOP_SECONDS: Final = 5.0


class ConnectionServer(ABC):
    """A server that accepts and serves connections between `start` and `stop`.

    Args:
        listening: bound; closed by `stop`.
        connections: their bounds.
        name: of the accepting thread; it begins the names of the others.
    """

    def __init__(self, listening: socket.socket, connections: OpenConnections, name: str) -> None:
        self._listening = listening
        self._open = connections
        self._lock = threading.Lock()
        self._threads: dict[OpenConnection, threading.Thread] = {}
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)

    @property
    def port(self) -> int:
        """The TCP port that was bound."""
        return int(self._listening.getsockname()[1])

    def start(self) -> None:
        """Begin to serve. If the process may have no other thread, close the port."""
        with on_failure(self._listening.close):
            self._thread.start()

    def stop(self) -> None:
        """Close the port and cut the connections, which ends the commands of their clients."""
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

    @abstractmethod
    def _serve(self, connection: OpenConnection) -> None:
        """Serve a connection on its thread until it ends; the caller closes the socket. Raises OSError."""

    def _secured(self, accepted: socket.socket) -> socket.socket:
        """Return the connection to serve, such as a TLS socket; nothing is read yet. Raises OSError."""
        return accepted

    def _accept(self) -> None:
        while (accepted := accept_connection(self._listening, make_room=self._open.end_one)) is not None:
            try:
                self._start_thread(address_of(accepted), self._secured(accepted))
            except OSError:  # the client has disconnected
                accepted.close()
            except Exception:  # noqa: BLE001 - a connection that fails must not end the server
                _log.exception("%s cannot serve a connection", self._open.name)
                accepted.close()

    def _start_thread(self, address: str, accepted: socket.socket) -> None:
        """Serve a connection on a thread of its own, or close it."""
        connection = self._open.accept(address, accepted)
        if connection is None:
            accepted.close()
            return
        name = f"{self._thread.name}-connection"
        thread = threading.Thread(target=self._run, args=(connection,), name=name, daemon=True)
        with self._lock:
            try:
                thread.start()
            except RuntimeError:
                _log.warning("%s can have no more threads; a connection is closed", self._open.name)
                self._open.remove(connection)
                accepted.close()
                return
            self._threads[connection] = thread

    def _run(self, connection: OpenConnection) -> None:
        try:
            with connection.socket:
                self._serve(connection)
        except OSError:
            _log.debug("a connection to %s broke", self._open.name, exc_info=True)
        except Exception:  # noqa: BLE001 - a connection that fails must not end the server
            _log.exception("a connection to %s failed", self._open.name)
        finally:
            self._open.remove(connection)
            with self._lock:
                self._threads.pop(connection, None)
