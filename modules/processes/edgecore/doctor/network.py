"""Tests the way to the cloud: name, TCP, TLS with the node's own certificate, an HTTP answer and its date.

The request to the cloud's websocket is a plain GET without an upgrade, because a session would replace the running
node's.
"""

import socket
import ssl
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from beehive import Clock
from beehive.http.dates import seconds_of_date
from beehive.sockets import dialling
from beehive.sockets.tls import TlsFiles
from edgehub.certificates import files
from edgehub.certificates.certificate import pem_blocks
from edgehub.certificates.diagnosis import explain
from edgehub.certificates.settings import CertificateSettings
from edgehub.certificates.token import Token
from edgehub.errors import CertificateError
from edgehub.tls import client_context
from edgehub.upgrade import Target
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor.facts import CloudReach, Identity, Reach
from modules.processes.edgecore.settings import certificate_settings

SECONDS: Final = 2.5
"""Time limit of each step that waits for another machine."""

_LONGEST: Final = 64 * 1024


class _Answer(NamedTuple):
    """Result of one server's test."""

    reach: Reach
    body: bytes = b""


def identity(config: EdgeCoreConfig, clock: Clock) -> Identity:
    """Return the facts of the node's certificate, key and token."""
    settings = certificate_settings(config)
    if settings is None:
        return Identity()
    certificate, problem = None, ""
    try:
        certificate = files.read_certificate(settings.paths.certificate)
    except CertificateError as error:
        problem = str(error)
    return Identity(
        certificate=certificate,
        certificate_problem=problem,
        authority_problem=_authority_problem(settings.paths.authority) if certificate else "",
        key_problem=_key_problem(settings) if certificate else "",
        key_mode=_mode(settings.paths.key),
        has_token=bool(settings.token.strip()),
        token_problem=_token_problem(settings.token, clock.now()),
    )


def cloud(config: EdgeCoreConfig, clock: Clock) -> CloudReach:
    """Return the facts of the cloud's servers; the server of certificates only with TLS."""
    settings = certificate_settings(config)
    if settings is None:
        link, *backups = _links(config, None, clock)
        return CloudReach(secure=False, link=link, backups=tuple(backups))
    # the unverified server first: its date tells a wrong clock from a wrong certificate
    parts = urlsplit(settings.server)
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    said = _ask("certificates", parts.hostname or "", parts.port or 443, "/ca.crt", unverified, clock)
    paths = settings.paths
    try:
        context = client_context(paths.authority, paths.certificate, paths.key)
    except OSError as error:
        problem = _unreadable(paths) or explain(error)
        target = Target.parse(config.websocket_url)
        links = [Reach(purpose="link", host=target.host, port=target.port, tls_problem=problem)]
    else:
        links = _links(config, context, clock)
    is_other = _is_other(said.body, paths.authority)
    return CloudReach(
        secure=True, link=links[0], backups=tuple(links[1:]), certificates=said.reach, other_authority=is_other
    )


def _links(config: EdgeCoreConfig, context: ssl.SSLContext | None, clock: Clock) -> list[Reach]:
    """Test the websocket of each cloudcore."""
    targets = [Target.parse(url) for url in config.websocket_urls]
    return [_ask("link", target.host, target.port, "/", context, clock).reach for target in targets]


def _unreadable(paths: TlsFiles) -> str:
    """Return which file this user cannot read; OpenSSL does not tell."""
    for path in (paths.authority, paths.certificate, paths.key):
        try:
            with path.open("rb"):
                pass
        except PermissionError as error:
            return f"{path}: {error.strerror}; ask as root or as its owner"
        except OSError as error:
            return f"{path}: {error.strerror}"
    return ""


def _ask(purpose: str, host: str, port: int, path: str, context: ssl.SSLContext | None, clock: Clock) -> _Answer:
    """Test one server step by step, up to the first failure."""
    reach = Reach(purpose=purpose, host=host, port=port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return _Answer(replace(reach, name_problem=error.strerror or str(error)))
    reach = replace(reach, addresses=tuple(dict.fromkeys(str(each[4][0]) for each in found)))
    try:
        connection = dialling.connect(host, port, clock, SECONDS)
    except OSError as error:
        return _Answer(replace(reach, tcp_problem=error.strerror or f"no answer within {SECONDS:g} s"))
    problem, date, body, answers = "", None, b"", False
    try:
        with connection if context is None else context.wrap_socket(connection, server_hostname=host) as secured:
            answers, date, body = _converse(secured, host, port, path)
    except OSError as error:
        problem = explain(error) if context is not None else ""
    finally:
        connection.close()
    ahead = None if date is None else date - clock.now()
    return _Answer(replace(reach, tls_problem=problem, answers=answers, ahead=ahead), body)


def _converse(connection: socket.socket, host: str, port: int, path: str) -> tuple[bool, float | None, bytes]:
    """Return whether there was an HTTP answer, its date, and its body if the status is 200."""
    http = HTTPConnection(host, port)
    http.sock = connection
    try:
        http.request("GET", path, headers={"Connection": "close", "User-Agent": "edgecore-doctor"})
        answer = http.getresponse()
        body = answer.read(_LONGEST) if answer.status == 200 else b""
    except HTTPException:
        return False, None, b""
    return True, seconds_of_date(answer.getheader("Date")), body


def _is_other(body: bytes, path: Path) -> bool:
    with suppress(OSError, ValueError):
        ours = pem_blocks(path.read_bytes()[: files.LONGEST])
        return bool(body and ours) and body not in ours
    return False


def _authority_problem(path: Path) -> str:
    try:
        return "" if pem_blocks(path.read_bytes()[: files.LONGEST]) else f"{path} holds no certificate"
    except OSError as error:
        return f"{path}: {error.strerror}"
    except ValueError as error:
        return f"{path} holds no certificate: {error}"


def _key_problem(settings: CertificateSettings) -> str:
    paths = settings.paths
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(paths.certificate, paths.key)
    except OSError as error:
        return f"{paths.key}: {explain(error)}"
    return ""


def _mode(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o600


def _token_problem(text: str, now: float) -> str:
    if not text.strip():
        return ""
    try:
        Token.parse(text).check_valid(now)
    except CertificateError as error:
        return str(error)
    return ""
