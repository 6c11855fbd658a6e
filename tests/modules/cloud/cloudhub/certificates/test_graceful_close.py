"""The end of a connection whose peer reads everything."""

import socket

from modules.cloud.cloudhub.certificates.https import close_gracefully


def test_the_peer_reads_the_last_and_then_the_end() -> None:
    """Before the connection is closed: a peer that waits for the end would wait for the close otherwise."""
    server, peer = socket.socketpair()
    with server, peer:
        server.sendall(b"refused")
        peer.sendall(b"what nobody reads")
        peer.shutdown(socket.SHUT_WR)
        close_gracefully(server)
        peer.settimeout(10)
        assert (peer.recv(100), peer.recv(100)) == (b"refused", b"")
        assert server.recv(100) == b"", "all of the peer's was read, so closing resets nothing"
