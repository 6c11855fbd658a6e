"""The TLS context of a link. Imported only where a link is secure: `ssl` is 1.2 MB of memory.

Certificates are fetched and renewed elsewhere; here files are used that are there.
"""

import ssl
from pathlib import Path


def client_context(
    authority: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> ssl.SSLContext:
    """The context for a connection to the cloud: its certificate and name are checked, ours is shown.

    Args:
        authority: the cloud's CA as PEM; None for those the system trusts.
        certificate: this node's certificate as PEM; used when the file exists.
        key: of that certificate.

    Raises:
        OSError: a file cannot be read or is not what it should be (`ssl.SSLError` is one).
    """
    context = ssl.create_default_context(cafile=None if authority is None else str(authority))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None and certificate.exists():
        context.load_cert_chain(certificate, key)
    return context
