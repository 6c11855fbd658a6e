"""Why the node has no certificate that the cloud takes, in one tree below `LinkError`.

CertificateError
├── TokenError              no token, no token's form, or expired
├── AuthorityError          the CA is not the one that the token or the node knows
├── RefusedError            the cloud answered, and gave no certificate
├── ClockError              this node's clock is too far off for certificates
├── WrongNodeError          a certificate for somebody else
├── UnreachableError        the cloud's HTTPS server did not answer
├── FilesError              a file cannot be read or written, or is not what it should be
└── IssuerError             the process that fetches did not do its work

They end a try to connect as every other `LinkError` does: the next one comes after the back-off, and nothing else on
the node stops. As `Failure` they cross from the process that fetches to the agent.
"""

from typing import Final

import msgspec

from edgehub.errors import LinkError


class CertificateError(LinkError):
    """Base of the tree."""

    reason = "certificate"


class TokenError(CertificateError):
    """No token, not a token, or one that has expired."""

    reason = "token"


class AuthorityError(CertificateError):
    """The CA that answered is another than the one expected."""

    reason = "authority"


class RefusedError(CertificateError):
    """The cloud answered, and gave no certificate, or one that cannot be used."""

    reason = "certificate refused"


class ClockError(CertificateError):
    """The clocks of node and cloud are too far apart."""

    reason = "clock"


class WrongNodeError(CertificateError):
    """A certificate that does not name this node."""

    reason = "wrong node"


class UnreachableError(CertificateError):
    """No answer from the cloud's HTTPS server."""

    reason = "certificate server"


class FilesError(CertificateError):
    """A certificate's or key's file."""

    reason = "certificate files"


class IssuerError(CertificateError):
    """The process that fetches certificates."""

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
    """A `CertificateError` on its way between processes."""

    reason: str
    attempt: str
    on: str = ""
    hint: str = ""

    @classmethod
    def of(cls, error: CertificateError) -> "Failure":
        """The error to be sent."""
        return cls(error.reason, error.attempt, error.on, error.hint)

    def error(self) -> CertificateError:
        """The error that was sent."""
        return _BY_REASON.get(self.reason, CertificateError)(self.attempt, self.on, self.hint)
