"""One end of TLS in memory, for sockets that never block."""

import ssl
from collections.abc import Mapping
from typing import Any, Final

from beehive.sockets.tls import peer_certificate

_RECORD: Final = 16 * 1024
"""Bytes that one TLS record carries at most."""
_LEAST: Final = 1024
"""Bytes that are read at least, if they are there."""


class TlsStream:
    """The TLS of a TCP connection: the conversion of its bytes to plain ones, and back. Never blocks; for one thread.

    It sends no `close_notify`: HTTP/1.1 and websocket messages carry their own length.

    Args:
        context: TLS of a client or of a server.
        name: the name that the server's certificate must have; None at the server's end.
    """

    is_plain = False

    def __init__(self, context: ssl.SSLContext, name: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=name is None, server_hostname=name)
        self.is_established = False
        """Whether the handshake is over."""
        self.is_ended = False
        """Whether the peer has ended TLS."""

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes in received data, or none while the handshake lasts.

        Raises:
            ssl.SSLError: TLS failed; `to_send` then returns the alert for the peer.
        """
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self.is_established:
                self._tls.do_handshake()
                self.is_established = True
            size = min(_RECORD, max(len(data), _LEAST))  # as many are allocated
            while part := self._tls.read(size):
                plain += part
                if not (self._incoming.pending or self._tls.pending()):  # a read that has to wait raises an exception
                    return bytes(plain)
            self.is_ended = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.is_ended = True
        return bytes(plain)

    def encrypt(self, data: bytes) -> bytes:
        """Return plain bytes as TLS records: several when the peer has asked for short ones (RFC 6066)."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += self._tls.write(view[written : written + _RECORD])
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """Return handshake records, alerts and key updates."""
        return self._outgoing.read()

    def certificate(self) -> Mapping[str, Any] | None:
        """Return the peer's verified certificate (`beehive.sockets.tls`)."""
        return peer_certificate(self._tls)
