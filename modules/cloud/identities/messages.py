"""The messages to the module `identities`: requests, which it answers."""

from typing import Annotated, Final, Literal

import msgspec

from modules.cloud.identities.node_identity import is_node_name
from modules.cloud.identities.peer import CertifiedPeer, normal_serial
from modules.cloud.identities.records import Labels, Record

NAME: Final = "identities"
RESOURCE: Final = "identities"
REVOKE: Final = "revoke"
"""Operation: revoke a node, a certificate or a user (`Revocation`)."""
ALLOW: Final = "allow"
"""Operation: undo that (`Revocation`)."""
LIST: Final = "list"
"""Operation: the reply is `Identities`."""
MAKE_TOKEN: Final = "maketoken"  # noqa: S105 - an operation
"""Operation: remember a new token (`TokenSettings`); the reply is its `JoinToken`."""
WITHDRAW_TOKEN: Final = "withdrawtoken"  # noqa: S105 - an operation
"""Operation: forget a token, given by its id."""
ENROL: Final = "enrol"
"""Operation: may this key have a certificate of this name (`KeyEnrolment`)? The reply is "" or why not."""
USED: Final = "used"
"""Operation: an accepted certificate was used that changes its node's identity (`CertifiedPeer`); there is no reply."""

MOST_SECONDS: Final = 366 * 24 * 3600

Text = Annotated[str, msgspec.Meta(max_length=253)]


class Revocation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a node, certificate or user to revoke, or to allow again."""

    kind: Literal["node", "certificate", "user"]
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
    """A node's name, a serial number, a user's name."""
    reason: Text = ""
    by: Text = ""
    """The administrator; not as the request has it."""
    serials: tuple[Text, ...] = ()
    """Of a user: certificates that were made this very second."""

    def normal_name(self) -> str:
        """Return the name as records have it.

        Raises:
            ValueError: it is no name of its kind.
        """
        if self.kind == "certificate":
            return normal_serial(self.name)
        if self.kind == "node" and not is_node_name(self.name):
            raise ValueError(f"{self.name!r} is not a node name")
        return self.name


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The permissions of a new token, and its lifetime."""

    seconds: Annotated[float, msgspec.Meta(ge=0, le=MOST_SECONDS)] = 24 * 3600.0
    """The token's validity. KubeEdge: twice the twelve hours after which it makes a new one."""
    node: Text = ""
    """The only node that can join with it; "" for any."""
    once: bool = False
    """Whether one node can join with it, once."""
    replace: bool = False
    """Whether the node's name may belong to another machine then."""
    labels: Labels = {}
    """Labels of the Nodes that join with it."""
    reason: Text = ""
    by: Text = ""
    """The administrator; not as the request has it."""

    def mistake(self) -> str:
        """Return the mistake in the settings, or ""."""
        if self.node and not is_node_name(self.node):
            return f"{self.node!r} is not a node name"
        if self.replace and not self.node:
            return "a token that replaces a machine is for one node: name it"
        return ""


class Withdrawal(msgspec.Struct, frozen=True, kw_only=True):
    """A token to withdraw."""

    name: Text
    """Its id."""
    reason: Text = ""
    by: Text = ""
    """The administrator."""


class KeyEnrolment(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a certificate, whose token or certificate is valid."""

    node: str
    key: str
    """The fingerprint of the key that is to be certified."""
    peer: CertifiedPeer | None = None
    """The present certificate, for a renewal."""
    token: str = ""
    """The id of the token, for a join; "" for a token of an earlier cloudcore, without id."""
    has_other_kubelet: bool = False
    """Whether a Node of this name is another kubelet's, as the module has found out."""


class Identities(msgspec.Struct, frozen=True):
    """All records."""

    records: list[Record]
