"""The rules of FlowSchemas and PriorityLevelConfigurations (Kubernetes 1.32, `flowcontrol/validation`)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Cause, Causes, duplicate, forbidden, invalid, required, unsupported
from modules.apimachinery.validation.names import faults_of_label, faults_of_subdomain
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Row,
    Rule,
    anything,
    at_least,
    between,
    named,
    needed,
    one_of,
    or_zero,
    pointer,
)

_EXEMPT: Final = "exempt"
_ALL: Final = "*"
_LAST: Final = 10000
"""The greatest precedence of a FlowSchema."""
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_MEMBERS: Final = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
"""By kind of a subject, the member that describes it."""
_MOST_QUEUES: Final = 10**7
_HASH_BITS: Final = 60
_subdomain, _label = named(faults_of_subdomain), named(faults_of_label)


def _list_or_all(what: str, of_empty: str, each: Rule = anything) -> Row:
    """Return the row of a list that must not be empty, and where `*` is alone."""

    def rule(value: Sequence[str], path: str, found: Causes) -> None:
        if _ALL not in value:
            for place, text in enumerate(value):
                each(text, f"{path}[{place}]", found)
        elif len(value) > 1:
            found.append(invalid(path, value, f"if '*' is present, must not specify other {what}"))

    return needed(rule, of_empty)


def _verbs(value: Sequence[str], path: str, found: Causes) -> None:
    if _ALL in value:
        if len(value) > 1:
            found.append(invalid(path, value, "if '*' is present, must not specify other verbs"))
    elif not set(value) <= set(_VERBS):
        found.append(unsupported(path, value, _VERBS))


def _url(value: str, path: str, found: Causes) -> None:
    stars = value.count(_ALL)
    if not value:
        found.append(invalid(path, value, "must not be empty"))
    elif not value.startswith("/"):
        found.append(invalid(path, value, "must start with slash"))
    elif " " in value:
        found.append(invalid(path, value, "must not contain white-space"))
    elif "//" in value:
        found.append(invalid(path, value, "must not contain double slash"))
    elif stars > 1 or (stars and not value.endswith("/*")):
        found.append(invalid(path, value, "wildcard can only do suffix matching"))


def _namespace(value: str, path: str, found: Causes) -> None:
    for why in faults_of_label(value):
        found.append(invalid(path, value, f"each member of this list must be '*' or a DNS-1123 label; {why}"))


def _namespaces(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if value.get("namespaces") or not value.get("clusterScope"):
        _NAMESPACES({"namespaces": value.get("namespaces")}, path, found)


_NAMESPACES: Final = Fields(
    {
        "namespaces": _list_or_all(
            "namespaces",
            "resource rules that are not cluster scoped must supply at least one namespace",
            _namespace,
        )
    }
)
_OF_VERBS: Final = needed(_verbs, "verbs must contain at least one value")
_RESOURCES: Final = Fields(
    {
        "verbs": _OF_VERBS,
        "apiGroups": _list_or_all("api groups", "resource rules must supply at least one api group"),
        "resources": _list_or_all("resources", "resource rules must supply at least one resource"),
    },
    _namespaces,
)
_URLS: Final = Fields(
    {
        "verbs": _OF_VERBS,
        "nonResourceURLs": _list_or_all("non-resource URLs", "nonResourceURLs must contain at least one value", _url),
    }
)


def _account(value: str, path: str, found: Causes) -> None:
    if value != _ALL:
        _subdomain(value, path, found)


_SUBJECTS: Final = {
    "ServiceAccount": Fields(
        {"name": needed(_account), "namespace": needed(_label, "must specify namespace for service account")}
    ),
    **dict.fromkeys(("User", "Group"), Fields({"name": needed()})),
}


def _subject(value: Mapping[str, Any], path: str, found: Causes) -> None:
    kind = value.get("kind") or ""
    if kind not in _MEMBERS:
        found.append(unsupported(f"{path}.kind", kind, tuple(_MEMBERS)))
        return
    member = value.get(_MEMBERS[kind])
    if member is None:
        found.append(
            required(f"{path}.{_MEMBERS[kind]}", f"{_MEMBERS[kind]} is required when subject kind is '{kind}'")
        )
    else:
        _SUBJECTS[kind](member, f"{path}.{_MEMBERS[kind]}", found)
    for other in ("ServiceAccount", "User", "Group"):
        if other != kind and value.get(_MEMBERS[other]) is not None:
            why = f"{_MEMBERS[other]} is forbidden when subject kind is not '{other}'"
            found.append(forbidden(f"{path}.{_MEMBERS[other]}", why))


def _some(value: Mapping[str, Any], path: str, found: Causes) -> None:
    if not value.get("resourceRules") and not value.get("nonResourceRules"):
        found.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))


_RULE: Final = Fields(
    {
        "subjects": needed(Each(_subject), "subjects must contain at least one value"),
        "resourceRules": Each(_RESOURCES),
        "nonResourceRules": Each(_URLS),
    },
    _some,
)


def _precedence(value: int, path: str, found: Causes) -> None:
    if value <= 0:
        found.append(invalid(path, value, "must be a positive value"))
    elif value > _LAST:
        found.append(invalid(path, value, f"must not be greater than {_LAST}"))


_SCHEMA: Final = Fields(
    {
        "matchingPrecedence": or_zero(_precedence),
        "distinguisherMethod": Fields({"type": or_zero(one_of("ByNamespace", "ByUser"), "")}),
        "priorityLevelConfiguration": or_zero(
            Fields({"name": needed(_subdomain, "must reference a priority level")}), {}
        ),
        "rules": Each(_RULE),
    }
)


def flow_schema(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a FlowSchema."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name")
    if spec.get("matchingPrecedence") == 1 and name != _EXEMPT:
        why = "only the schema named 'exempt' may have matchingPrecedence 1"
        found.append(invalid(f"{path}.spec.matchingPrecedence", 1, why))
    _SCHEMA(spec, f"{path}.spec", found)


def _hand(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the number of queues, and how many of them a flow may use: their choice has sixty bits."""
    queues, hand = value.get("queues") or 0, value.get("handSize") or 0
    if not 0 < queues <= _MOST_QUEUES:
        why = "must be positive" if queues <= 0 else f"must not be greater than {_MOST_QUEUES}"
        found.append(invalid(f"{path}.queues", queues, why))
    if hand <= 0:
        found.append(invalid(f"{path}.handSize", hand, "must be positive"))
    elif hand > queues:
        found.append(invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif _bits(queues, hand) > _HASH_BITS:
        why = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        found.append(invalid(f"{path}.handSize", hand, why))


def _bits(queues: int, hand: int) -> int:
    """Return how many bits choose some of the queues, in order; one too many without counting them all."""
    if hand > _HASH_BITS and queues > 2 * _HASH_BITS:
        return _HASH_BITS + 1
    return math.ceil(sum(math.log2(queues - taken) for taken in range(hand)))


_PERCENT: Final = pointer(between(0, 100, "must be between 0 and 100, inclusive"))
_SHARES: Final = pointer(at_least(0, "must be a non-negative integer"))
_QUEUING: Final = Fields({"queueLengthLimit": or_zero(at_least(1, "must be positive"))}, _hand)
_OF_EXEMPT: Final = Fields({"nominalConcurrencyShares": _SHARES, "lendablePercent": _PERCENT})


def _response(value: Mapping[str, Any], path: str, found: Causes) -> None:
    kind, queuing = value.get("type") or "", value.get("queuing")
    if kind not in ("Queue", "Reject"):
        found.append(unsupported(f"{path}.type", kind, ("Queue", "Reject")))
    elif kind == "Reject" and queuing is not None:
        found.append(forbidden(f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited"))
    elif kind == "Queue" and queuing is None:
        found.append(required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited"))
    elif queuing is not None:
        _QUEUING(queuing, f"{path}.queuing", found)


_OF_LIMITED: Final = Fields(
    {
        "nominalConcurrencyShares": _SHARES,
        "limitResponse": or_zero(_response, {}),
        "lendablePercent": _PERCENT,
        "borrowingLimitPercent": pointer(at_least(0, "if specified, must be a non-negative integer")),
    }
)


def priority_level(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a PriorityLevelConfiguration."""
    spec, where = obj.get("spec") or {}, f"{path}.spec"
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (obj["metadata"].get("name") == _EXEMPT) != (kind == "Exempt"):
        found.append(invalid(f"{where}.type", kind, "type must be 'Exempt' if and only if name is 'exempt'"))
    if kind == "Exempt":
        if limited is not None:
            found.append(forbidden(f"{where}.limited", "must be nil if the type is not Limited"))
        _OF_EXEMPT(exempt or {}, f"{where}.exempt", found)
    elif kind == "Limited":
        if exempt is not None:
            found.append(forbidden(f"{where}.exempt", "must be nil if the type is Limited"))
        if limited is None:
            found.append(required(f"{where}.limited", "must not be empty when type is Limited"))
        else:
            _OF_LIMITED(limited, f"{where}.limited", found)
    else:
        found.append(unsupported(f"{where}.type", kind, ("Exempt", "Limited")))


def conditions(new: JsonObject, live: JsonObject, found: Causes) -> None:  # noqa: ARG001 - a rule of statuses
    """Check that each condition of a status has a type of its own."""
    seen = set[str]()
    for place, each in enumerate((new.get("status") or {}).get("conditions") or ()):
        where, kind = f"status.conditions[{place}].type", str(each.get("type") or "")
        faults: tuple[Cause, ...] = (duplicate(where, kind),) if kind in seen else ()
        for fault in faults if kind else (*faults, required(where, "must not be empty")):
            found.append(fault)
        seen.add(kind)
