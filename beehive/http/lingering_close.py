"""The end of a connection whose client may still send."""

import fcntl
import select
import socket
import struct
import termios
from contextlib import suppress
from typing import Final

from beehive.clock import Clock

LINGERING_SECONDS: Final = 5.0
"""Seconds that a client has to end its side."""
_MOST_BYTES: Final = 4 << 20
_READ_BYTES: Final = 64 * 1024
_LOOK_SECONDS: Final = 0.5
"""Seconds after which the kernel is asked again how much the peer has taken: no event tells that."""
_RESET: Final = struct.pack("ii", 1, 0)
_NOWHERE: Final = bytes(16)
"""An address of the family AF_UNSPEC."""


def linger(connection: socket.socket, clock: Clock) -> None:
    """End the sending side, and discard all bytes until the client ends its own, for at most `LINGERING_SECONDS` and
    4 MiB.

    `close` with unread input makes Linux send a reset (RFC 1122 §4.2.2.13), and the client then loses its unread input:
    the refusal of a request whose body it is still sending. This function blocks; the caller closes the socket. It ends
    the TCP stream under a TLS socket.
    """
    deadline = clock.monotonic() + LINGERING_SECONDS
    count = 0
    with suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_WR)
        while count < _MOST_BYTES and (left := deadline - clock.monotonic()) > 0:
            connection.settimeout(left)
            if not (data := socket.socket.recv(connection, _READ_BYTES)):
                return
            count += len(data)


def linger_for_reader(connection: socket.socket, clock: Clock, patience: float) -> None:
    """Discard all bytes until the peer ends its side: for `LINGERING_SECONDS` once it has taken all that was sent, and
    before, until it has taken nothing for `patience` seconds; in all at most 4 MiB.

    A peer that reads slowly leaves megabytes in the kernel's buffer. If it sends something meanwhile, such as a ping,
    and the connection is closed already, the kernel answers with a reset and drops them. The sending side has been
    ended; the caller closes the socket. This function blocks.
    """
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    count, least = 0, undelivered(connection)
    deadline = clock.monotonic() + (patience if least else LINGERING_SECONDS)
    with suppress(OSError):
        while count < _MOST_BYTES and (left := deadline - clock.monotonic()) > 0:
            if poll.poll(min(left, _LOOK_SECONDS) * 1000):
                if not (data := socket.socket.recv(connection, _READ_BYTES)):
                    return
                count += len(data)
            if (waiting := undelivered(connection)) < least:
                least = waiting
                deadline = clock.monotonic() + (patience if least else LINGERING_SECONDS)


def undelivered(connection: socket.socket) -> int:
    """Return the sent bytes that the peer's kernel has not confirmed, or a peer on a unix socket has not read; 0 after
    an error (tcp(7), SIOCOUTQ).
    """
    with suppress(OSError):
        return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), "little")
    return 0


def reset_at_close(connection: socket.socket) -> None:
    """Have the connection reset when it is closed, so that its peer takes what has come for no whole; a unix socket is
    only closed.
    """
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def reset_now(connection: socket.socket) -> bool:
    """Reset a TCP connection, also while threads wait for it, and return whether that was possible: an end by
    `shutdown` would be as polite as that of a whole stream. connect(2) with AF_UNSPEC dissolves the association.
    """
    import ctypes  # noqa: PLC0415 - when a server stops that has streams

    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    return bool(ctypes.CDLL(None).connect(connection.fileno(), _NOWHERE, len(_NOWHERE)) == 0)
