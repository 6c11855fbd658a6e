"""Settings of the node's certificate, and the request for one as it crosses to the process that makes keys."""

from pathlib import Path

import msgspec

from beehive.sockets.tls import TlsFiles
from edgehub.errors import Failure


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the node's certificate. Paths are text, because the struct crosses between processes as JSON."""

    node: str
    """Name of the node; the certificate is for `system:node:{node}`."""

    server: str
    """`https://HOST:PORT` of the cloud's server of certificates (KubeEdge's `httpServer`)."""

    authority: str
    """File of the cloud's CA (PEM)."""

    certificate: str
    """File of the node's certificate (PEM)."""

    key: str
    """File of its key (PEM)."""

    token: str = ""
    """Token for the first certificate; a secret, which `repr` omits."""

    replace: bool = False
    """Whether this machine takes the place of another with the node's name: it joins with a new key then."""

    rotate: bool = True
    """Whether the certificate is renewed before it expires."""

    def __repr__(self) -> str:
        return f"CertificateSettings(node={self.node!r}, server={self.server!r}, certificate={self.certificate!r})"

    @property
    def paths(self) -> TlsFiles:
        """The files of CA, certificate and key."""
        return TlsFiles(Path(self.authority), Path(self.certificate), Path(self.key))


class IssueRequest(msgspec.Struct, frozen=True):
    """Request for one certificate."""

    settings: CertificateSettings
    renew: bool = False
    """Whether to authenticate with the present certificate; otherwise with the token."""


class IssueResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a request."""

    failure: Failure | None = None
    """None for success: the files hold the new certificate."""
