"""The user of a request, as Kubernetes' authenticators describe one."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

ADMINISTRATORS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
RESERVED: Final = ("system:", "kubeedge:")
"""Prefixes of the names of Kubernetes' and KubeEdge's users and groups."""
_NODES: Final = "system:nodes"
_NODE: Final = "system:node:"
_ACCOUNT: Final = "system:serviceaccount:"
_COMPONENTS: Final = ("system:kube-", f"{_ACCOUNT}kube-system:")


class User(msgspec.Struct, frozen=True):
    """A user with its groups."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further facts from the authenticator, by name."""
    has_all_groups: bool = False
    """Whether `groups` are complete, as in a review about the user: the API server adds none."""

    @property
    def is_administrator(self) -> bool:
        """Whether the user may do everything."""
        return ADMINISTRATORS in self.groups

    @property
    def node(self) -> str:
        """The name of the node that the user is; "" for others."""
        is_node = _NODES in self.groups and self.name.startswith(_NODE)
        return self.name.removeprefix(_NODE) if is_node else ""


class Authenticated(NamedTuple):
    """The user of a token that was accepted."""

    user: User
    audiences: tuple[str, ...] = ()
    """The audiences that were wanted and that the token has."""


ANONYMOUS: Final = User("system:anonymous", groups=(UNAUTHENTICATED,))
"""The user of a request without credentials."""


def is_reserved(name: str) -> bool:
    """Return whether only certificates, service accounts and the administrator's own files make users or groups of
    such a name.
    """
    return name.startswith(RESERVED)


def groups_of(user: User) -> tuple[str, ...]:
    """Return the groups of a user, with `system:authenticated`, or `system:unauthenticated` for the anonymous user."""
    if user.has_all_groups or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user.groups
    return (*user.groups, UNAUTHENTICATED if user.name == ANONYMOUS.name else AUTHENTICATED)


def runs_cluster(user: User) -> bool:
    """Return whether a user keeps the cluster running: an administrator, a node, a component of Kubernetes (such as
    `system:kube-scheduler`) or a service account of kube-system.
    """
    return user.is_administrator or bool(user.node) or user.name.startswith(_COMPONENTS)


def share_of(user: User) -> str:
    """Return the name of the share that a user has of what all users share. The service accounts of a namespace have
    one together, because who may make pods there can be each of them; not so those of kube-system.
    """
    if not user.name.startswith(_ACCOUNT) or runs_cluster(user):
        return user.name
    return _ACCOUNT + user.name.removeprefix(_ACCOUNT).partition(":")[0]


def user_info(user: User) -> dict[str, Any]:
    """Return a user as reviews show it (authentication/v1 UserInfo)."""
    info: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": [*groups_of(user)]}
    return {**info, "extra": {name: [*values] for name, values in user.extra}} if user.extra else info


def user_of_certificate(certificate: Mapping[str, Any] | None) -> User | None:
    """Return the user of a verified client certificate: CN is the name, each O a group; None without exactly one CN.

    Args:
        certificate: in the form of `ssl.SSLSocket.getpeercert`.
    """
    subject = [pair for names in (certificate or {}).get("subject", ()) for pair in names]
    names = [str(value) for key, value in subject if key == "commonName"]
    if len(names) != 1 or not names[0]:
        return None
    return User(names[0], groups=tuple(str(value) for key, value in subject if key == "organizationName"))
