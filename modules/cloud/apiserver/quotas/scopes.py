"""Which pods a ResourceQuota is about."""

from collections.abc import Iterator
from typing import Any, Final

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, key_kind
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types.pods import Pod
from modules.apimachinery.types.quantity import QuantityError

_BEST_EFFORT: Final = "BestEffort"
_OPPOSITES: Final = {"NotTerminating": "Terminating", "NotBestEffort": _BEST_EFFORT}


def is_about(quota: JsonObject, obj: JsonObject) -> bool:
    """Return whether an object counts for a quota: one with scopes is about some pods only, and none is about mirror
    pods, with which a node could use up the quota of any namespace.
    """
    if key_kind(obj) == "Pod" and is_mirror(obj):
        return False
    requirements = [*_requirements(quota)]
    return not requirements or (key_kind(obj) == "Pod" and all(_fits(obj, one) for one in requirements))


def _requirements(quota: JsonObject) -> Iterator[JsonObject]:
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def _fits(pod: JsonObject, requirement: JsonObject) -> bool:
    scope = str(requirement.get("scopeName"))
    if scope == "PriorityClass":
        return _has_class(pod, str(requirement.get("operator")), requirement.get("values") or ())
    if scope in _OPPOSITES:
        return not _has_scope(pod, _OPPOSITES[scope])
    return _has_scope(pod, scope)


def _has_scope(pod: JsonObject, scope: str) -> bool:
    spec = pod.get("spec") or {}
    match scope:
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "BestEffort":
            return _is_best_effort(pod)
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in _terms(spec))
    return False


def _is_best_effort(pod: JsonObject) -> bool:
    """Return whether a pod asks for nothing, by its spec: its node writes the class in the status."""
    try:
        return qos_class(convert(pod, Pod, "Pod")) is QosClass.BEST_EFFORT
    except (BadRequestError, QuantityError):  # a node's mirror pod with amounts that cannot be read
        return False


def _terms(spec: JsonObject) -> Iterator[JsonObject]:
    for rules in ("podAffinity", "podAntiAffinity"):
        given = (spec.get("affinity") or {}).get(rules) or {}
        yield from given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in given.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _has_class(pod: JsonObject, operator: str, values: Any) -> bool:
    name = (pod.get("spec") or {}).get("priorityClassName") or ""
    match operator:
        case "In":
            return name in values
        case "NotIn":
            return name not in values
        case "DoesNotExist":
            return not name
    return bool(name)
