"""The errors about the node's certificate, below `LinkError`.

CertificateError
├── TokenError              the token is missing, malformed or expired
├── AuthorityError          the CA is not that of the token or the node
├── RefusedError            the cloud answered without a usable certificate
├── ClockError              the clocks of node and cloud differ too much
├── WrongNodeError          the certificate names another node
├── UnreachableError        the cloud's HTTPS server did not answer
├── FilesError              a file cannot be read or written, or has other contents
└── IssuerError             the process that fetches certificates failed

Like every `LinkError` they end an attempt to connect; the next one follows after the back-off. A `Failure` carries them
from the process that fetches certificates to the agent.
"""

from typing import Final

import msgspec

from edgehub.errors import LinkError


class CertificateError(LinkError):
    """Base class."""

    reason = "certificate"


class TokenError(CertificateError):
    """The token is missing, malformed or expired."""

    reason = "token"


class AuthorityError(CertificateError):
    """The CA is not that of the token or the node."""

    reason = "authority"


class RefusedError(CertificateError):
    """The cloud answered without a usable certificate."""

    reason = "certificate refused"


class ClockError(CertificateError):
    """The clocks of node and cloud are too far apart."""

    reason = "clock"


class WrongNodeError(CertificateError):
    """The certificate names another node."""

    reason = "wrong node"


class UnreachableError(CertificateError):
    """The cloud's HTTPS server did not answer."""

    reason = "certificate server"


class FilesError(CertificateError):
    """The file of a certificate or key cannot be read or written, or has other contents."""

    reason = "certificate files"


class IssuerError(CertificateError):
    """The process that fetches certificates failed."""

    reason = "issuer"


_ALL: Final = (
    CertificateError,
    TokenError,
    AuthorityError,
    RefusedError,
    ClockError,
    WrongNodeError,
    UnreachableError,
    FilesError,
    IssuerError,
)
_BY_REASON: Final = {kind.reason: kind for kind in _ALL}


class Failure(msgspec.Struct, frozen=True):
    """A `CertificateError` as JSON, for another process."""

    reason: str
    attempt: str
    on: str = ""
    hint: str = ""

    @classmethod
    def of(cls, error: CertificateError) -> "Failure":
        """Encode an error."""
        return cls(error.reason, error.attempt, error.on, error.hint)

    def error(self) -> CertificateError:
        """Return the error."""
        return _BY_REASON.get(self.reason, CertificateError)(self.attempt, self.on, self.hint)
