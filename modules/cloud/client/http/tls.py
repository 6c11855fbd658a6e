"""TLS to an API server: contexts, and failures in plain words."""

import ssl
import tempfile
from typing import Final

from modules.cloud.client.credentials.source import RequestCredentials
from modules.cloud.client.kubeconfig.model import ClusterEntry
from modules.cloud.client.transport_errors import KubeTlsError

_CA: Final = "check certificate-authority(-data) of the cluster"
_VERIFY: Final = {
    7: f"the server's certificate is signed by an authority that is not trusted: {_CA}",
    9: "the server's certificate is not valid yet: check both clocks",
    10: "the server's certificate has expired: renew it, or check this machine's clock",
    18: f"the server's certificate is signed by itself, not by a trusted authority: {_CA}",
    19: f"the server's certificate is signed by an authority that is not trusted: {_CA}",
    20: f"the server's certificate is signed by an authority that is not trusted: {_CA}",
    62: "the server's certificate is for another name: set tls-server-name to one of its names",
    64: "the server's certificate is for another address: set tls-server-name to one of its names",
}
"""OpenSSL's X509_V_ERR codes."""
_REASONS: Final = {
    "WRONG_VERSION_NUMBER": "the server does not speak TLS on this port: check the server's URL",
    "HTTP_REQUEST": "the server does not speak TLS on this port: check the server's URL",
    "CERTIFICATE_REQUIRED": "the server asks for a client certificate: set client-certificate and client-key",
    "UNKNOWN_CA": "the server does not trust the authority of the client certificate: check client-certificate",
    "BAD_CERTIFICATE": "the server refuses the client certificate: check client-certificate",
    "CERTIFICATE_EXPIRED": "the client certificate has expired: renew it",
    "CERTIFICATE_UNKNOWN": "the server refuses the client certificate: check client-certificate",
}
"""The ends of OpenSSL's names, as for alerts: TLSV13_ALERT_CERTIFICATE_REQUIRED."""


def client_context(cluster: ClusterEntry, credentials: RequestCredentials, server: str) -> ssl.SSLContext:
    """Return TLS for one cluster as one user; certificate and key are on the disk only while OpenSSL reads them.

    Raises:
        KubeTlsError: an authority, certificate or key cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go's crypto/x509, and Python from 3.13 on
    context.set_alpn_protocols(["http/1.1"])
    try:
        _trust(context, cluster)
    except (OSError, ValueError) as error:
        why = f"no certificates in certificate-authority(-data): {_short(error)}"
        raise KubeTlsError("cannot set up TLS to the API server", server, why) from error
    if credentials.certificate:
        try:
            _load(context, credentials)
        except (OSError, ValueError) as error:
            why = f"client-certificate and client-key are not a PEM pair without a password: {_short(error)}"
            raise KubeTlsError("cannot set up TLS to the API server", server, why) from error
    return context


def _trust(context: ssl.SSLContext, cluster: ClusterEntry) -> None:
    if cluster.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif cluster.certificate_authority_data:
        context.load_verify_locations(cadata=cluster.certificate_authority_data.decode("latin-1"))
    elif cluster.certificate_authority:
        context.load_verify_locations(cafile=cluster.certificate_authority)
    else:
        context.load_default_certs()


def _load(context: ssl.SSLContext, credentials: RequestCredentials) -> None:
    """Have a context read credentials out of a file, which `tempfile` makes for its user only."""
    with tempfile.NamedTemporaryFile(prefix="cloudcore-") as file:
        file.write(credentials.certificate + b"\n" + credentials.key)
        file.flush()
        context.load_cert_chain(file.name, password=lambda: b"")


def tls_reason(error: ssl.SSLError) -> str:
    """Return the reason for a TLS error, with advice."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _VERIFY.get(error.verify_code, f"{error.verify_message}: {_CA}")
    reason = error.reason or ""
    words = reason.replace("_", " ").lower() or _short(error)
    return next((text for end, text in _REASONS.items() if reason.endswith(end)), words)


def _short(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or "not PEM").replace("_", " ").lower()
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "not PEM"
