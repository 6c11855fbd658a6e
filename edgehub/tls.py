"""The TLS context of a link, from existing files; `edgehub.certificates` fetches and renews them."""

import ssl
from pathlib import Path

from beehive.sockets.tls import default_client_context


def client_context(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> "ssl.SSLContext":
    """Return the context of a connection that verifies the cloud's certificate and name and presents the node's.

    Args:
        authority: file of the cloud's CA (PEM); None for the system's trust.
        certificate: file of this node's certificate (PEM); used if it exists.
        key: file of its private key (PEM).

    Raises:
        OSError: a file cannot be read, or has other contents (`ssl.SSLError` is an OSError).
    """
    context = default_client_context(cafile=None if authority is None else str(authority))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None and certificate.exists():
        context.load_cert_chain(certificate, key)
    return context
