"""Nobody grants rights that they do not have (kube-apiserver's registry of roles and bindings).

One who writes a role must hold all of its rules, or have the verb `escalate` on it; so must one who changes its labels,
which may give its rules to an aggregated role. One who writes a binding must hold all rules of its role, or have the
verb `bind` on the role. One who approves a certificate request must have the verb
`approve` on its signer, and one who stores its certificate the verb `sign` (the admission plug-ins CertificateApproval
and CertificateSigning). One who gives a Service external addresses must be allowed to update Services of all
namespaces: every node sends what is for these addresses, and be they the cloud's, to the Service's endpoints
(CVE-2020-8554; kube-apiserver's DenyServiceExternalIPs, which clusters may enable, lets nobody).
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from modules.apimachinery.api_errors import ForbiddenError, NotFoundError
from modules.apimachinery.kinds import JsonObject, Kind, key_kind, key_of, kind_named
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.validation.statuses import APPROVED, DENIED
from modules.cloud.authentication.users import User, groups_of
from modules.cloud.authorization.rbac.index import BINDINGS, ROLES, RbacIndex, role_of
from modules.cloud.authorization.rbac.rules import AccessRequest, PolicyRule, rules_in, uncovered

_REQUEST: Final = kind_named("CertificateSigningRequest")
_POD: Final = "Pod"
_SERVICE: Final = kind_named("Service")
_EVERYTHING: Final = (
    PolicyRule(frozenset("*"), frozenset("*"), frozenset("*")),
    PolicyRule(frozenset("*"), paths=frozenset("*")),
)
"""The rules that an aggregated role may gain."""
_MOST: Final = 100_000
"""Comparisons of rules for one request."""
_TOLD: Final = 10
"""Missing rules in a message."""


def admission(
    user: User, index: RbacIndex, creation: AccessRequest | None = None
) -> Callable[[JsonObject | None, JsonObject | None], None]:
    """Return a function that checks each write of a user, with the object before and after.

    The function raises ForbiddenError, and NotFoundError for a binding of a role that does not exist.

    Args:
        user: the user.
        index: the roles and bindings.
        creation: the right that a server-side apply or an update needs where it creates the object; None for others.
    """

    def admit(old: JsonObject | None, new: JsonObject | None) -> None:
        if new is None or user.is_administrator:
            return
        kind = key_kind(new)
        if old is None and creation is not None and index.allowed(user, creation) is None:
            raise _no_creation(user, creation)
        if kind in ROLES:
            _check_role(user, index, old, new)
        elif kind in BINDINGS:
            _check_binding(user, index, old, new)
        elif kind == _POD and is_mirror(new) and not is_mirror(old or {}):
            raise ForbiddenError("pods", key_of(new).name, "a mirror pod is made by its node, which pays for it")
        elif kind == _SERVICE.name:
            _check_addresses(user, index, old, new)
        elif kind == _REQUEST.name and old is not None:
            _check_signer(user, index, old, new)

    return admit


def _no_creation(user: User, asked: AccessRequest) -> ForbiddenError:
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    why = f'User "{user.name}" cannot create resource "{asked.resource}" in API group "{asked.group}" {where}'
    return ForbiddenError(asked.resource, asked.name, why, asked.group)


def _check_signer(user: User, index: RbacIndex, old: JsonObject, new: JsonObject) -> None:
    """Check that a user may approve requests to a signer, or sign them: the verb on it, or on all of its domain."""
    signer = str((old.get("spec") or {}).get("signerName") or "")
    before, after = _decided(old), _decided(new)
    for verb, is_changed in (("approve", before[0] != after[0]), ("sign", before[1:] != after[1:])):
        names = (signer, f"{signer.partition('/')[0]}/*") if is_changed else ()
        asked = [AccessRequest(verb=verb, group=_REQUEST.api_group, resource="signers", name=name) for name in names]
        if asked and not any(index.allowed(user, each) for each in asked):
            why = f'user not permitted to {verb} requests with signerName "{signer[:253]}"'
            raise ForbiddenError(_REQUEST.plural, key_of(old).name, why, _REQUEST.api_group)


def _decided(request: JsonObject) -> tuple[list[JsonObject], list[JsonObject], object]:
    """Return a request's decisions, its other conditions, and its certificate."""
    status = request.get("status") or {}
    conditions = status.get("conditions") or ()
    decisions = [each for each in conditions if each.get("type") in (APPROVED, DENIED)]
    return decisions, [each for each in conditions if each not in decisions], status.get("certificate")


def _check_addresses(user: User, index: RbacIndex, old: JsonObject | None, new: JsonObject) -> None:
    """Check that a user may add external addresses to a Service."""
    asked = AccessRequest(verb="update", resource=_SERVICE.plural)
    if _external(new) - _external(old or {}) and index.allowed(user, asked) is None:
        why = "external addresses take traffic of all nodes: whoever sets them must be allowed to update all Services"
        raise ForbiddenError(_SERVICE.plural, key_of(new).name, why)


def _external(service: JsonObject) -> set[str]:
    """Return the addresses from outside of a Service, as its owner and its load balancer say."""
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    balanced = (each.get("ip") for each in balancer.get("ingress") or ())
    return {str(each) for each in (*((service.get("spec") or {}).get("externalIPs") or ()), *balanced) if each}


def _check_role(user: User, index: RbacIndex, old: JsonObject | None, new: JsonObject) -> None:
    if old is not None and _granted(old) == _granted(new):
        return
    kind, key = kind_named(new["kind"]), key_of(new)
    request = AccessRequest(
        verb="escalate", group=kind.api_group, resource=kind.plural, namespace=key.namespace, name=key.name
    )
    if index.allowed(user, request) is not None:
        return
    is_aggregated = any((each or {}).get("aggregationRule") for each in (old, new))
    _check_held(user, index, kind, new, _EVERYTHING if is_aggregated else rules_in(new))


def _granted(role: JsonObject) -> tuple[object, ...]:
    """Return the parts of a role that give rights, its own or an aggregated role's, which selects it by labels."""
    return role.get("rules"), role.get("aggregationRule"), role["metadata"].get("labels") or {}


def _check_binding(user: User, index: RbacIndex, old: JsonObject | None, new: JsonObject) -> None:
    if old is not None and all(new.get(name) == old.get(name) for name in ("subjects", "roleRef")):
        return
    key = key_of(new)
    role = role_of(key, new.get("roleRef") or {})
    if role.kind not in ROLES:
        return  # validation refuses it
    kind = kind_named(role.kind)
    request = AccessRequest(
        verb="bind", group=kind.api_group, resource=kind.plural, namespace=key.namespace, name=role.name
    )
    if index.allowed(user, request) is not None:
        return
    wanted = index.rules_of_role(role)
    if wanted is None:
        raise NotFoundError(kind.plural, role.name, kind.api_group)
    _check_held(user, index, kind_named(new["kind"]), new, wanted)


def _check_held(user: User, index: RbacIndex, kind: Kind, new: JsonObject, wanted: Iterable[PolicyRule]) -> None:
    key = key_of(new)
    held = list({grant.rule: None for grant in index.grants(user, key.namespace)})
    missing = uncovered(wanted, held, _MOST)
    if missing:
        groups = " ".join(f'"{group}"' for group in groups_of(user))
        why = f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions'
        shown = [f"{{{_words(rule)}}}" for rule in _compact(missing)]
        told = "\n".join([f"{why} not currently held:", *shown[:_TOLD], *(["..."] if len(shown) > _TOLD else [])])
        if wanted is _EVERYTHING:
            told = "must have cluster-admin privileges to use the aggregationRule"
        raise ForbiddenError(kind.plural, key.name, told, kind.api_group)


def _compact(parts: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return rules of which those that differ by their verbs alone are one, in the order of their resources and paths
    (`CompactRules`).
    """
    verbs: dict[PolicyRule, frozenset[str]] = {}
    for part in parts:
        of_any = msgspec.structs.replace(part, verbs=frozenset())
        verbs[of_any] = verbs.get(of_any, part.verbs) | part.verbs
    return sorted((msgspec.structs.replace(rule, verbs=each) for rule, each in verbs.items()), key=_words)


def _words(rule: PolicyRule) -> str:
    """Return a rule in the words of kube-apiserver (`rbac.CompactString`)."""
    fields = (
        ("NonResourceURLs", rule.paths),
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    )
    return ", ".join(f"{name}:[{_quoted(values)}]" for name, values in fields if values)


def _quoted(values: Iterable[str]) -> str:
    return " ".join(f'"{value[:253]}"' for value in sorted(values)[:_TOLD])
