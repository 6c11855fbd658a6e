"""Keys and requests as an edge makes them."""

from collections.abc import Collection, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from modules.cloud.cloudhub.certificates.authority import Authority, pem_of_key
from modules.cloud.identities.messages import KeyEnrolment
from modules.cloud.identities.peer import CertifiedPeer

NOW = 1795139667.25
"""2026-11-20T01:54:27Z"""
YEAR = 365 * 24 * 3600.0
OPENSSL_LAG = 1.0
"""Seconds to take from the time of a certificate that is used immediately: OpenSSL reads the time of the kernel's last
tick, up to 10 ms ago, so what was made just after a second began is not valid yet."""

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Unrefused:
    """Nodes of which none is refused (`EnrolledNodes`)."""

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = names

    def is_node(self, name: str) -> bool:
        return name in self._names

    def refusal_of(self, _peer: CertifiedPeer) -> str:
        return ""

    def enrol(self, _asked: KeyEnrolment) -> str:
        return ""


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def csr(
    node: str, key: Key | None = None, organizations: Sequence[str] = ("system:nodes",), prefix: str = "system:node:"
) -> bytes:
    """A request in DER, with the subject of KubeEdge's edgecore."""
    subject = [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "CN"),
        x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "Zhejiang"),
        x509.NameAttribute(NameOID.LOCALITY_NAME, "Hangzhou"),
        *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations),
        x509.NameAttribute(NameOID.COMMON_NAME, prefix + node),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    return builder.sign(key or new_key(), hashes.SHA256()).public_bytes(Encoding.DER)


def chain(authority: Authority, node: str, now: float, seconds: float) -> bytes:
    """A node's certificate and its key, PEM, in one."""
    key = new_key()
    der = authority.sign_node(csr(node, key), node, now - OPENSSL_LAG, seconds)
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM) + pem_of_key(key)
