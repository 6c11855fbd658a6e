"""A TCP connection's bytes as bytes of the websocket in it, without TLS; `TlsStream` is the one with it."""

from collections.abc import Mapping
from typing import Any


class PlainWire:
    """A wire without TLS, with the methods of `TlsStream`."""

    is_plain = True
    """Whether the bytes are the same, and nobody needs to convert them."""
    is_ended = False
    """Whether the peer has ended the stream."""

    def decrypt(self, data: bytes) -> bytes:
        """Return the data."""
        return data

    def encrypt(self, data: bytes) -> bytes:
        """Return the data."""
        return data

    def to_send(self) -> bytes:
        """Return no bytes."""
        return b""

    def certificate(self) -> Mapping[str, Any] | None:
        """Return None."""
        return None
