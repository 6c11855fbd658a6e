"""Answers access reviews about a user's rights by RBAC."""

from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.unvalidated import as_text
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.authorization.rbac.rules import AccessRequest, PolicyRule

_LONGEST: Final = 1024
"""Characters of a name or a path."""
_FIELDS: Final = ("verb", "group", "resource", "subresource", "namespace", "name")
_ALL: Final = frozenset("*")
_EVERYTHING: Final = (PolicyRule(_ALL, _ALL, _ALL), PolicyRule(_ALL, paths=_ALL))


def request_of(spec: JsonObject) -> AccessRequest:
    """Return the request that a review's `resourceAttributes` or `nonResourceAttributes` are about."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(resource, dict):
        return AccessRequest(**{name: as_text(resource.get(name), _LONGEST) for name in _FIELDS})
    asked = path if isinstance(path, dict) else {}
    return AccessRequest(verb=as_text(asked.get("verb"), _LONGEST), path=as_text(asked.get("path"), _LONGEST))


def decision(user: User, spec: JsonObject, index: RbacIndex) -> JsonObject:
    """Return the status of an access review about a user."""
    if user.is_administrator:
        return {"allowed": True}
    grant = index.allowed(user, request_of(spec))
    return {"allowed": False} if grant is None else {"allowed": True, "reason": grant.reason}


def rules_status(user: User, namespace: str, index: RbacIndex) -> JsonObject:
    """Return the status of a SelfSubjectRulesReview: the rules that a user has in a namespace."""
    held = _EVERYTHING if user.is_administrator else (each.rule for each in index.grants(user, namespace))
    status: JsonObject = {"resourceRules": [], "nonResourceRules": [], "incomplete": False}
    for rule in dict.fromkeys(held):
        status["nonResourceRules" if rule.paths else "resourceRules"].append(rule.in_json())
    return status
