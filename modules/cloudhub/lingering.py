"""Ending a TCP connection so that the peer gets to read the last that was sent to it.

Linux answers `close` with a reset when something of the peer's was not read, and the reset makes the peer throw away
what it has not read itself: the TLS alert or the refusal that says what is wrong. So what still comes is read first.
"""

import socket

_SECONDS = 1.0
_READS = 64
_SIZE = 64 * 1024


def end_gently(connection: socket.socket) -> None:
    """Says that nothing more will be sent, and reads until the peer ends too, for a second and 4 MiB at most.

    Blocks; the connection is still to be closed. Of a TLS socket, what is under it is ended.
    """
    try:
        socket.socket.shutdown(connection, socket.SHUT_WR)
        connection.settimeout(_SECONDS)
        for _ in range(_READS):
            if not socket.socket.recv(connection, _SIZE):
                return
    except OSError:
        return
