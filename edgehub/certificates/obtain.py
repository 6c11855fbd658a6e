"""Obtains certificates: the first with a token, the next with the one before. Blocks; for short-lived processes."""

from pathlib import Path

from beehive import Clock
from beehive.tls_client import default_client_context
from edgehub.certificates import files, rules
from edgehub.certificates.certificate import Certificate, pem_blocks
from edgehub.certificates.diagnosis import explain, is_about_time
from edgehub.certificates.fetch import CertificateServer
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.settings import CertificateSettings
from edgehub.certificates.token import Token
from edgehub.errors import AuthorityError, CertificateError, FilesError, UnreachableError
from edgehub.tls import client_context


def join(settings: CertificateSettings, clock: Clock) -> Certificate:
    """Fetch the CA, verify it by the token, obtain a certificate and store both.

    Raises:
        CertificateError: no certificate; the files are unchanged.
    """
    token = Token.parse(settings.token)
    server = CertificateServer(settings.server)
    authority, date = server.authority()
    token.check_authority(authority, server.url)
    _check_is_certificate(authority, server.url)
    here = clock.now()
    there = here if date is None else date
    token.check_valid(there)
    token.check_node(settings.node, replaces=settings.replace)
    key = NodeKey(b"" if settings.replace else files.read_key(settings.paths, is_of_node=_is_of_node(settings)))
    try:
        context = default_client_context(cadata=authority)
        issued = server.sign(key.request(settings.node), settings.node, context, token.bearer).body
    except CertificateError as error:
        if is_about_time(error.__cause__) and abs(there - here) > rules.CLOCK_TOLERANCE:
            raise rules.clock_error(there - here, here) from error
        if isinstance(error, UnreachableError):
            files.keep_joining_key(settings.paths, key.pem())
        raise
    certificate = _checked(settings, key, issued, [authority], there)
    files.store(settings.paths, files.pem(authority), files.pem(issued), key.pem())
    return certificate


def renew(settings: CertificateSettings, clock: Clock) -> Certificate:
    """Obtain a certificate for a new key, authenticated by the present certificate, and store both.

    Raises:
        CertificateError: no certificate; the files are unchanged.
    """
    paths = settings.paths
    files.finish_replacement(paths)
    if files.read_certificate(paths.certificate) is None:
        raise FilesError("cannot renew the certificate", settings.certificate, "there is no such file")
    server = CertificateServer(settings.server)
    key = NodeKey()
    try:
        context = client_context(paths.authority, paths.certificate, paths.key)
    except OSError as error:
        raise FilesError("cannot renew the certificate", settings.certificate, explain(error)) from error
    issued = server.sign(key.request(settings.node), settings.node, context).body
    certificate = _checked(settings, key, issued, _authorities(paths.authority), clock.now())
    files.store(paths, None, files.pem(issued), key.pem())
    return certificate


def _is_of_node(settings: CertificateSettings) -> bool:
    """Return whether the present certificate, which may have expired, is of this node; also without one."""
    try:
        present = files.read_certificate(settings.paths.certificate)
    except FilesError:
        return True
    return present is None or present.common_name == rules.common_name(settings.node)


def _checked(
    settings: CertificateSettings, key: NodeKey, issued: bytes, authorities: list[bytes], now: float
) -> Certificate:
    key.check(issued, authorities)
    certificate = Certificate.from_der(issued)
    rules.check_issued(certificate, settings.node, now)
    return certificate


def _check_is_certificate(data: bytes, url: str) -> None:
    try:
        Certificate.from_der(data)
    except ValueError as error:
        raise AuthorityError("the cloud's CA is no certificate", url, str(error)) from error


def _authorities(path: Path) -> list[bytes]:
    try:
        return pem_blocks(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FilesError("cannot read the CA", str(path), str(error)) from error
