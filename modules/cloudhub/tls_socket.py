"""A server's TCP connection that speaks TLS and that two threads may use at once.

A link is read by one thread and written by another. OpenSSL's connection object is not made for that, and Python 3.11's
`SSLSocket` does not guard it; nor does a blocking `SSLSocket` heed a write timeout. So TLS is done in memory, under a
lock that is never held while the network is waited for, and the socket below stays an ordinary one. `websockets` takes
it for a plain socket: the handshake happens in its first `recv`, under its opening timeout.
"""

import logging
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import Any

from modules.cloudhub.lingering import end_gently

_log = logging.getLogger(__name__)
_RECORD = 16 * 1024
"""Bytes that one TLS record carries at most."""


class TlsListener(socket.socket):
    """A listening socket whose connections speak TLS.

    Args:
        listening: the ordinary one; taken over.
        context: server-side TLS.
    """

    def __init__(self, listening: socket.socket, context: ssl.SSLContext) -> None:
        super().__init__(fileno=listening.detach())
        self._context = context

    def accept(self) -> tuple["TlsSocket", Any]:
        """The next connection, with its handshake still to be done."""
        accepted, address = super().accept()
        return TlsSocket(accepted, self._context, str(address[0])), address


class TlsSocket(socket.socket):
    """One connection. `recv` is for one thread, everything else for any.

    It ends without TLS's good-bye, as a broken one does: messages are acknowledged, so nothing depends on it.

    Args:
        accepted: the TCP connection; taken over.
        context: server-side TLS.
        peer: whose it is, for the log.
    """

    def __init__(self, accepted: socket.socket, context: ssl.SSLContext, peer: str) -> None:
        super().__init__(fileno=accepted.detach())
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._peer = peer
        self._state = threading.Lock()
        """Held for each use of the three objects above."""
        self._order = threading.Lock()
        """Held from the sealing of bytes until they are sent: records must leave in the order of their making."""
        self._established = False

    def certificate(self) -> Mapping[str, Any] | None:
        """The client's verified certificate, as `ssl.SSLSocket.getpeercert` gives it."""
        with self._state:
            return self._tls.getpeercert()

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """What has come, at least a byte, perhaps more than `bufsize`; nothing at the end of the stream.

        All that is decrypted is given, since who waits for the socket to be readable does not see what is kept here.

        Raises:
            OSError: the connection is gone, or TLS failed (`ssl.SSLError`).
        """
        while True:
            try:
                data = self._opened()
            except ssl.SSLError as error:
                _log.info("%s: TLS failed: %s", self._peer, error)
                end_gently(self)
                raise
            if data is not None:
                return data
            sealed = super().recv(bufsize, flags)
            with self._state:
                if sealed:
                    self._incoming.write(sealed)
                else:
                    self._incoming.write_eof()

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        """Sends all of it.

        Raises:
            OSError: the connection is gone, or the send timeout is over.
        """
        with self._order, memoryview(data) as view:
            for at in range(0, len(view), _RECORD):
                super().sendall(self._sealed(view[at : at + _RECORD]), flags)

    def close(self) -> None:
        """Ends the connection; a thread in `recv` sees the end of the stream."""
        try:
            self.shutdown(socket.SHUT_RDWR)
        except OSError:
            _log.debug("%s: the connection was closed already", self._peer)
        super().close()

    def _opened(self) -> bytes | None:
        """The plain bytes of what has come; None when more must come first."""
        try:
            with self._state:
                if not self._established:
                    self._tls.do_handshake()
                    self._established = True
                return self._read_all()
        except ssl.SSLWantReadError:
            return None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        finally:
            self._send_pending()

    def _read_all(self) -> bytes:
        data = bytearray()
        while True:
            try:
                part = self._tls.read(_RECORD)
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError, ssl.SSLEOFError):
                if data:
                    return bytes(data)
                raise
            if not part:
                return bytes(data)
            data += part

    def _sealed(self, data: memoryview) -> bytes:
        """The records of some bytes; more than one where the client has asked for short ones (RFC 6066)."""
        with self._state:
            written = 0
            while written < len(data):
                written += self._tls.write(data[written:])
            return self._outgoing.read()

    def _send_pending(self) -> None:
        """Sends what TLS itself has to say: its handshake, an alert, the answer to a new key."""
        if self._outgoing.pending:
            with self._order:
                with self._state:
                    sealed = self._outgoing.read()
                super().sendall(sealed)
