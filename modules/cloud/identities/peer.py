"""The certificate that has proved a client's identity."""

import hashlib
import ssl
from collections.abc import Mapping
from typing import Any

import msgspec

from beehive.sockets.tls import DER
from modules.cloud.identities.node_identity import node_in


class CertifiedPeer(msgspec.Struct, frozen=True):
    """The fields of a client certificate that decide on its acceptance."""

    serial: str
    """The serial number in upper-case hexadecimal digits, as `openssl x509 -serial` prints it."""
    begins: float
    """Start of its validity, in seconds since the epoch: the second of its issue."""
    node: str = ""
    """The node's name; "" for another user."""
    user: str = ""
    """The common name."""
    key: str = ""
    """The SHA-256 of the public key (SubjectPublicKeyInfo), in hexadecimal digits."""
    ends: float = 0.0
    """Seconds since the epoch until which it is valid."""


def read_peer(certificate: Mapping[str, Any] | None) -> CertifiedPeer | None:
    """Return the fields of a verified client certificate; None without one.

    Args:
        certificate: as `peer_certificate` returns it.
    """
    if not certificate:
        return None
    names = [str(value) for pairs in certificate.get("subject", ()) for key, value in pairs if key == "commonName"]
    begins, ends = certificate.get("notBefore"), certificate.get("notAfter")
    return CertifiedPeer(
        normal_serial(str(certificate.get("serialNumber", ""))),
        ssl.cert_time_to_seconds(str(begins)) if begins else 0.0,
        node_in(certificate),
        names[0] if len(names) == 1 else "",
        _key_of(certificate.get(DER)),
        ssl.cert_time_to_seconds(str(ends)) if ends else 0.0,
    )


def normal_serial(text: str) -> str:
    """Return a serial number as `CertifiedPeer.serial` has it, whether with colons, with `0x`, or in lower case.

    Raises:
        ValueError: it is not hexadecimal, or has more than 20 bytes (RFC 5280).
    """
    digits = text.strip().replace(":", "").upper().removeprefix("0X")
    if not digits or len(digits) > 40 or not set(digits) <= set("0123456789ABCDEF"):
        raise ValueError("a serial number has up to 40 hexadecimal digits")
    return digits.lstrip("0") or "0"


def fingerprint(public_key: bytes) -> str:
    """Return the identity of a public key (SubjectPublicKeyInfo in DER)."""
    return hashlib.sha256(public_key).hexdigest()


def _key_of(der: bytes | None) -> str:
    if not der:
        return ""
    from cryptography import x509  # noqa: PLC0415 - 17 MB; a cloudcore with TLS has it
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    key = x509.load_der_x509_certificate(der).public_key()
    return fingerprint(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
