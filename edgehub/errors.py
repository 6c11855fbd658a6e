"""The errors of edgehub.

EdgeHubError
├── SettingsError           a setting that no link can use
├── OutboxError             the outbox cannot be read or written
└── LinkError               why a link ended, or could not be established
    ├── CertificateError        no certificate to connect with
    ├── DialError               no TCP or TLS connection
    ├── UpgradeError            the peer did not switch to websocket
    ├── ProtocolError           the peer broke the websocket protocol
    ├── PeerClosedError         the peer ended the link
    ├── DeadPeerError           the peer is silent, or reads nothing
    ├── LinkLostError           the connection broke
    └── ClosedHereError         this side ended the link

Each carries the attempt, its object, a hint, and whether a retry may help. A `LinkError` has a `reason`, one
word for metrics.
"""

from typing import ClassVar, Final

import msgspec

from beehive.errors import BeehiveError

REPLACED: Final = 4001
"""Close code of our cloud, of those for private use: another connection with the node's name took the link's place."""

TOO_BIG: Final = 1009
"""Close code: a message of this node is larger than the peer takes (RFC 6455 §7.4.1)."""

_CLOSE_HINTS: Final = {
    REPLACED: "if this comes again and again, two machines have this node's name: give one of them another, "
    "`edgecore join --name`",
}
"""By close code, of those for private use."""


class EdgeHubError(BeehiveError):
    """Base class. `attempt` is a text such as "cannot connect to the cloud", `on` an address or a resource."""


class SettingsError(EdgeHubError):
    """A setting that no link can use."""


class OutboxError(EdgeHubError):
    """The outbox's file cannot be opened, read or written."""

    def __init__(self, attempt: str, on: str = "", hint: str = "", *, corrupt: bool = False) -> None:
        self.corrupt = corrupt
        """Whether the file is no valid database."""
        super().__init__(attempt, on, hint, retryable=not corrupt)


class LinkError(EdgeHubError):
    """Why a link ended, or could not be established; always retryable."""

    reason: ClassVar[str] = "link"

    def __init__(self, attempt: str, on: str = "", hint: str = "") -> None:
        super().__init__(attempt, on, hint, retryable=True)


class DialError(LinkError):
    """No TCP or TLS connection to the cloud."""

    reason = "dial"


class UpgradeError(LinkError):
    """The peer answered, but did not switch to websocket; `status` is its HTTP status, 0 without one."""

    reason = "upgrade"

    def __init__(self, on: str, hint: str = "", status: int = 0) -> None:
        self.status = status
        super().__init__("cannot switch to websocket", on, hint)


class ProtocolError(LinkError):
    """The peer violated RFC 6455."""

    reason = "protocol"

    def __init__(self, on: str) -> None:
        super().__init__("the peer broke the websocket protocol", on, "something else may be speaking on that port")


class PeerClosedError(LinkError):
    """The peer ended the link: with a close frame of code `code`, or without one (`code` 1006)."""

    reason = "closed by peer"

    def __init__(self, code: int, text: str = "") -> None:
        self.code = code
        super().__init__(
            "the peer closed the link", f"{code} {text}".strip(), _CLOSE_HINTS.get(code, "see the cloud's log")
        )


class DeadPeerError(LinkError):
    """The peer sends nothing, not even pongs, or reads nothing."""

    reason = "dead peer"


class LinkLostError(LinkError):
    """The connection broke."""

    reason = "lost"


class ClosedHereError(LinkError):
    """This side ended the link."""

    reason = "closed here"

    def __init__(self) -> None:
        super().__init__("the link was closed by this node")


class CertificateError(LinkError):
    """The node has no usable certificate."""

    reason = "certificate"


class TokenError(CertificateError):
    """The token is missing, malformed or expired."""

    reason = "token"


class AuthorityError(CertificateError):
    """The CA is neither the token's nor the node's."""

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
