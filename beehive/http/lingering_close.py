"""The end of a connection whose client may still send."""

import socket
from contextlib import suppress
from typing import Final

from beehive.clock import Clock

LINGERING_SECONDS: Final = 5.0
"""Seconds that a client has to end its side."""
_MOST_BYTES: Final = 4 << 20
_READ_BYTES: Final = 64 * 1024


def linger(connection: socket.socket, clock: Clock) -> None:
    """End the sending side, and discard what comes until the client ends its own, for at most `LINGERING_SECONDS` and
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
