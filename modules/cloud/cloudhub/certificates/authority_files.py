"""The authority's files: `ca.crt`, `ca.key`, `server.crt`, `server.key`, all PEM, the keys with mode 0600.

KubeEdge stores them in secrets of its namespace. The authority is made once: with another one, every node would have to
join again. The server's certificate is made again when its names change.
"""

import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from beehive.files.durable import replace_file
from modules.cloud.cloudhub.certificates.authority import Authority, names_in, normal_names
from modules.cloud.cloudhub.certificates.errors import AuthorityError

_LARGEST = 64 * 1024
_MAKE = "cannot prepare the certificate authority"
_WANTED = (
    "an ECDSA key of 256 bits or more is wanted, without a password, as KubeEdge wants it (openssl ecparam -name "
    "prime256v1 -genkey -noout); or remove ca.crt and ca.key, so that a new authority is made and nodes join again"
)


class AuthorityFiles(msgspec.Struct, frozen=True):
    """The paths in the authority's directory."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The CA certificate."""
        return self.directory / "ca.crt"

    @property
    def authority_key(self) -> Path:
        """Its key."""
        return self.directory / "ca.key"

    @property
    def server(self) -> Path:
        """The certificate of the servers."""
        return self.directory / "server.crt"

    @property
    def server_key(self) -> Path:
        """Its key."""
        return self.directory / "server.key"


def open_authority(files: AuthorityFiles, names: Sequence[str], now: float) -> Authority:
    """Return the authority in a directory, after making it if it is missing, and a server certificate with these names.

    Args:
        files: the authority's paths.
        names: addresses and DNS names of the cloud.
        now: seconds since the epoch.

    Raises:
        AuthorityError: a file cannot be used, or one of certificate and key is missing.
    """
    try:
        files.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _authority(files, now)
        if not _serves(files, authority, names, now):
            certificate, key = authority.make_server_certificate(names, now)
            replace_file(files.server_key, key, 0o600)
            replace_file(files.server, certificate, 0o644)
    except OSError as error:
        raise AuthorityError(_MAKE, str(files.directory), str(error)) from error
    except ValueError as error:
        hint = f"a file or a name is not what it should be: {error}"
        raise AuthorityError(_MAKE, str(files.directory), hint) from error
    return authority


def load_authority(files: AuthorityFiles, now: float) -> Authority:
    """Return the authority in a directory, which must have one.

    Raises:
        AuthorityError: the directory has no authority, or a file cannot be used.
    """
    attempt = "cannot use the certificate authority"
    if not files.authority.exists():
        hint = (
            "there is none: start `cloudcore run --tls` once; without TLS, `cloudcore run --insecure-port 8080` serves "
            "`kubectl --server http://127.0.0.1:8080`"
        )
        raise AuthorityError(attempt, str(files.directory), hint)
    try:
        return _authority(files, now)
    except (OSError, ValueError) as error:
        raise AuthorityError(attempt, str(files.directory), str(error)) from error


def _authority(files: AuthorityFiles, now: float) -> Authority:
    there = [path for path in (files.authority, files.authority_key) if path.exists()]
    if not there or _was_interrupted(files, there):
        authority = Authority.create(now)
        replace_file(files.authority_key, authority.key_pem, 0o600)
        replace_file(files.authority, authority.pem.encode(), 0o644)
        return authority
    if len(there) == 1:
        hint = f"only {there[0].name} is there; restore the other, or remove it so that a new authority is made"
        raise AuthorityError(_MAKE, str(files.directory), hint)
    certificate = x509.load_pem_x509_certificate(_read(files.authority))
    key = _key(files)
    if key.public_key() != certificate.public_key():
        raise AuthorityError(_MAKE, str(files.directory), "ca.crt and ca.key do not belong together")
    return Authority(certificate, key)


def _key(files: AuthorityFiles) -> ec.EllipticCurvePrivateKey:
    """Return the authority's key. KubeEdge takes ECDSA only, too (`x509.ParseECPrivateKey` in its
    pkg/security/certs/x509_types.go), and signs the tokens of nodes with the same key.
    """
    try:
        key = load_pem_private_key(_read(files.authority_key), None)
    except (TypeError, UnsupportedAlgorithm) as error:  # TypeError: it has a password
        raise AuthorityError(_MAKE, str(files.authority_key), f"{error}; {_WANTED}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.key_size < 256:
        raise AuthorityError(_MAKE, str(files.authority_key), _WANTED)
    return key


def _was_interrupted(files: AuthorityFiles, there: Sequence[Path]) -> bool:
    """Return whether a former start was interrupted while making the authority: a key alone has signed nothing."""
    return list(there) == [files.authority_key] and not files.server.exists() and not files.server_key.exists()


def _serves(files: AuthorityFiles, authority: Authority, names: Sequence[str], now: float) -> bool:
    """Return whether the server's certificate is of this authority, with these names, and has its key. One from a time
    when the clock was ahead is refused by every node.
    """
    wanted = normal_names(names)
    try:
        certificate = x509.load_pem_x509_certificate(_read(files.server))
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.server, files.server_key)
    except (OSError, ValueError):
        return False
    has_begun = certificate.not_valid_before_utc.timestamp() <= now
    return has_begun and authority.has_signed(certificate) and names_in(certificate) == wanted


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST)
