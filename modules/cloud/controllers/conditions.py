"""Conditions in the status of a workload."""

from modules.apimachinery.conditions import Conditions, condition_in, without
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.times import format_rfc3339


def new_condition(kind: str, status: str, reason: str, message: str, now: float, checked: str = "") -> JsonObject:
    """Return a new condition; `checked` is the name of a second field with its time."""
    moment = format_rfc3339(now)
    return {
        "type": kind,
        "status": status,
        **({checked: moment} if checked else {}),
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


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
