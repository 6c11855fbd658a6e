"""TLS to a broker."""

import ssl

from beehive.sockets.tls import TlsFiles, default_client_context


def client_context(files: TlsFiles, opened: list[ssl.SSLSocket]) -> ssl.SSLContext:
    """Return a context that verifies the broker and notes its sockets; an unreadable file is an OSError."""

    class RecordingSocket(ssl.SSLSocket):
        def do_handshake(self, block: bool = False) -> None:
            opened.append(self)
            super().do_handshake(block)

    for path in (files.authority, files.certificate, files.key):
        path.open("rb").close()
    context = default_client_context(cafile=str(files.authority))
    context.load_cert_chain(files.certificate, files.key)
    context.sslsocket_class = RecordingSocket
    return context
