"""The layer between a TCP connection and its websocket: plain, or TLS."""

import ssl
from collections.abc import Mapping
from typing import Any, Protocol

_RECORD = 16 * 1024
"""Bytes that one TLS record carries at most."""


class Wire(Protocol):
    """Converts the bytes of a TCP connection to those of the websocket in it. Never blocks; for one thread."""

    def decrypt(self, data: bytes) -> bytes:
        """Returns the plain bytes in received data, perhaps none yet.

        Raises:
            ssl.SSLError: TLS failed; `to_send` then returns the alert for the peer.
        """

    def encrypt(self, data: bytes) -> bytes:
        """Returns plain bytes as they are sent."""

    def to_send(self) -> bytes:
        """Returns the bytes that the layer itself sends."""

    @property
    def ended(self) -> bool:
        """Whether the peer has ended the stream."""

    def certificate(self) -> Mapping[str, Any] | None:
        """Returns the peer's verified certificate in the form of `ssl.SSLSocket.getpeercert`."""


class PlainWire:
    """A wire without TLS."""

    ended = False

    def decrypt(self, data: bytes) -> bytes:
        """Returns the data."""
        return data

    def encrypt(self, data: bytes) -> bytes:
        """Returns the data."""
        return data

    def to_send(self) -> bytes:
        """Returns no bytes."""
        return b""

    def certificate(self) -> Mapping[str, Any] | None:
        """Returns None."""
        return None


class TlsWire:
    """TLS in memory, so that the server's thread never waits for one connection.

    It sends no `close_notify`: messages are acknowledged, so a truncated stream loses nothing.

    Args:
        context: server-side TLS.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        self.ended = False

    def decrypt(self, data: bytes) -> bytes:
        """Returns the plain bytes in received data; see `Wire`."""
        self._incoming.write(data)
        plain = bytearray()
        try:
            if not self._established:
                self._tls.do_handshake()
                self._established = True
            while part := self._tls.read(_RECORD):
                plain += part
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.ended = True
        return bytes(plain)

    def encrypt(self, data: bytes) -> bytes:
        """Returns plain bytes as TLS records: several when the client has asked for short ones (RFC 6066)."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += self._tls.write(view[written : written + _RECORD])
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """Returns handshake records, alerts and key updates."""
        return self._outgoing.read()

    def certificate(self) -> Mapping[str, Any] | None:
        """Returns the verified client certificate."""
        return self._tls.getpeercert()
