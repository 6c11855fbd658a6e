"""Who is being served by the certificate server, and who has to go: whoever connects is a stranger.

A request has one deadline, however slowly its bytes come. Where there is no room for one more connection, the oldest
whose request has not come whole ends: of the same address if that has many already, else of all. So those who drip hold
up nobody who says at once what he wants.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

import msgspec

MOST: Final = 64
"""Connections at a time."""
MOST_OF_ONE: Final = 16
"""Connections of one address: nodes behind one address translation join at the same time too."""
SECONDS: Final = 10.0
"""For a request, from the connection to its last byte, and to the end of its answer."""


class Guest(msgspec.Struct, eq=False):
    """One connection."""

    address: str
    socket: socket.socket
    began: float
    """Monotonic seconds."""
    is_answered: bool = False
    """Whether its request has come whole."""
    is_ended: bool = False

    def end(self) -> None:
        """Ends the connection, whatever its thread is waiting for."""
        self.is_ended = True
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class Guests:
    """All connections. Any thread.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._guests: dict[Guest, None] = {}

    def __len__(self) -> int:
        return len(self._guests)

    def come(self, address: str, accepted: socket.socket) -> Guest | None:
        """Takes a connection; None when there is no room for it."""
        guest = Guest(address, accepted, self._monotonic())
        with self._lock:
            if len(self._guests) >= 2 * MOST or not self._make_room(address):
                return None
            self._guests[guest] = None
        return guest

    def secured(self, guest: Guest, secure: socket.socket) -> None:
        """The connection has another socket object from now on; one that was ended meanwhile is ended anew."""
        guest.socket = secure
        if guest.is_ended:
            guest.end()

    def answered(self, guest: Guest) -> None:
        """Its request has come whole; it may take as long as before for the answer."""
        guest.is_answered = True
        guest.began = self._monotonic()

    def gone(self, guest: Guest) -> None:
        """Its thread has ended."""
        with self._lock:
            self._guests.pop(guest, None)

    def end_overdue(self) -> None:
        """Ends those that take too long."""
        now = self._monotonic()
        with self._lock:
            for guest in self._guests:
                if now - guest.began >= SECONDS:
                    guest.end()

    def _make_room(self, address: str) -> bool:
        present = [guest for guest in self._guests if not guest.is_ended]
        same = [guest for guest in present if guest.address == address]
        if len(same) >= MOST_OF_ONE:
            return _end_oldest(same)
        return len(present) < MOST or _end_oldest(present)


def _end_oldest(guests: list[Guest]) -> bool:
    """Ends the oldest that has not said what it wants; whether there was one."""
    for guest in guests:
        if not guest.is_answered:
            guest.end()
            return True
    return False
