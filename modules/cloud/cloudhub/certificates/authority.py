"""The certificate authority.

Its certificates have the fields that a recorded KubeEdge cloudcore gives (`tests/recordings/today/00-register.jsonl`);
a test compares them. Keys and serial numbers are secrets, and so come from the operating system's randomness and not
from the clock's.
"""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from modules.cloud.authentication.rsa_bounds import LEAST_BITS, MOST_BITS, is_within_bounds
from modules.cloud.authentication.users import is_reserved
from modules.cloud.cloudhub.certificates.errors import RequestRefusedError
from modules.cloud.coordination.known_cloudcores import CLOUDCORES_ORGANIZATION
from modules.cloud.identities.node_identity import NODES_ORGANIZATION, common_name_of
from modules.cloud.identities.peer import fingerprint

_NAME = "KubeEdge"
_SERIAL = 1024
_LONG = timedelta(days=364 * 100)
"""The validity of the CA's and the server's certificates: KubeEdge's hundred years have 364 days."""
_SERVER = ExtendedKeyUsageOID.SERVER_AUTH
_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_SPKI = PublicFormat.SubjectPublicKeyInfo
_BACKDATED = 3600
"""How many seconds before it was made a certificate of the cloud begins: the clock of who checks it may be behind.
Certificates of nodes and administrators begin when they are made, since revocations and replacements go by that time.
"""
_SIGNING = "cannot sign the certificate request"
_Key = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey


class Authority:
    """A CA certificate and its key.

    KubeEdge signs any name in a request. Here a node gets only its own name, and only for client authentication:
    otherwise a node's token would allow it to be another node, or the cloud.
    """

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, now: float) -> "Authority":
        """Return a new, self-signed authority; `now` in seconds since the epoch."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
        builder = (
            _builder(name, name, key.public_key(), now - _BACKDATED, _LONG)
            .serial_number(_SERIAL)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_SERVER, _CLIENT]), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(builder.sign(key, hashes.SHA256()), key)

    @property
    def certificate(self) -> x509.Certificate:
        """The CA certificate."""
        return self._certificate

    @property
    def der(self) -> bytes:
        """The CA certificate in DER, as nodes fetch it."""
        return self._certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> str:
        """The CA certificate in PEM, as nodes ask for it over the link."""
        return self._certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> bytes:
        """The private key in PEM (`EC PRIVATE KEY`)."""
        return pem_of_key(self._key)

    @property
    def token_key(self) -> bytes:
        """The key that signs tokens: the private key in DER, SEC 1."""
        return self._key.private_bytes(Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption())

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Return whether this authority has signed a certificate."""
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def make_server_certificate(self, names: Sequence[str], now: float) -> tuple[bytes, bytes]:
        """Return a new certificate for the servers, and its key, both PEM.

        Args:
            names: addresses and DNS names of the cloud.
            now: seconds since the epoch.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = self._issue(_subject(_NAME, _NAME), key.public_key(), now - _BACKDATED, _LONG, _SERVER)
        return self._signed(builder.add_extension(alternatives, critical=False)), pem_of_key(key)

    def make_administrator_certificate(self, user: str, now: float) -> tuple[bytes, bytes]:
        """Return a new client certificate of a member of `system:masters`, valid for a year, and its key, both PEM.

        Args:
            user: the common name, at most 64 characters.
            now: seconds since the epoch.

        Raises:
            ValueError: the name is empty or too long.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject("system:masters", user)
        builder = self._issue(subject, key.public_key(), now, timedelta(days=365), _CLIENT)
        return self._signed(builder), pem_of_key(key)

    def make_cloudcore_certificate(self, identity: str, now: float) -> tuple[bytes, bytes]:
        """Return a new client certificate of a cloudcore, valid for a day, and its key, both PEM.

        Args:
            identity: of the process, the common name, at most 64 characters.
            now: seconds since the epoch.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(CLOUDCORES_ORGANIZATION, identity)
        begins, life = now - _BACKDATED, timedelta(days=1, seconds=_BACKDATED)
        return self._signed(self._issue(subject, key.public_key(), begins, life, _CLIENT)), pem_of_key(key)

    def key_in(self, request: bytes, node: str) -> str:
        """Return the fingerprint of the key in a node's certificate request.

        Raises:
            RequestRefusedError: as `sign_node`.
        """
        return fingerprint(_key_in(_checked(request, node)).public_bytes(Encoding.DER, _SPKI))

    def sign_node(self, request: bytes, node: str, now: float, seconds: float) -> bytes:
        """Sign a node's certificate request.

        Args:
            request: a PKCS #10 request in DER.
            node: the node's name, which the request must have.
            now: seconds since the epoch.
            seconds: the certificate's validity.

        Returns:
            The certificate in DER.

        Raises:
            RequestRefusedError: it is not a request, is for another name, or has too weak a key.
        """
        key = _key_in(_checked(request, node))
        subject = _subject(NODES_ORGANIZATION, common_name_of(node))
        return self._signed(self._issue(subject, key, now, timedelta(seconds=seconds), _CLIENT), Encoding.DER)

    def sign_client(self, request: bytes, now: float, seconds: float) -> bytes:
        """Sign the certificate request of a client of the API server, with the name and the groups that it asks for.

        Nodes, cloudcores and administrators have names that Kubernetes and KubeEdge reserve, and ways of their own to
        certificates: those names are refused here, whoever has approved the request.

        Args:
            request: a PKCS #10 request in PEM.
            now: seconds since the epoch.
            seconds: the certificate's validity.

        Returns:
            The certificate in PEM.

        Raises:
            RequestRefusedError: it is not a request, has no name or a reserved one, or has too weak a key.
        """
        try:
            der = x509.load_pem_x509_csr(request).public_bytes(Encoding.DER)
        except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
            raise RequestRefusedError(_SIGNING, f"{len(request)} bytes", "not a PKCS #10 request in PEM") from error
        csr = _read_request(der)
        return self._signed(
            self._issue(_client_subject(csr), _check_key(csr), now, timedelta(seconds=seconds), _CLIENT)
        )

    def _signed(self, builder: x509.CertificateBuilder, encoding: Encoding = Encoding.PEM) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(encoding)

    def _issue(
        self,
        subject: x509.Name,
        key: _Key,
        now: float,
        life: timedelta,
        usage: x509.ObjectIdentifier,
    ) -> x509.CertificateBuilder:
        return (
            _builder(subject, self._certificate.subject, key, now, life)
            .serial_number(secrets.randbits(62) + 1)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_issuer_key(self._certificate), critical=False)
        )


def _subject(organization: str, name: str) -> x509.Name:
    names = ((NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, name))
    return x509.Name([x509.NameAttribute(of, value) for of, value in names])


def _issuer_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """Return how certificates name their issuer's key. One of version 1, as `openssl x509 -req -signkey` made them, has
    no name for it.
    """
    try:
        identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM (`EC PRIVATE KEY`, as KubeEdge writes keys)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def normal_names(names: Sequence[str]) -> set[str]:
    """Return names and addresses in the form of `names_in`.

    Raises:
        ValueError: one is neither an address nor in ASCII.
    """
    return {str(_general_name(name).value) for name in names}


def names_in(certificate: x509.Certificate) -> set[str]:
    """Return the addresses and DNS names in a server's certificate."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(name.value) for name in names}


def _builder(subject: x509.Name, issuer: x509.Name, key: _Key, now: float, life: timedelta) -> x509.CertificateBuilder:
    begins = datetime.fromtimestamp(int(now), UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    return builder.not_valid_before(begins).not_valid_after(begins + life)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _read_request(request: bytes) -> x509.CertificateSigningRequest:
    """Return a parsed request with a valid signature, of a key that is not too large to check it.

    The subject is read once here: the parser is lazy, and a signed request may contain a malformed one.
    """
    try:
        csr = x509.load_der_x509_csr(request)
        _check_key(csr)
        valid = csr.is_signature_valid
        _ = csr.subject
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise RequestRefusedError(_SIGNING, f"{len(request)} bytes", "not a PKCS #10 request in DER") from error
    if not valid:
        raise RequestRefusedError(_SIGNING, "its signature is wrong", "the sender does not have the key")
    return csr


def _checked(request: bytes, node: str) -> x509.CertificateSigningRequest:
    csr = _read_request(request)
    _check_subject(csr, node)
    return csr


def _key_in(csr: x509.CertificateSigningRequest) -> ec.EllipticCurvePublicKey:
    key = csr.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise RequestRefusedError(_SIGNING, "the key", "an ECDSA key of 256 bits or more is wanted")
    return key


def _check_key(csr: x509.CertificateSigningRequest) -> _Key:
    """Return the key of a request, which OpenSSL's usual commands may have made; nothing is verified with others.

    Raises:
        RequestRefusedError: it is weak, large or of another kind.
    """
    key = csr.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= 256:
        return key
    if isinstance(key, rsa.RSAPublicKey) and is_within_bounds(key.key_size, key.public_numbers().e):
        return key
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    kinds = f"Ed25519, ECDSA of 256 bits or more, or RSA of {LEAST_BITS} to {MOST_BITS} bits"
    raise RequestRefusedError(_SIGNING, "the key", f"{kinds} is wanted")


def _client_subject(csr: x509.CertificateSigningRequest) -> x509.Name:
    """Return the name and the groups in a request, without what else it may have in its subject."""
    names, groups = (
        [str(each.value) for each in csr.subject.get_attributes_for_oid(oid)]
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    )
    if len(names) != 1:
        raise RequestRefusedError(_SIGNING, "the subject", "one common name is wanted, which is the user's")
    if reserved := next(filter(is_reserved, (*names, *groups)), ""):
        raise RequestRefusedError(_SIGNING, f"{reserved[:253]} is reserved", "users and groups have other names")
    try:
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups]
        return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    except ValueError as error:  # an empty name
        raise RequestRefusedError(_SIGNING, "the subject", str(error)) from error


def _check_subject(csr: x509.CertificateSigningRequest, node: str) -> None:
    organizations = [str(name.value) for name in csr.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    names = [str(name.value) for name in csr.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    wanted = common_name_of(node)
    if organizations != [NODES_ORGANIZATION] or names != [wanted]:
        got = ascii(f"O={','.join(organizations)}, CN={','.join(names)}"[:300])
        hint = f"node {node} gets O={NODES_ORGANIZATION}, CN={wanted} only"
        raise RequestRefusedError(_SIGNING, f"wrong node: the request is for {got}", hint)
