"""Obtains certificates: the first with a token, the next with the one before. Blocks; for short-lived processes."""

import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from beehive import Clock
from beehive.http.call import CallFailedError, HttpCall, Secured, perform
from beehive.http.dates import seconds_of_date
from beehive.http.errors import HttpError
from beehive.sockets.tls import default_client_context
from edgehub.certificates import files, rules
from edgehub.certificates.certificate import Certificate, pem_blocks
from edgehub.certificates.diagnosis import explain, is_about_time
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.settings import CertificateSettings
from edgehub.certificates.token import Token
from edgehub.errors import AuthorityError, CertificateError, FilesError, RefusedError, UnreachableError
from edgehub.tls import client_context

SECONDS: Final = 25.0
"""For a connection and its whole response. A link by satellite needs five seconds or more for TLS; a join makes two
calls within the `TIMEOUT` of `issuer`.
"""
MAX_BODY: Final = 64 * 1024
"""Bytes of a response's body that are read; certificates have less than two thousand."""
_HTTPS_PORT: Final = 443
_SHOWN: Final = 500


def join(settings: CertificateSettings, clock: Clock) -> Certificate:
    """Fetch the CA, verify it by the token, obtain a certificate and store both.

    Raises:
        CertificateError: no certificate; the files are unchanged but for the key that was sent. It is kept before the
            cloud can give the name to it, because nobody knows whether an attempt that fails or is killed got that far.
    """
    token = Token.parse(settings.token)
    server = CertificateServer(settings.server, clock)
    authority, date = server.authority()
    token.check_authority(authority, server.url)
    _check_is_certificate(authority, server.url)
    here = clock.now()
    there = here if date is None else date
    token.check_valid(there)
    token.check_node(settings.node, replaces=settings.replace)
    kept = files.read_keys(settings.paths, is_of_node=not settings.replace and _is_of_node(settings))
    key = NodeKey(*kept)
    if key.pem() not in kept:
        files.keep_joining_key(settings.paths, key.pem())
    try:
        context = default_client_context(cadata=authority)
        issued = server.sign(key.request(settings.node), settings.node, context, token.bearer).body
    except CertificateError as error:
        if is_about_time(error.__cause__) and abs(there - here) > rules.CLOCK_TOLERANCE:
            raise rules.clock_error(there - here, here) from error
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
    server = CertificateServer(settings.server, clock)
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


class CertificateResponse(NamedTuple):
    """The cloud's answer with status 200."""

    body: bytes
    date: float | None
    """The cloud's clock, as Unix time; None when the response has no Date."""


class CertificateServer:
    """A client of one server, for its CA (`GET /ca.crt`) and for certificates (`GET /edge.crt`).

    Every call blocks, for at most `SECONDS`; it runs in short processes only.

    Args:
        url: `https://HOST:PORT`.
        clock: for the deadline of a call.

    Raises:
        UnreachableError: the URL cannot be used.
    """

    def __init__(self, url: str, clock: Clock) -> None:
        self._clock = clock
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname:
            raise UnreachableError(
                "cannot request a certificate", url, "an address such as https://host:10002 is wanted"
            )
        self._host, self._port = parts.hostname, parts.port or _HTTPS_PORT

    def authority(self) -> CertificateResponse:
        """Return the CA as DER. The server is not verified: the caller must check the CA by its hash.

        Raises:
            UnreachableError: no answer.
            RefusedError: another answer than the CA.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return self._get("/ca.crt", context)

    def sign(self, request: bytes, node: str, context: ssl.SSLContext, bearer: str = "") -> CertificateResponse:
        """Return a certificate (DER) for a signing request: a GET with a body, as KubeEdge has it.

        Args:
            request: the signing request, DER.
            node: name of the node.
            context: verifies the cloud; presents the node's certificate when that is renewed.
            bearer: the token's JWT; empty when a certificate is presented.

        Raises:
            UnreachableError: no answer, or not from the cloud that the context knows.
            RefusedError: the cloud refuses.
        """
        headers = [("NodeName", node)]
        if bearer:
            headers.append(("Authorization", f"Bearer {bearer}"))
        return self._get("/edge.crt", context, request, headers)

    def _get(
        self, path: str, context: ssl.SSLContext, body: bytes = b"", headers: list[tuple[str, str]] | None = None
    ) -> CertificateResponse:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        always = [("Accept-Encoding", "identity"), *(headers or ())]
        call = HttpCall("GET", self._host, self._port, path, tuple(always), body, "https")
        secured = Secured(context, self._host)
        try:
            reply = perform(call, self._clock, seconds=SECONDS, most_bytes=MAX_BODY, secured=secured)
        except CallFailedError as error:
            cause = error.__cause__
            if cause is None:
                raise RefusedError("the cloud gave no certificate", self.url + path, error.why) from None
            hint = explain(cause) if isinstance(cause, OSError) and not error.timed_out else error.why
            hint += ": something else may be listening there" if isinstance(cause, HttpError) else ""
            raise UnreachableError("cannot request a certificate", self.url + path, hint) from cause
        if reply.status != HTTPStatus.OK:
            said = reply.body[:_SHOWN].decode("utf-8", "replace")
            raise RefusedError(
                "the cloud gave no certificate",
                f"{self.url}{path} answered {reply.status}",
                _hint(reply.status, said),
            )
        return CertificateResponse(reply.body, seconds_of_date(dict(reply.headers).get("date")))


def _hint(status: int, said: str) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return f"it does not take the token or certificate: {said!r}; a new token may help"
    return f"it says {said!r}; see its log"
