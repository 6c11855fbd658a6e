"""Conditions in the status of a workload."""

from modules.apimachinery.conditions import Conditions, condition_in, without
from modules.apimachinery.kinds import JsonObject


def with_condition(conditions: Conditions, new: JsonObject) -> list[JsonObject]:
    """Return the conditions with a new one, which changes nothing if its status and reason are the present ones, and
    keeps the time of the transition if the status is the present one.
    """
    old = condition_in(conditions, new["type"])
    if old.get("status") == new["status"]:
        if old.get("reason") == new.get("reason"):
            return list(conditions)
        if "lastTransitionTime" in old:
            new = {**new, "lastTransitionTime": old["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def kept(status: JsonObject) -> JsonObject:
    """Return the part of a new status with the conditions that others have written into the present one."""
    return {"conditions": status["conditions"]} if status.get("conditions") else {}
