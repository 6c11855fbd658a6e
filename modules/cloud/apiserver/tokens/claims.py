"""The claims of a service account's token, and what makes them void (Kubernetes' `pkg/serviceaccount`)."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.kinds import Kind, key_for, kind_named, uid_of
from modules.apimachinery.times import parse_rfc3339
from modules.cloud.authentication.jws import JwsError, read_jws
from modules.cloud.authentication.users import SERVICE_ACCOUNTS, User

if TYPE_CHECKING:
    from modules.apimachinery.lister import Lister

_ACCOUNT, _POD, _SECRET, _NODE = (kind_named(name) for name in ("ServiceAccount", "Pod", "Secret", "Node"))
_EXTRA: Final = "authentication.kubernetes.io/"
_LEEWAY: Final = 60
"""Seconds that clocks of cloudcores may differ, and that an object still counts while it is being deleted."""


class BoundReference(msgspec.Struct, frozen=True):
    """An object by its name and uid."""

    name: str = ""
    uid: str = ""


class BoundObjects(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The objects that a token is bound to."""

    namespace: str
    node: BoundReference | None = None
    """The node of the pod, which is not checked, or the node that the token is bound to."""
    pod: BoundReference | None = None
    secret: BoundReference | None = None
    serviceaccount: BoundReference


class AccountClaims(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The claims of a token."""

    aud: tuple[str, ...]
    exp: int | None = None
    """None: it does not expire."""
    iat: int
    iss: str
    jti: str
    bound: BoundObjects = msgspec.field(name="kubernetes.io")
    nbf: int
    sub: str

    @property
    def user(self) -> User:
        """The user that the token stands for."""
        bound = self.bound
        extra = {f"{_EXTRA}credential-id": (f"JTI={self.jti}",)}
        for part, reference in (("node", bound.node), ("pod", bound.pod)):
            if reference is not None:
                extra[f"{_EXTRA}{part}-name"] = (reference.name,)
                extra |= {f"{_EXTRA}{part}-uid": (reference.uid,)} if reference.uid else {}
        groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{bound.namespace}")
        return User(self.sub, bound.serviceaccount.uid, groups, tuple(extra.items()))


def subject(namespace: str, account: str) -> str:
    """Return the name of the user that a service account is."""
    return f"system:serviceaccount:{namespace}:{account}"


def read_claims(payload: bytes, issuer: str, now: float | None) -> AccountClaims | None:
    """Return the claims in the payload of a token whose signature was checked; None for a token of another issuer, or
    a token that is malformed, expired or not valid yet; that does not count without a time.
    """
    try:
        claims = decode_json(payload, AccountClaims)
    except (msgspec.DecodeError, UnicodeError):
        return None
    account = claims.bound.serviceaccount
    is_own = claims.iss == issuer and claims.sub == subject(claims.bound.namespace, account.name)
    counts = now is None or (claims.nbf - _LEEWAY <= now and (claims.exp is None or now < claims.exp))
    return claims if is_own and counts else None


def is_void(claims: AccountClaims, objects: Lister, now: float) -> bool:
    """Return whether a token has lost an object that it is bound to; or its place in its Secret, if it does not
    expire.
    """
    return _has_lost_object(claims.bound, objects, now) or (claims.exp is None and not _is_in_secret(claims, objects))


def _has_lost_object(bound: BoundObjects, objects: Lister, now: float) -> bool:
    """Return whether an object that a token is bound to was deleted, or replaced by another of its name."""
    wanted: list[tuple[Kind, BoundReference | None]] = [(_ACCOUNT, bound.serviceaccount), (_POD, bound.pod)]
    wanted.append((_SECRET, bound.secret))
    if bound.pod is None:
        wanted.append((_NODE, bound.node))
    return any(
        reference is not None and not _is_there(kind, bound.namespace, reference, objects, now)
        for kind, reference in wanted
    )


def _is_there(kind: Kind, namespace: str, reference: BoundReference, objects: Lister, now: float) -> bool:
    found = objects.find(key_for(kind, namespace, reference.name))
    if found is None or uid_of(found) != reference.uid:
        return False
    ends = found["metadata"].get("deletionTimestamp")
    return not ends or now <= (parse_rfc3339(ends) or 0) + _LEEWAY


class _Identified(msgspec.Struct):
    jti: str


def _is_in_secret(claims: AccountClaims, objects: Lister) -> bool:
    secret = claims.bound.secret
    found = None if secret is None else objects.find(key_for(_SECRET, claims.bound.namespace, secret.name))
    stored = ((found or {}).get("data") or {}).get("token")
    try:
        payload = read_jws(b64decode(str(stored)).decode()).payload
        return decode_json(payload, _Identified).jti == claims.jti
    except (ValueError, JwsError, msgspec.DecodeError):
        return False
