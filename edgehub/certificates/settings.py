"""What has to be known to get and to keep a certificate."""

from pathlib import Path

import msgspec


class CertificateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the node's certificate. Paths are text, because they cross between processes as JSON."""

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
    """What the first certificate is asked for with; a secret, which does not show itself in a repr."""

    rotate: bool = True
    """Whether the certificate is renewed before it expires."""

    def __repr__(self) -> str:
        return f"CertificateSettings(node={self.node!r}, server={self.server!r}, certificate={self.certificate!r})"

    @property
    def paths(self) -> "CertificatePaths":
        """The three files."""
        return CertificatePaths(Path(self.authority), Path(self.certificate), Path(self.key))


class CertificatePaths(msgspec.Struct, frozen=True):
    """The three files."""

    authority: Path
    certificate: Path
    key: Path
