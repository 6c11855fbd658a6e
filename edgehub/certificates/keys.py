"""The key of a certificate, its request, and the check of the result. No other file of edgehub needs `cryptography`."""

from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import NameOID

from edgehub.certificates.rules import SUBJECT, common_name
from edgehub.errors import AuthorityError, RefusedError

_OIDS: Final = {
    "C": NameOID.COUNTRY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "L": NameOID.LOCALITY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
}


class NodeKey:
    """A node's ECDSA key on P-256, like KubeEdge's.

    Args:
        pems: PEM; the first that is such a key is used again. Without any, a new key is made.
    """

    def __init__(self, *pems: bytes) -> None:
        self._key = next(filter(None, map(_loaded, pems)), None) or ec.generate_private_key(ec.SECP256R1())

    def pem(self) -> bytes:
        """Return the key as PEM (`EC PRIVATE KEY`)."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    def request(self, node: str) -> bytes:
        """Return a certificate signing request (DER) with KubeEdge's subject and no other names."""
        names = [x509.NameAttribute(_OIDS[name], value) for name, value in SUBJECT]
        names.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name(node)))
        request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
        return request.sign(self._key, hashes.SHA256()).public_bytes(Encoding.DER)

    def check(self, certificate: bytes, authorities: list[bytes]) -> None:
        """Check that a certificate is for this key and signed by one of these CAs; all are DER.

        Raises:
            RefusedError: it is no certificate, or for another key.
            AuthorityError: another CA has signed it.
        """
        try:
            issued = x509.load_der_x509_certificate(certificate)
            ours = issued.public_key() == self._key.public_key()
        except (ValueError, UnsupportedAlgorithm) as error:
            raise RefusedError(
                "the cloud's answer is no certificate", f"{len(certificate)} bytes", str(error)
            ) from error
        if not ours:
            raise RefusedError("the cloud signed a key other than ours", hint="see the cloud's log")
        if not any(_signed(issued, authority) for authority in authorities):
            by = issued.issuer.rfc4514_string()
            raise AuthorityError("the certificate is signed by another CA than the cloud's", by, "see the cloud's log")


def is_key(pem: bytes) -> bool:
    """Return whether a text has a private key that is not encrypted (PEM)."""
    try:
        load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _loaded(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1) else None


def _signed(issued: x509.Certificate, authority: bytes) -> bool:
    try:
        issued.verify_directly_issued_by(x509.load_der_x509_certificate(authority))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
