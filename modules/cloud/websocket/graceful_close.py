"""Closing a TCP connection so that the peer can read the last bytes sent to it."""

import socket

_SECONDS = 1.0
_READS = 64
_SIZE = 64 * 1024


def close_gracefully(connection: socket.socket) -> None:
    """End the sending side, and read until the peer closes, for at most a second and 4 MiB.

    `close` with unread input makes Linux send a reset, and the peer then discards its unread input: the TLS alert or
    the refusal that states the reason. This function blocks; the caller closes the socket. It ends the TCP stream under
    a TLS socket.
    """
    try:
        socket.socket.shutdown(connection, socket.SHUT_WR)
        connection.settimeout(_SECONDS)
        for _ in range(_READS):
            if not socket.socket.recv(connection, _SIZE):
                return
    except OSError:
        return
