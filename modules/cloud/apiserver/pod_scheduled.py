"""The reports about a pod that waits for a node: the condition PodScheduled, and an Event."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, uid_of, version_of

CONDITION: Final = "PodScheduled"
_SCHEDULER: Final = "default-scheduler"
_UNSCHEDULABLE: Final = "Unschedulable"
_GATED: Final = {
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition that an API server gives to a new pod with gates (applySchedulingGatedCondition of its strategy)."""


def is_gated(pod: JsonObject) -> bool:
    """Return whether a pod has scheduling gates, so that no scheduler may give it a node."""
    return bool((pod.get("spec") or {}).get("schedulingGates"))


def has_default_scheduler(pod: JsonObject) -> bool:
    """Return whether a pod names no other scheduler (`spec.schedulerName`)."""
    return ((pod.get("spec") or {}).get("schedulerName") or _SCHEDULER) == _SCHEDULER


def waits_because(pod: JsonObject) -> str:
    """Return why a pod fits no node; "" when it has one, or the scheduler has not looked at it."""
    condition = _condition_of(pod)
    if (pod.get("spec") or {}).get("nodeName") or condition.get("reason") != _UNSCHEDULABLE:
        return ""
    return str(condition.get("message") or "")


def with_node(pod: JsonObject, node: str, now: str) -> JsonObject:
    """Return the pod on its node; a condition that it waits becomes one that it does not.

    Args:
        pod: the pod.
        node: the node's name.
        now: the present time as Kubernetes writes it.
    """
    placed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
    return _with_condition(placed, {"status": "True", "lastTransitionTime": now}) if _condition_of(pod) else placed


def as_waiting(pod: JsonObject, why: str, now: str) -> JsonObject:
    """Return the pod with the condition that it waits for a node."""
    known = _condition_of(pod)
    since = known.get("lastTransitionTime", now) if known.get("status") == "False" else now
    condition = {"status": "False", "reason": _UNSCHEDULABLE, "message": why, "lastTransitionTime": since}
    return _with_condition(pod, condition)


def as_gated(pod: JsonObject) -> JsonObject:
    """Return the pod with the condition that its gates keep it from every node."""
    return _with_condition(pod, _GATED)


def failed_scheduling(pod: JsonObject, why: str, now: str, suffix: str) -> JsonObject:
    """Return the Event that a pod could not be placed.

    Args:
        pod: the stored pod.
        why: the reason.
        now: the present time as Kubernetes writes it.
        suffix: makes the Event's name unique.
    """
    meta = pod["metadata"]
    about = {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": uid_of(pod),
        "resourceVersion": version_of(pod),
    }
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{meta['name'][:230]}.{suffix}", "namespace": meta["namespace"]},
        "involvedObject": about,
        "reason": "FailedScheduling",
        "message": why,
        "type": "Warning",
        "source": {"component": _SCHEDULER},
        "reportingComponent": _SCHEDULER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _condition_of(pod: JsonObject) -> JsonObject:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == CONDITION), {})


def _with_condition(pod: JsonObject, condition: JsonObject) -> JsonObject:
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or [] if one.get("type") != CONDITION]
    return {**pod, "status": {**status, "conditions": [*others, {"type": CONDITION, **condition}]}}
