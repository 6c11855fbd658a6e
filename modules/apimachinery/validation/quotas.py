"""The rules of ResourceQuotas."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, invalid, required, unsupported
from modules.apimachinery.validation.metadata import immutable
from modules.apimachinery.validation.names import faults_of_label_key
from modules.apimachinery.validation.resources import amount_of, is_native
from modules.apimachinery.validation.rules import quantity

_OF_PODS: Final = frozenset((
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.ephemeral-storage", "limits.cpu",
    "limits.memory", "limits.ephemeral-storage", "pods",
))  # fmt: skip
_COUNTED: Final = frozenset((
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
))  # fmt: skip
_STANDARD: Final = _OF_PODS | _COUNTED | {"requests.storage"}
_HUGE: Final = ("hugepages-", "requests.hugepages-")
_REQUESTED: Final = "requests."
"""The beginning of the names of what pods ask for, of which no part need be whole."""
_SCOPES: Final = (
    "BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating",
)  # fmt: skip
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITH_VALUES: Final = ("In", "NotIn")
_OPERATORS: Final = ("DoesNotExist", "Exists", "In", "NotIn")
_ONLY_EXISTS: Final = (
    "ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_LONGEST: Final = 253


def resource_quota(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a ResourceQuota."""
    spec, root = obj.get("spec") or {}, f"{path}.spec".lstrip(".")
    hard = spec.get("hard") or {}
    for name, amount in hard.items():
        _bound(name, amount, f"{root}.hard[{name[:_LONGEST]}]", found)
    _scopes(spec.get("scopes") or (), hard, f"{root}.scopes", found)
    selector = spec.get("scopeSelector") or {}
    expressions, where = selector.get("matchExpressions") or (), f"{root}.scopeSelector.matchExpressions"
    for expression in expressions:
        _expression(expression, where, found)
    _scopes([str(each.get("scopeName") or "") for each in expressions], hard, where, found)


def resource_quota_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a ResourceQuota keeps its scopes."""
    after, before = (sorted((each.get("spec") or {}).get("scopes") or ()) for each in (new, live))
    immutable(after, before, "spec.scopes", found)


def _bound(name: str, amount: Any, path: str, found: Causes) -> None:
    faults = [*faults_of_label_key(name)]
    for why in faults:
        found.append(invalid(path, name, why))
    if not faults and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE):
        found.append(invalid(path, name, "must be a standard resource for quota"))
    quantity(amount, path, found)
    value = amount_of(amount)
    is_count = name in _COUNTED or not (is_native(name) or name.startswith(_REQUESTED))
    if is_count and value is not None and value.denominator != 1:
        found.append(invalid(path, str(amount), "must be an integer"))


def _scopes(given: Sequence[str], hard: Mapping[str, Any], path: str, found: Causes) -> None:
    for scope in given:
        if scope not in _SCOPES:
            found.append(invalid(path, scope, "unsupported scope"))
            continue
        of_scope = {"pods"} if scope == "BestEffort" else _OF_PODS
        if any(name in _STANDARD and name not in of_scope for name in hard):
            found.append(invalid(path, scope, "unsupported scope applied to resource"))
    if any(pair <= {*given} for pair in _CONFLICTS):
        found.append(invalid(path, [*given], "conflicting scopes"))


def _expression(expression: Mapping[str, Any], path: str, found: Causes) -> None:
    scope, operator = str(expression.get("scopeName") or ""), str(expression.get("operator") or "")
    if not scope:
        found.append(required(f"{path}.scopeName", "must be a valid scope name"))
    if operator not in _OPERATORS:
        found.append(unsupported(f"{path}.operator", operator, _OPERATORS))
    elif scope != "PriorityClass" and operator != "Exists":
        found.append(invalid(f"{path}.operator", operator, f"must be 'Exist' when scope is any of {_ONLY_EXISTS}"))
    if operator in _WITH_VALUES and not expression.get("values"):
        why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        found.append(required(f"{path}.values", why))
    if operator in ("Exists", "DoesNotExist") and expression.get("values"):
        why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        found.append(invalid(f"{path}.values", expression["values"], why))
