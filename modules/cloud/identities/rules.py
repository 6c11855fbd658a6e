"""Which certificates are accepted, and the owner key of a node's name. Pure.

A name belongs to the first key that has it: the key of the node's join or, for a node that joined before keys
were remembered, the first one seen. It moves to the key of a renewed certificate when that is used for the
first time, and to the key of another machine with a token that an administrator has made for it. The name of a Node
whose kubelet has not joined here, such as a cluster's own, is nobody's to take.
"""

from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import format_rfc3339
from modules.cloud.identities.messages import KeyEnrolment
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.identities.records import JoinToken, NodeIdentity, RevokedCertificate, RevokedUser

_replace = msgspec.structs.replace
_EDGE: Final = "node-role.kubernetes.io/edge"
"""The label of edge nodes (KubeEdge's)."""


class Enrolled(NamedTuple):
    """The decision about a request for a certificate: why it is refused, or the node's identity from now on."""

    refusal: str
    identity: NodeIdentity | None = None


def refusal(
    peer: CertifiedPeer,
    identity: NodeIdentity | None,
    certificate: RevokedCertificate | None = None,
    user: RevokedUser | None = None,
) -> str:
    """Return why a client's certificate is refused; "" if it is accepted.

    Args:
        peer: the certificate.
        identity: the node's, if it is a node's certificate and there is one.
        certificate: the revocation of the certificate, if there is one.
        user: the revocation of its user, if there is one.
    """
    if certificate is not None:
        return f"certificate {certificate.name} is revoked since {format_rfc3339(certificate.revoked_at)}"
    if user is not None and (peer.begins < int(user.revoked_at) or peer.serial in user.serials):
        return f"the certificates of {user.name} that were issued up to {format_rfc3339(user.revoked_at)} are revoked"
    return refusal_of_node(peer, identity) if identity is not None else ""


def refusal_of_node(peer: CertifiedPeer, identity: NodeIdentity) -> str:
    """Return why a node is refused; "" if it is accepted. Without TLS a node has no key."""
    if identity.revoked_at:
        return _revoked(identity)
    if not peer.key or not identity.key or peer.key in (identity.key, identity.next_key):
        return ""
    if peer.begins > identity.since:
        return ""
    return _superseded(identity) if 0 < int(identity.pinned_at) <= peer.begins else _belongs_to_another(identity)


def refuses_token(identity: NodeIdentity | None, issued_at: float) -> bool:
    """Return whether a service account's token is refused because of the node that its pod is bound to: the node is
    revoked, or another machine has its name since the second of the token's issue. No token is issued in that
    second (`TokenIssuer.issue`).
    """
    return identity is not None and bool(identity.revoked_at or issued_at <= int(identity.replaced_at))


def used(peer: CertifiedPeer, identity: NodeIdentity | None, now: float) -> NodeIdentity | None:
    """Return a node's identity after its accepted certificate was used; None if that changes nothing."""
    if not peer.key:
        return None
    if identity is None or not identity.key:
        made = identity or NodeIdentity(name=peer.node)
        return _replace(made, key=peer.key, since=float(int(now)), pinned_at=now)
    if peer.key == identity.key:
        return None
    return _replace(identity, key=peer.key, next_key="", since=max(identity.since, peer.begins))


def renewed(identity: NodeIdentity | None, peer: CertifiedPeer, key: str, now: float) -> Enrolled:
    """Decide about a request for the next certificate with the present one.

    Args:
        identity: the node's.
        peer: the present certificate, which is accepted.
        key: the new key.
        now: seconds since the epoch.
    """
    identity = used(peer, identity, now) or identity or NodeIdentity(name=peer.node)
    following = "" if key == identity.key else key
    return Enrolled("", _replace(identity, next_key=following, since=max(identity.since, float(int(now)))))


def is_of_other_kubelet(node: JsonObject | None) -> bool:
    """Return whether a Node is reported by a kubelet that is no edge's: it has facts of a kubelet, and not the label
    with which edges register.
    """
    metadata, status = ((node or {}).get(part) or {} for part in ("metadata", "status"))
    is_reported = bool((status.get("nodeInfo") or {}).get("kubeletVersion"))
    return is_reported and _EDGE not in (metadata.get("labels") or {})


def joined(identity: NodeIdentity | None, token: JoinToken | None, asked: KeyEnrolment, now: float) -> Enrolled:
    """Decide about a request for a first certificate with a token.

    Args:
        identity: the node's, if there is one.
        token: the token's record; None for a token of an earlier cloudcore.
        asked: the request.
        now: seconds since the epoch.
    """
    node, key = asked.node, asked.key
    if token is not None and (why := refusal_by_token(token, asked)):
        return Enrolled(why)
    begins = float(int(now))
    labels = (token.labels if token is not None else {}) or (identity.labels if identity is not None else {})
    is_free = identity is None or not (identity.key or identity.revoked_at)
    if is_free and asked.has_other_kubelet and (token is None or token.node != node):
        return Enrolled(
            f"the name {node} belongs to a Node whose kubelet has not joined by this cloudcore: give this machine "
            f"another name (edgecore join --name) or, if it takes that one's place, join with a token of `cloudcore "
            f"token --node {node}`"
        )
    if identity is None:
        return Enrolled("", NodeIdentity(name=node, key=key, since=begins, pinned_at=now, labels=labels))
    replaces = token is not None and token.replace and token.node == node
    if replaces and token is not None and token.created_at > identity.revoked_at:
        replaced_at = identity.replaced_at if key == identity.key and not identity.revoked_at else now
        since = max(identity.since, begins)
        made = NodeIdentity(name=node, key=key, since=since, pinned_at=now, replaced_at=replaced_at, labels=labels)
        return Enrolled("", made)
    if identity.revoked_at:
        return Enrolled(_revoked(identity))
    if identity.key and key not in (identity.key, identity.next_key):
        return Enrolled(_belongs_to_another(identity))
    if not identity.key:
        return Enrolled("", _replace(identity, key=key, since=begins, pinned_at=now, labels=labels))
    return Enrolled("", _replace(identity, since=max(identity.since, begins), labels=labels))


def refusal_by_token(token: JoinToken, asked: KeyEnrolment) -> str:
    """Return why a node may not join with a token, whoever has its name; "" if it may."""
    if token.node and token.node != asked.node:
        return f"the token is for node {token.node} only: `cloudcore token` prints another"
    if token.used_by and (token.used_by, token.used_key) != (asked.node, asked.key):
        return f"the token was for one node, and {token.used_by} has joined with it: {_ANOTHER}"
    return ""


def consumed(token: JoinToken, node: str, key: str) -> JoinToken | None:
    """Return a token after a node has joined with it; None if that changes nothing."""
    if not token.once or (token.used_by, token.used_key) == (node, key):
        return None
    return _replace(token, used_by=node, used_key=key)


_ANOTHER = "`cloudcore token` prints another"


def _revoked(identity: NodeIdentity) -> str:
    why = f" ({identity.reason})" if identity.reason else ""
    return (
        f"node {identity.name} is revoked since {format_rfc3339(identity.revoked_at)}{why}: an administrator ends that "
        f"with `cloudcore allow node {identity.name}`"
    )


def _superseded(identity: NodeIdentity) -> str:
    """Return the refusal of a certificate that the node itself has had since the name is its own."""
    return (
        f"the certificate of {identity.name} was renewed, and the new one is in use: restart its edgecore, as "
        f"KubeEdge's reads the certificate of its stream tunnel once; or, if the machine was restored from a backup, "
        f"join with a token of `cloudcore token --node {identity.name} --replace`"
    )


def _belongs_to_another(identity: NodeIdentity) -> str:
    return (
        f"the name {identity.name} belongs to the key of another machine since {format_rfc3339(identity.pinned_at)}: "
        f"give this one another name (edgecore join --name) or, if it takes the other's place or was set up anew, join "
        f"with a token of `cloudcore token --node {identity.name} --replace`"
    )
