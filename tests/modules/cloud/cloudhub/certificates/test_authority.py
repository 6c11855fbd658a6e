"""What the authority makes and refuses."""

import json
import os
import re
import ssl
import stat
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID, NameOID

from modules.cloud.cloudhub.certificates.authority import Authority, names_in
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, load_authority, open_authority
from modules.cloud.cloudhub.certificates.errors import AuthorityError, RequestRefusedError
from tests.modules.cloud.cloudhub.certificates.made import NOW, YEAR, Key, csr, new_key
from tests.modules.traces import recordings

AUTHORITY = Authority.create(NOW)
NAMES = ("localhost", "127.0.0.1")


def recorded() -> dict[str, x509.Certificate]:
    """The CA, the server's and the node's certificate of the recorded registration."""
    found: dict[str, x509.Certificate] = {}
    path = next(path for path in recordings("today") if path.name.startswith("00-register"))
    asked = ""
    for step in map(json.loads, path.read_text().splitlines()):
        if step["kind"] == "http-request":
            asked = step["line"].split()[1]
        elif step["kind"] == "http-response" and step["listener"] == "https":
            found[asked] = x509.load_der_x509_certificate(b64decode(step["body"]["b64"]))
        elif "server_cert_pem" in step:
            found["server"] = x509.load_pem_x509_certificate(step["server_cert_pem"].encode())
    return found


def shape(certificate: x509.Certificate) -> dict[str, Any]:
    """Every field but what is drawn by lot."""
    drawn = (x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier)
    return {
        "version": certificate.version,
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "life": certificate.not_valid_after_utc - certificate.not_valid_before_utc,
        "signature": certificate.signature_algorithm_oid,
        "curve": getattr(certificate.public_key(), "curve", None).__class__,
        "extensions": [
            (extension.oid, extension.critical, None if isinstance(extension.value, drawn) else extension.value)
            for extension in certificate.extensions
        ],
    }


def node_certificate(node: str = "lab-edge") -> x509.Certificate:
    return x509.load_der_x509_certificate(AUTHORITY.sign_node(csr(node), node, NOW, YEAR))


def test_every_field_of_the_three_certificates_is_as_recorded() -> None:
    """Subject, issuer, life, usages and names equal KubeEdge's cloudcore's; serial 1024 for the CA."""
    real = recorded()
    server = x509.load_pem_x509_certificate(AUTHORITY.make_server_certificate(NAMES, NOW)[0])
    assert shape(AUTHORITY.certificate) == shape(real["/ca.crt"])
    assert AUTHORITY.certificate.serial_number == real["/ca.crt"].serial_number == 1024
    assert shape(server) == shape(real["server"])
    assert shape(node_certificate()) == shape(real["/edge.crt"])


def test_a_certificate_begins_now_and_ends_with_its_life() -> None:
    """The time is the one handed in, without fractions."""
    certificate = node_certificate()
    assert certificate.not_valid_before_utc == datetime(2026, 11, 20, 1, 54, 27, tzinfo=UTC)
    assert certificate.not_valid_after_utc == certificate.not_valid_before_utc + timedelta(days=365)
    administrator = x509.load_pem_x509_certificate(AUTHORITY.make_administrator_certificate("a", 1_000_000.5)[0])
    assert administrator.not_valid_before_utc.timestamp() == 1_000_000, "revocations go by it"


def test_the_clouds_own_certificates_begin_an_hour_before_now() -> None:
    """A node with a clock behind accepts them; OpenSSL's own is behind by some milliseconds."""
    made = Authority.create(1_000_000.5)
    server = x509.load_pem_x509_certificate(made.make_server_certificate(NAMES, 1_000_000.5)[0])
    assert {each.not_valid_before_utc.timestamp() for each in (made.certificate, server)} == {996_400}


def test_serial_numbers_differ_and_are_positive_64_bit() -> None:
    serials = {node_certificate().serial_number for _ in range(20)}
    assert len(serials) == 20
    assert all(0 < serial < 1 << 63 for serial in serials)


def test_the_certificate_is_for_the_key_of_the_request() -> None:
    key = new_key()
    der = AUTHORITY.sign_node(csr("n1", key), "n1", NOW, YEAR)
    assert x509.load_der_x509_certificate(der).public_key() == key.public_key()
    assert AUTHORITY.has_signed(x509.load_der_x509_certificate(der))
    assert not Authority.create(NOW).has_signed(x509.load_der_x509_certificate(der))


@pytest.mark.parametrize(
    ("request_der", "reason"),
    [
        (csr("n2"), "wrong node: the request is for 'O=system:nodes, CN=system:node:n2"),
        (csr("n1", prefix=""), "wrong node"),
        (csr("n1", organizations=("system:masters",)), "O=system:masters"),
        (csr("n1", organizations=("system:nodes", "system:masters")), "wrong node"),
        (csr("n1", organizations=()), "wrong node"),
        (csr("n1", rsa.generate_private_key(65537, 2048)), "ECDSA"),
        (csr("n1", ec.generate_private_key(ec.SECP192R1())), "256 bits"),
        (b"", "not a PKCS #10 request"),
        (b"\x30\x03\x02\x01\x01", "not a PKCS #10 request"),
        (csr("n1")[:-1] + b"\x00", "signature"),
    ],
)
def test_refusals_and_their_reasons(request_der: bytes, reason: str) -> None:
    """Another name than the node's, more groups, a weak key, what is no request, or not signed by its own key."""
    with pytest.raises(RequestRefusedError) as error:
        AUTHORITY.sign_node(request_der, "n1", NOW, YEAR)
    assert reason in str(error.value)


def test_a_signature_of_a_large_key_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who joins may send many; a check takes the square of a key's size."""
    large = SimpleNamespace(public_key=lambda: rsa.RSAPublicNumbers(2**32 + 1, (1 << 3000) + 1).public_key())
    monkeypatch.setattr("modules.cloud.cloudhub.certificates.authority.x509.load_der_x509_csr", lambda _: large)
    with pytest.raises(RequestRefusedError, match="RSA of 2048 to 4096 bits"):
        AUTHORITY.sign_node(b"", "n1", NOW, YEAR)


def client_request(name: str, *groups: str, key: Any = None) -> bytes:
    """A request of a client of the API server in PEM, with a further field in its subject."""
    return x509.load_der_x509_csr(csr(name, key, groups, prefix="")).public_bytes(Encoding.PEM)


@pytest.mark.parametrize(
    "key",
    [new_key(), rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()],
    ids=["ec", "rsa", "ed25519"],
)
def test_a_client_gets_the_name_and_the_groups_that_it_asks_for(key: Any) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane"),
                         x509.NameAttribute(NameOID.ORGANIZATION_NAME, "dev"),
                         x509.NameAttribute(NameOID.EMAIL_ADDRESS, "jane@example.com")])  # fmt: skip
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names = x509.SubjectAlternativeName([x509.DNSName("kubernetes.default.svc")])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    asked = builder.add_extension(names, critical=False).sign(key, algorithm).public_bytes(Encoding.PEM)
    made = x509.load_pem_x509_certificate(AUTHORITY.sign_client(asked, NOW, 3600.0))
    assert made.subject.rfc4514_string() == "CN=jane,O=dev"
    assert made.public_key() == key.public_key()
    assert AUTHORITY.has_signed(made)
    assert (made.not_valid_before_utc.timestamp(), made.not_valid_after_utc.timestamp()) == (int(NOW), int(NOW) + 3600)
    extensions = {each.oid: each.value for each in made.extensions}
    assert extensions[ExtensionOID.EXTENDED_KEY_USAGE] == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    assert ExtensionOID.SUBJECT_ALTERNATIVE_NAME not in extensions


@pytest.mark.parametrize(
    ("request_pem", "reason"),
    [
        (client_request("jane", "system:masters"), "system:masters is reserved"),
        (client_request("jane", "dev", "system:nodes"), "system:nodes is reserved"),
        (client_request("system:node:n1"), "system:node:n1 is reserved"),
        (client_request("jane", "kubeedge:cloudcores"), "kubeedge:cloudcores is reserved"),
        (client_request("jane", key=rsa.generate_private_key(65537, 1024)), "RSA of 2048 to 4096"),  # noqa: S505 - on purpose
        (client_request("jane", key=ec.generate_private_key(ec.SECP192R1())), "256 bits"),
        ((Path(__file__).parent / "rsa_4224.pem").read_bytes(), "RSA of 2048 to 4096 bits is wanted"),
        (b"", "not a PKCS #10 request in PEM"),
        (csr("jane"), "not a PKCS #10 request in PEM"),
        (x509.load_der_x509_csr(csr("jane")).public_bytes(Encoding.PEM).replace(b"M", b"N"), "PKCS #10"),
    ],
)
def test_clients_with_reserved_names_and_weak_or_large_keys_are_refused(request_pem: bytes, reason: str) -> None:
    """Whoever may approve requests makes no node, no cloudcore and no administrator."""
    with pytest.raises(RequestRefusedError, match=re.escape(reason)):
        AUTHORITY.sign_client(request_pem, NOW, 3600.0)


def test_a_client_has_one_name() -> None:
    for names in ((), ("jane", "joe")):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each) for each in names])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        asked = builder.sign(new_key(), hashes.SHA256()).public_bytes(Encoding.PEM)
        with pytest.raises(RequestRefusedError, match="one common name"):
            AUTHORITY.sign_client(asked, NOW, 3600.0)


def test_the_directory_keeps_the_authority(tmp_path: Path) -> None:
    """A second start has the same authority and the same server certificate; keys are for their owner alone."""
    files = AuthorityFiles(tmp_path / "tls")
    first = open_authority(files, NAMES, NOW)
    server = files.server.read_bytes()
    second = open_authority(files, NAMES, NOW + 1000)
    assert (second.der, second.token_key) == (first.der, first.token_key)
    assert files.server.read_bytes() == server
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (files.authority_key, files.server_key)] == [0o600, 0o600]
    assert b"BEGIN EC PRIVATE KEY" in files.authority_key.read_bytes()


@pytest.fixture
def files(tmp_path: Path) -> AuthorityFiles:
    return AuthorityFiles(tmp_path)


def test_new_names_make_a_new_server_certificate(files: AuthorityFiles) -> None:
    """The authority stays, so nodes that have joined go on."""
    first = open_authority(files, NAMES, NOW)
    open_authority(files, ["10.0.0.1", "::1", "cloud.example", "former.example"], NOW)
    second = open_authority(files, ["10.0.0.1", "::0001", "cloud.example"], NOW)
    server = x509.load_pem_x509_certificate(files.server.read_bytes())
    assert second.der == first.der
    assert names_in(server) == {"10.0.0.1", "::1", "cloud.example"}
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.server, files.server_key)


def test_a_server_certificate_of_a_time_when_the_clock_was_ahead_is_replaced(files: AuthorityFiles) -> None:
    """Nodes with the right time would refuse it for years."""
    open_authority(files, NAMES, NOW)
    open_authority(files, ["cloud.example"], NOW + YEAR)
    open_authority(files, ["cloud.example"], NOW + 1)
    server = x509.load_pem_x509_certificate(files.server.read_bytes())
    assert server.not_valid_before_utc.timestamp() <= NOW


def test_a_server_certificate_of_another_authority_is_replaced(files: AuthorityFiles) -> None:
    """Who removes ca.crt and ca.key gets a server that fits the new ones."""
    open_authority(files, NAMES, NOW)
    files.authority.unlink()
    files.authority_key.unlink()
    authority = open_authority(files, NAMES, NOW)
    assert authority.has_signed(x509.load_pem_x509_certificate(files.server.read_bytes()))


def test_a_server_certificate_without_its_key_is_replaced(files: AuthorityFiles) -> None:
    """Power was lost between the two."""
    authority = open_authority(files, NAMES, NOW)
    files.server_key.write_bytes(authority.make_server_certificate(NAMES, NOW)[1])
    open_authority(files, NAMES, NOW)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.server, files.server_key)


def test_a_first_start_that_was_cut_off_is_made_up_for(files: AuthorityFiles) -> None:
    """Power was lost between the key and its certificate: no node knows that authority. Later it may be known."""
    open_authority(files, NAMES, NOW)
    for path in (files.authority, files.server, files.server_key):
        path.unlink()
    authority = open_authority(files, NAMES, NOW)
    assert authority.has_signed(x509.load_pem_x509_certificate(files.server.read_bytes()))
    files.authority.unlink()
    with pytest.raises(AuthorityError, match=r"only ca\.key is there"):
        open_authority(files, NAMES, NOW)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda files: files.authority_key.unlink(), "only ca.crt is there"),
        (lambda files: files.authority.write_text("nonsense"), "not what it should be"),
        (lambda files: files.authority_key.write_bytes(Authority.create(NOW).key_pem), "do not belong together"),
    ],
)
def test_an_authority_that_cannot_be_used_is_not_replaced(files: AuthorityFiles, spoil: Any, reason: str) -> None:
    """A half or spoilt authority is an error, for a new one would shut out every node."""
    open_authority(files, NAMES, NOW)
    spoil(files)
    with pytest.raises(AuthorityError, match=reason):
        open_authority(files, NAMES, NOW)


@pytest.mark.parametrize(
    ("key", "password", "reason"),
    [
        (rsa.generate_private_key(65537, 2048), b"", "an ECDSA key of 256 bits or more is wanted"),
        (ec.generate_private_key(ec.SECP224R1()), b"", "an ECDSA key of 256 bits or more is wanted"),
        (new_key(), b"secret", "Password was not given.*without a password"),
    ],
    ids=["rsa", "short", "password"],
)
def test_an_authority_with_a_key_that_signs_nothing_here_says_what_key_it_must_have(
    files: AuthorityFiles, key: Key, password: bytes, reason: str
) -> None:
    """KubeEdge's certgen.sh makes RSA keys (KEY_TYPE=rsa) and keys with passwords; its cloudcore takes neither."""
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    files.authority_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    files.authority.write_bytes(self_signed(key).public_bytes(Encoding.PEM))
    with pytest.raises(AuthorityError, match=f"ca.key.*{reason}"):
        open_authority(files, NAMES, NOW)
    with pytest.raises(AuthorityError, match=f"ca.key.*{reason}"):
        load_authority(files, NOW)


def test_an_authority_of_openssl_without_extensions_signs(files: AuthorityFiles) -> None:
    """Its certificate has no identifier of its key; the nodes' and the server's certificates name the key itself."""
    key = new_key()
    files.authority_key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    files.authority.write_bytes(self_signed(key).public_bytes(Encoding.PEM))
    open_authority(files, NAMES, NOW)
    server = x509.load_pem_x509_certificate(files.server.read_bytes())
    named = server.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier
    assert named == x509.SubjectKeyIdentifier.from_public_key(key.public_key()).digest


def self_signed(key: Key) -> x509.Certificate:
    """A certificate without any extension."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "KubeEdge")])
    begins = datetime.fromtimestamp(int(NOW), UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(begins).not_valid_after(begins + timedelta(days=1))
    return builder.sign(key, hashes.SHA256())


def test_a_making_that_a_loss_of_power_interrupted_is_begun_again(files: AuthorityFiles) -> None:
    """An authority with nothing but its key has issued nothing."""
    open_authority(files, ["127.0.0.1"], NOW)
    for path in (files.authority, files.server, files.server_key):
        path.unlink()
    assert open_authority(files, ["127.0.0.1"], NOW).pem == files.authority.read_text()


def test_each_file_is_in_its_directory_before_the_next_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, a loss of power five seconds after the first start makes another authority."""
    done: list[str] = []
    replace, fsync = Path.replace, os.fsync

    def replaced(path: Path, target: Path) -> Path:
        done.append(target.name)
        return replace(path, target)

    def flushed(descriptor: int) -> None:
        done.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(Path, "replace", replaced)
    monkeypatch.setattr(os, "fsync", flushed)
    open_authority(AuthorityFiles(tmp_path), ["127.0.0.1"], NOW)
    names = ["ca.key", "ca.crt", "server.key", "server.crt"]
    assert done == [step for name in names for step in ("file", name, "directory")]
