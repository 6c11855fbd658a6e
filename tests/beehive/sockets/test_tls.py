"""The certificate of the other end of a connection."""

import socket
import ssl

import pytest

from beehive.sockets.tls import peer_certificate


def test_a_connection_whose_handshake_lasts_has_no_certificate_yet() -> None:
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with (
        theirs,
        context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False) as connection,
        pytest.raises(ValueError, match="handshake"),
    ):
        peer_certificate(connection)


def test_a_connection_that_another_thread_has_closed_is_an_error_of_a_connection() -> None:
    """An AttributeError of `ssl` ended cloudcore's module of identities in the middle of a lockout."""
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with theirs, context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False) as connection:
        connection.close()
        with pytest.raises(OSError, match="not connected"):
            peer_certificate(connection)
