"""Conditions in the status of an object."""

from collections.abc import Sequence

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import parse_rfc3339

Conditions = Sequence[JsonObject]


def conditions_of(obj: JsonObject) -> list[JsonObject]:
    """Return the conditions of an object, without values that are none: a node or a user may have written them."""
    found = (obj.get("status") or {}).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def condition_of(obj: JsonObject, kind: str) -> JsonObject:
    """Return a condition of an object; an empty one by default."""
    return condition_in(conditions_of(obj), kind)


def condition_in(conditions: Conditions, kind: str) -> JsonObject:
    """Return the condition of a type; an empty one by default."""
    return next((one for one in conditions if one.get("type") == kind), {})


def is_true(obj: JsonObject, kind: str) -> bool:
    """Return whether a condition of an object is True."""
    return condition_of(obj, kind).get("status") == "True"


def is_ready(obj: JsonObject) -> bool:
    """Return whether the condition Ready of a pod or node is True."""
    return is_true(obj, "Ready")


def without(conditions: Conditions, kind: str) -> list[JsonObject]:
    """Return the conditions of other types."""
    return [one for one in conditions if one.get("type") != kind]


def with_condition(obj: JsonObject, condition: JsonObject) -> JsonObject:
    """Return an object with a condition, which comes after those of other types."""
    others = without(conditions_of(obj), condition["type"])
    return {**obj, "status": {**(obj.get("status") or {}), "conditions": [*others, condition]}}


def timed(condition: JsonObject, old: JsonObject, now: str) -> JsonObject:
    """Return a condition with the time of its last transition: that of the old one while the status stays.

    Args:
        condition: the condition, without the time.
        old: the present one of its type; empty if there is none.
        now: RFC 3339.
    """
    since = old.get("lastTransitionTime") if old.get("status") == condition.get("status") else None
    return {**condition, "lastTransitionTime": since or now}


def changed_at(condition: JsonObject) -> float | None:
    """Return the last transition of a condition, in seconds since the epoch; None if it has no time."""
    return parse_rfc3339(str(condition.get("lastTransitionTime") or ""))
