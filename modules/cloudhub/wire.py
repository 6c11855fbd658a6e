"""What is between the bytes of a TCP connection and those of the websocket in it: nothing, or TLS done in memory.

In memory, because the connection's thread (see `server`) never waits for one of its connections; and because of its use
by nobody but that thread, there are no locks.
"""

import ssl
from collections.abc import Mapping
from typing import Any, Protocol

_RECORD = 16 * 1024
"""Bytes that one TLS record carries at most."""


class Wire(Protocol):
    """See the module's docstring."""

    def opened(self, data: bytes) -> bytes:
        """The plain bytes in what has come; perhaps none yet.

        Raises:
            ssl.SSLError: TLS failed; what `to_send` gives says so to the peer.
        """

    def sealed(self, data: bytes) -> bytes:
        """Plain bytes as they are sent."""

    def to_send(self) -> bytes:
        """What the wire itself has to say."""

    @property
    def ended(self) -> bool:
        """Whether the peer has said that nothing more will come."""

    def certificate(self) -> Mapping[str, Any] | None:
        """The peer's verified certificate, as `ssl.SSLSocket.getpeercert` gives it."""


class PlainWire:
    """No TLS."""

    ended = False

    def opened(self, data: bytes) -> bytes:
        """See `Wire`."""
        return data

    def sealed(self, data: bytes) -> bytes:
        """See `Wire`."""
        return data

    def to_send(self) -> bytes:
        """See `Wire`."""
        return b""

    def certificate(self) -> Mapping[str, Any] | None:
        """See `Wire`."""
        return None


class TlsWire:
    """TLS. It ends without TLS's good-bye, as a broken one does: messages are acknowledged, so nothing depends on it.

    Args:
        context: server-side TLS.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._established = False
        self.ended = False

    def opened(self, data: bytes) -> bytes:
        """See `Wire`."""
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

    def sealed(self, data: bytes) -> bytes:
        """See `Wire`. In more than one record where the client has asked for short ones (RFC 6066)."""
        with memoryview(data) as view:
            written = 0
            while written < len(view):
                written += self._tls.write(view[written : written + _RECORD])
        return self._outgoing.read()

    def to_send(self) -> bytes:
        """See `Wire`: its handshake, an alert, the answer to a new key."""
        return self._outgoing.read()

    def certificate(self) -> Mapping[str, Any] | None:
        """See `Wire`."""
        return self._tls.getpeercert()
