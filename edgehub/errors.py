"""The errors of edgehub.

EdgeHubError
├── SettingsError           a setting that no link can use
├── OutboxError             the outbox cannot be read or written
└── LinkError               why a link ended, or could not be established
    ├── CertificateError        no certificate to connect with; see `edgehub.certificates.errors`
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

from beehive.errors import BeehiveError

REPLACED: Final = 4001
"""Close code of our cloud, of those for private use: another connection with the node's name took the link's place."""

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
