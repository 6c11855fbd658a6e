"""TLS: the default context of a client, and the certificate of the other end."""

import errno
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

DER: Final = "der"
"""The item with the whole certificate, which `getpeercert` leaves out."""


class TlsFiles(msgspec.Struct, frozen=True):
    """The files of a client's authority, certificate and key, in PEM."""

    authority: Path
    certificate: Path
    key: Path


def default_client_context(cafile: str | None = None, cadata: bytes | None = None) -> "ssl.SSLContext":
    """Return `ssl.create_default_context` with VERIFY_X509_PARTIAL_CHAIN and without VERIFY_X509_STRICT, which
    Python 3.13 both added to it.

    An authority may be an intermediate one, as for Go's crypto/x509. With VERIFY_X509_STRICT, a server's certificate
    needs an Authority Key Identifier (RFC 5280, section 4.2.1.1). KubeEdge's edgecore and kubelets verify with Go's
    crypto/x509, which does without, and there are clouds, brokers and registries whose certificates have none: a newer
    Python would part a node from its cloud.

    Args:
        cafile: file of authorities in PEM; None, without `cadata` too, for the system's trust.
        cadata: authorities in DER.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def peer_certificate(connection: "ssl.SSLSocket | ssl.SSLObject") -> Mapping[str, Any] | None:
    """Return the peer's verified certificate in the form of `ssl.SSLSocket.getpeercert`, and as DER in the item `der`;
    None without one.

    Raises:
        OSError: the connection is closed, perhaps by another thread meanwhile.
        ValueError: the handshake lasts.
    """
    try:
        found = connection.getpeercert()
        return {**found, DER: connection.getpeercert(binary_form=True)} if found else None
    except AttributeError:  # an SSLSocket that is closed has lost its SSLObject
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN)) from None
