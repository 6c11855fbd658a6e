"""The client connections of the certificate server."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

import msgspec

MAX_CONNECTIONS: Final = 64
"""Maximum of open connections."""
MAX_CONNECTIONS_PER_ADDRESS: Final = 16
"""Maximum of open connections of one address; several nodes may be behind one address translation."""
REQUEST_TIMEOUT: Final = 10.0
"""Seconds from the start of the connection to the end of the request, and from there to the end of the response."""


class ClientConnection(msgspec.Struct, eq=False):
    """One client's connection."""

    address: str
    socket: socket.socket
    since: float
    """Monotonic seconds of the start of the present phase: the request, or the response."""
    is_answered: bool = False
    """Whether the whole request was received."""
    is_ended: bool = False

    def end(self) -> None:
        """Ends the connection, also while its thread waits for it."""
        self.is_ended = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class ClientConnections:
    """The open connections, bounded in number and time, as any client may connect. Thread-safe.

    A request has one deadline, however slowly its bytes arrive. When a new connection exceeds a limit, the oldest
    connection without a whole request is ended: of the same address if that has reached its limit, otherwise of all. So
    slow clients do not block fast ones.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._guests: dict[ClientConnection, None] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def accept(self, address: str, accepted: socket.socket) -> ClientConnection | None:
        """Adds an accepted connection, or returns None above the limits."""
        guest = ClientConnection(address, accepted, self._monotonic())
        with self._lock:
            if len(self._guests) >= 2 * MAX_CONNECTIONS or not self._make_room(address):
                return None
            self._guests[guest] = None
        return guest

    def replace_socket(self, guest: ClientConnection, secure: socket.socket) -> None:
        """Replaces the socket by its TLS socket; ends it if the connection was ended meanwhile."""
        guest.socket = secure
        if guest.is_ended:
            guest.end()

    def answered(self, guest: ClientConnection) -> None:
        """Records that the whole request was received, and starts the deadline of the response."""
        guest.is_answered = True
        guest.since = self._monotonic()

    def remove(self, guest: ClientConnection) -> None:
        """Removes a connection whose thread has ended."""
        with self._lock:
            self._guests.pop(guest, None)

    def end_overdue(self) -> None:
        """Ends the connections that have missed their deadline."""
        now = self._monotonic()
        with self._lock:
            for guest in self._guests:
                if now - guest.since >= REQUEST_TIMEOUT:
                    guest.end()

    def _make_room(self, address: str) -> bool:
        present = [guest for guest in self._guests if not guest.is_ended]
        same = [guest for guest in present if guest.address == address]
        if len(same) >= MAX_CONNECTIONS_PER_ADDRESS:
            return _end_oldest(same)
        return len(present) < MAX_CONNECTIONS or _end_oldest(present)


def _end_oldest(guests: list[ClientConnection]) -> bool:
    """Ends the oldest connection without a whole request; returns whether there was one."""
    for guest in guests:
        if not guest.is_answered:
            guest.end()
            return True
    return False
