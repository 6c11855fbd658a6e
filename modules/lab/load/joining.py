"""Certificates for stand-ins, as nodes get them: by a join token, over HTTPS."""

import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from beehive.clock import RealClock
from edgehub.certificates.files import pem
from edgehub.certificates.keys import NodeKey
from edgehub.certificates.obtain import CertificateServer
from edgehub.certificates.token import Token

_AT_ONCE: Final = 8


def contexts_of(names: Sequence[str], url: str, token: str) -> list[ssl.SSLContext]:
    """Return the TLS context of each node, with a certificate of its own.

    Args:
        names: of the nodes.
        url: of the cloud's HTTPS server.
        token: a join token, which has the hash of the cloud's authority.

    Raises:
        LinkError: the server does not answer, or refuses.
        EdgeHubError: the token is none, or another cloud answers than the one that has made it.
    """
    clock = RealClock()
    try:
        server = CertificateServer(url, clock)
        parsed = Token.parse(token)
        authority = server.authority().body
        parsed.check_authority(authority, url)
        with TemporaryDirectory(prefix="edgecore-load-") as directory, ThreadPoolExecutor(_AT_ONCE) as threads:

            def context_of(name: str) -> ssl.SSLContext:
                return _context(server, name, pem(authority).decode(), parsed.bearer, Path(directory))

            return list(threads.map(context_of, names))
    finally:
        clock.close()


def _context(server: CertificateServer, name: str, authority: str, bearer: str, directory: Path) -> ssl.SSLContext:
    context, key = ssl.create_default_context(cadata=authority), NodeKey()
    certificate = server.sign(key.request(name), name, context, bearer).body
    path = directory / f"{name}.pem"
    path.touch(0o600)
    path.write_bytes(pem(certificate) + key.pem())
    context.load_cert_chain(path)
    return context
