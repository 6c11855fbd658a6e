"""edgecore's connections to a shim: the one it was started with, and later ones of a restarted edgecore."""

import contextlib
import os
import select
import socket
from collections.abc import Callable
from typing import Any

from modules.runtimes.shim.protocol import receive, send

_DESCRIPTOR_LIMIT = 5
"""A streamed command has so many: its arguments, its exit code, and three streams."""

Handler = Callable[["Connection", dict[str, Any], list[int]], None]
"""Handles one request and owns its descriptors."""


class Poller:
    """poll(2) with a table of callbacks."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, Callable[[], None]] = {}

    def add(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever `descriptor` can be read or its other side has closed."""
        self._callbacks[descriptor] = callback
        self._poll.register(descriptor, select.POLLIN)

    def remove(self, descriptor: int) -> None:
        """Forget `descriptor`; to be called before it is closed."""
        del self._callbacks[descriptor]
        self._poll.unregister(descriptor)

    def wait(self, seconds: float) -> None:
        """Wait for the next events, `seconds` at most, and call back for each."""
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if callback := self._callbacks.get(descriptor):
                callback()


class Connection:
    """The connection to one edgecore; closed as soon as the other side closes, or does not read."""

    def __init__(
        self, sock: socket.socket, poller: Poller, handler: Handler, on_close: Callable[["Connection"], None]
    ) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._poller = poller
        self._handler = handler
        self._on_close = on_close
        poller.add(sock.fileno(), self._read)

    def send(self, message: dict[str, Any]) -> None:
        """Send `message`, or close the connection: a shim never waits, and edgecore finds the same facts in the
        records.
        """
        if self._sock.fileno() < 0:
            return
        try:
            send(self._sock, message)
        except OSError:
            self._close()

    def _read(self) -> None:
        try:
            received = receive(self._sock, _DESCRIPTOR_LIMIT)
        except BlockingIOError:  # the event was of an earlier connection, whose descriptor this one has got
            return
        except (OSError, ValueError):
            received = None
        if received is None:
            self._close()
        else:
            self._handler(self, *received)

    def _close(self) -> None:
        self._poller.remove(self._sock.fileno())
        self._sock.close()
        self._on_close(self)


class Connections:
    """The open connections, and the listening socket that accepts new ones."""

    def __init__(
        self, listener: socket.socket, poller: Poller, handler: Handler, on_close: Callable[[Connection], None]
    ) -> None:
        self._listener = listener
        self._poller = poller
        self._handler = handler
        self._on_close = on_close
        self._open: set[Connection] = set()
        self._greeting: dict[str, Any] | None = None
        listener.settimeout(0)
        poller.add(listener.fileno(), self._accept)

    def add(self, sock: socket.socket) -> Connection:
        """Serve one more socket."""
        connection = Connection(sock, self._poller, self._handler, self._forget)
        self._open.add(connection)
        return connection

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send `message` to all connections."""
        for connection in tuple(self._open):
            connection.send(message)

    def announce(self, message: dict[str, Any]) -> None:
        """Send `message` to all connections, and to each later one first."""
        self._greeting = message
        self.broadcast(message)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection = self.add(self._listener.accept()[0])
            if self._greeting is not None:
                connection.send(self._greeting)

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._on_close(connection)


def close_all(descriptors: list[int]) -> None:
    """Close the descriptors of a request."""
    for descriptor in descriptors:
        os.close(descriptor)
