"""Conditions in the status of a workload."""

from collections.abc import Sequence

from modules.apimachinery.kinds import JsonObject

Conditions = Sequence[JsonObject]


def found(conditions: Conditions, kind: str) -> JsonObject | None:
    """Return the condition of a type, or None."""
    return next((one for one in conditions if one.get("type") == kind), None)


def without(conditions: Conditions, kind: str) -> list[JsonObject]:
    """Return the conditions of other types."""
    return [one for one in conditions if one.get("type") != kind]


def with_condition(conditions: Conditions, new: JsonObject) -> list[JsonObject]:
    """Return the conditions with a new one, which changes nothing if its status and reason are the present ones, and
    keeps the time of the transition if the status is the present one.
    """
    old = found(conditions, new["type"])
    if old is not None and old.get("status") == new["status"] and old.get("reason") == new.get("reason"):
        return list(conditions)
    if old is not None and old.get("status") == new["status"] and "lastTransitionTime" in old:
        new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def kept(status: JsonObject) -> JsonObject:
    """Return the part of a new status with the conditions that others have written into the present one."""
    return {"conditions": status["conditions"]} if status.get("conditions") else {}
