"""The certificate of the other end of a TLS connection."""

import ssl
from collections.abc import Mapping
from typing import Any, Final

DER: Final = "der"
"""The item with the whole certificate, which `getpeercert` leaves out."""


def peer_certificate(connection: ssl.SSLSocket | ssl.SSLObject) -> Mapping[str, Any] | None:
    """Return the peer's verified certificate in the form of `ssl.SSLSocket.getpeercert`, and as DER in the item `der`;
    None without one.
    """
    found = connection.getpeercert()
    return {**found, DER: connection.getpeercert(binary_form=True)} if found else None
