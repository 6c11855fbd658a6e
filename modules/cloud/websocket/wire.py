"""The layer between a TCP connection and its websocket: plain, or TLS (`TlsStream`)."""

from collections.abc import Mapping
from typing import Any, Protocol


class Wire(Protocol):
    """The conversion of a TCP connection's bytes to bytes of the websocket in it. Never blocks; for one thread."""

    is_plain: bool
    """Whether the bytes are the same, and nobody needs to convert them."""

    def decrypt(self, data: bytes) -> bytes:
        """Return the plain bytes in received data, perhaps none yet.

        Raises:
            ssl.SSLError: TLS failed; `to_send` then returns the alert for the peer.
        """

    def encrypt(self, data: bytes) -> bytes:
        """Return plain bytes as they are sent."""

    def to_send(self) -> bytes:
        """Return the bytes that the layer itself sends."""

    @property
    def is_ended(self) -> bool:
        """Whether the peer has ended the stream."""

    def certificate(self) -> Mapping[str, Any] | None:
        """Return the peer's verified certificate (`beehive.sockets.tls`)."""


class PlainWire:
    """A wire without TLS."""

    is_plain = True
    is_ended = False

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
