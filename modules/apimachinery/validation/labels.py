"""The rules of labels, selectors, taints, tolerations and affinity."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.validation.causes import Causes, duplicate, forbidden, invalid, required
from modules.apimachinery.validation.names import (
    faults_of_label,
    faults_of_label_key,
    faults_of_label_value,
    faults_of_subdomain,
)
from modules.apimachinery.validation.rules import Each, Fields, between, named, needed, one_of, or_zero, pointer

label_key = named(faults_of_label_key)
label_value = named(faults_of_label_value)

_IN: Final = ("In", "NotIn")
_EXISTS: Final = ("Exists", "DoesNotExist")
_COMPARE: Final = ("Gt", "Lt")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_OPERATOR: Final = "not a valid selector operator"


def labels(value: Mapping[str, str], path: str, found: Causes) -> None:
    """Check the keys and values of labels; each is reported at the path of the map, as an API server does."""
    for key, member in value.items():
        label_key(key, path, found)
        label_value(member, path, found)


def label_requirement(value: Mapping[str, Any], path: str, found: Causes, *, of_any_operator: bool = False) -> None:
    """Check a requirement of a label selector.

    Args:
        value: the requirement.
        path: its path.
        found: takes the faults.
        of_any_operator: whether it may have an operator that is not known (AllowUnknownOperatorInRequirement).
    """
    _requirement(value, path, found, of_any_operator=of_any_operator)
    for index, text in enumerate(value.get("values") or ()):
        label_value(text, f"{path}.values[{index}]", found)


def _requirement(value: Mapping[str, Any], path: str, found: Causes, *, of_any_operator: bool = False) -> None:
    """Check a requirement without its values, which a node's may be any: no label has a bad one."""
    operator, values = value.get("operator") or "", value.get("values") or []
    if operator in _IN and not values:
        found.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in _EXISTS and values:
        why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        found.append(forbidden(f"{path}.values", why))
    elif operator not in (*_IN, *_EXISTS) and not of_any_operator:
        found.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    label_key(value.get("key") or "", f"{path}.key", found)


label_selector = Fields({"matchLabels": labels, "matchExpressions": Each(label_requirement)})


def _node_requirement(value: Mapping[str, Any], path: str, found: Causes) -> None:
    operator, values = value.get("operator") or "", value.get("values") or []
    if operator in _COMPARE:
        if len(values) != 1:
            why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            found.append(required(f"{path}.values", why))
        label_key(value.get("key") or "", f"{path}.key", found)
        return
    _requirement(value, path, found)


def _field_requirement(value: Mapping[str, Any], path: str, found: Causes) -> None:
    operator, values, key = value.get("operator") or "", value.get("values") or [], value.get("key") or ""
    if operator not in _IN:
        found.append(invalid(f"{path}.operator", operator, _NO_OPERATOR))
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        found.append(required(f"{path}.values", why))
    if key != "metadata.name":
        found.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, text in enumerate(values):
        named(faults_of_subdomain)(text, f"{path}.values[{index}]", found)


_NODE_TERM: Final = Fields({"matchExpressions": Each(_node_requirement), "matchFields": Each(_field_requirement)})
node_selector = Fields({"nodeSelectorTerms": needed(Each(_NODE_TERM), "must have at least one node selector term")})

_WEIGHT: Final = or_zero(between(1, 100, "must be in the range 1-100"))


def _namespaces(value: Any, path: str, found: Causes) -> None:
    for name in value:
        for why in faults_of_label(name):
            found.append(invalid(f"{path.removesuffix('s')}", name, why))


def _keys_of_term(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check matchLabelKeys and mismatchLabelKeys of a pod affinity term."""
    mismatched = set(value.get("mismatchLabelKeys") or ())
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = value.get(name) or ()
        if keys and value.get("labelSelector") is None:
            found.append(forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set"))
            continue
        for index, key in enumerate(keys):
            label_key(key, f"{path}.{name}[{index}]", found)
            if name == "matchLabelKeys" and key in mismatched:
                why = "exists in both matchLabelKeys and mismatchLabelKeys"
                found.append(invalid(f"{path}.{name}[{index}]", key, why))


def _topology_key(value: str, path: str, found: Causes) -> None:
    if not value:
        found.append(required(path, "can not be empty"))
    label_key(value, path, found)


_POD_TERM: Final = Fields(
    {
        "labelSelector": label_selector,
        "namespaceSelector": label_selector,
        "namespaces": _namespaces,
        "topologyKey": or_zero(_topology_key, ""),
    },
    _keys_of_term,
)
_POD_AFFINITY: Final = Fields(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": Each(_POD_TERM),
        "preferredDuringSchedulingIgnoredDuringExecution": Each(
            Fields({"weight": _WEIGHT, "podAffinityTerm": or_zero(_POD_TERM, {})})
        ),
    }
)
affinity = Fields(
    {
        "nodeAffinity": Fields(
            {
                "requiredDuringSchedulingIgnoredDuringExecution": node_selector,
                "preferredDuringSchedulingIgnoredDuringExecution": Each(
                    Fields({"weight": _WEIGHT, "preference": _NODE_TERM})
                ),
            }
        ),
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    }
)


def toleration(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a toleration of a pod."""
    key, operator, effect = (value.get(name) or "" for name in ("key", "operator", "effect"))
    text = value.get("value") or ""
    if key:
        label_key(key, f"{path}.key", found)
    elif operator != "Exists":
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        found.append(invalid(f"{path}.operator", operator, why))
    if value.get("tolerationSeconds") is not None and effect != "NoExecute":
        why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        found.append(invalid(f"{path}.effect", effect, why))
    if operator in ("", "Equal"):
        if faults := list(faults_of_label_value(text)):
            found.append(invalid(f"{path}.operator", text, ";".join(faults)))
    elif operator != "Exists":
        one_of("Equal", "Exists")(operator, f"{path}.operator", found)
    elif text:
        found.append(invalid(f"{path}.operator", text, "value must be empty when `operator` is 'Exists'"))
    if effect:
        one_of(*EFFECTS)(effect, f"{path}.effect", found)


def taints(value: Any, path: str, found: Causes) -> None:
    """Check the taints of a Node."""
    seen = set[tuple[str, str]]()
    for index, taint in enumerate(value):
        where, key, effect = f"{path}[{index}]", taint.get("key") or "", taint.get("effect") or ""
        label_key(key, f"{where}.key", found)
        if faults := list(faults_of_label_value(taint.get("value") or "")):
            found.append(invalid(f"{where}.value", taint["value"], ";".join(faults)))
        if not effect:
            found.append(required(f"{where}.effect"))
        else:
            one_of(*EFFECTS)(effect, f"{where}.effect", found)
        if (key, effect) in seen:
            found.append(duplicate(where, taint, "taints must be unique by key and effect pair"))
        seen.add((key, effect))


_POLICY: Final = one_of("Honor", "Ignore")


def _spread(value: Mapping[str, Any], path: str, found: Causes) -> None:
    action, least = value.get("whenUnsatisfiable") or "", value.get("minDomains")
    if least is not None and action != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        found.append(invalid(f"{path}.minDomains", least, why))
    selector = value.get("labelSelector")
    chosen = {*((selector or {}).get("matchLabels") or {})}
    chosen |= {each.get("key") for each in (selector or {}).get("matchExpressions") or ()}
    if value.get("matchLabelKeys") and selector is None:
        found.append(forbidden(f"{path}.matchLabelKeys", "must not be specified when labelSelector is not set"))
    for index, key in enumerate(value.get("matchLabelKeys") or ()):
        label_key(key, f"{path}.matchLabelKeys[{index}]", found)
        if key in chosen:
            why = "exists in both matchLabelKeys and labelSelector"
            found.append(invalid(f"{path}.matchLabelKeys[{index}]", key, why))


_POSITIVE: Final = between(1, 2**31 - 1, "must be greater than zero")
_CONSTRAINT: Final = Fields(
    {
        "maxSkew": or_zero(_POSITIVE),
        "topologyKey": needed(why="can not be empty"),
        "whenUnsatisfiable": or_zero(one_of("DoNotSchedule", "ScheduleAnyway"), ""),
        "minDomains": pointer(_POSITIVE),
        "nodeAffinityPolicy": pointer(_POLICY),
        "nodeTaintsPolicy": pointer(_POLICY),
        "labelSelector": label_selector,
    },
    _spread,
)


def topology_spread_constraints(value: Any, path: str, found: Causes) -> None:
    """Check the constraints: no two may have the same topologyKey and whenUnsatisfiable."""
    Each(_CONSTRAINT)(value, path, found)
    seen = set[str]()
    for index, each in enumerate(value):
        pair = f"{{{each.get('topologyKey') or ''}, {each.get('whenUnsatisfiable') or ''}}}"
        if pair in seen:
            found.append(duplicate(f"{path}[{index}].{{topologyKey, whenUnsatisfiable}}", pair))
        seen.add(pair)
