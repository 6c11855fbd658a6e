"""Explains failed TLS connections. Pure, but for the import of `ssl`.

OpenSSL's texts name the symptom ("certificate verify failed"). These name the certificate, clock or file, and the
remedy.
"""

import ssl
from typing import Final

# Codes of X509_verify_cert, see X509_STORE_CTX_get_error(3).
_UNKNOWN_AUTHORITY: Final = frozenset({2, 7, 18, 19, 20, 21, 24, 30})
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME: Final = frozenset({62, 63, 64})

_REASONS: Final = (
    ("UNKNOWN_CA", "the cloud does not know the CA that signed this node's certificate: join again"),
    ("CERTIFICATE_REQUIRED", "the cloud wants a certificate, and this node has none: join"),
    ("HANDSHAKE_FAILURE", "the cloud wants another kind of certificate, or none of the ciphers offered"),
    ("CERTIFICATE_EXPIRED", "the cloud says that this node's certificate has expired: join again"),
    ("CERTIFICATE_REVOKED", "the cloud has revoked this node's certificate: join again"),
    ("BAD_CERTIFICATE", "the cloud does not take this node's certificate: join again"),
    ("CERTIFICATE_UNKNOWN", "the cloud does not take this node's certificate: join again"),
    ("DECRYPT_ERROR", "the cloud knows another CA of the same name than the one that signed this node's certificate"),
    ("KEY_VALUES_MISMATCH", "the private key is not that of the certificate: join again"),
    ("WRONG_VERSION_NUMBER", "whoever listens there does not speak TLS: is the port right? cloudcore needs --tls"),
    ("RECORD_LAYER_FAILURE", "whoever listens there does not speak TLS: is the port right? cloudcore needs --tls"),
    ("NO_CERTIFICATE_OR_CRL_FOUND", "the CA file holds no certificate"),
    ("NO_START_LINE", "the certificate or key file is not PEM"),
    ("PEM_LIB", "the certificate or key file is not PEM"),
)  # fmt: skip


def explain(error: OSError) -> str:
    """Return a hint about the failure of a TLS connection; it ends with OpenSSL's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        meaning = _unverified(error.verify_code)
        return f"{meaning}: {error.verify_message}" if meaning else error.verify_message
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error).upper().replace(" ", "_")
        for part, meaning in _REASONS:
            if part in reason:
                return f"{meaning} ({reason})"
    if isinstance(error, FileNotFoundError):
        return f"a file is missing: {error.filename or 'CA, certificate or key'}"
    return str(error)


def is_about_time(error: BaseException | None) -> bool:
    """Return whether a certificate was refused because of its validity: then one of two clocks is wrong."""
    return isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in (_NOT_YET_VALID, _EXPIRED)


def _unverified(code: int) -> str:
    """Return the meaning of a verification code for the cloud's certificate; empty if unknown."""
    if code in _UNKNOWN_AUTHORITY:
        return "the cloud's certificate is signed by another CA than this node's CA file holds"
    if code == _NOT_YET_VALID:
        return "the cloud's certificate is not valid yet by this node's clock; is the clock behind?"
    if code == _EXPIRED:
        return "the cloud's certificate has expired by this node's clock; is the clock ahead?"
    if code in _WRONG_NAME:
        return "the address is not among the names in the cloud's certificate"
    return ""
