"""The reports about a pod that waits for a node or has got one: the condition PodScheduled, and Events."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, uid_of
from modules.cloud.apiserver.event_registry import event_about

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


def nominated_node(pod: JsonObject) -> str:
    """Return the node where others make room for a pod, or ""."""
    return str((pod.get("status") or {}).get("nominatedNodeName") or "")


def with_nominated_node(pod: JsonObject, node: str) -> JsonObject:
    """Return the pod with the node where others make room for it, or without one."""
    others = {name: value for name, value in (pod.get("status") or {}).items() if name != "nominatedNodeName"}
    return {**pod, "status": {**others, "nominatedNodeName": node} if node else others}


def as_preempted(pod: JsonObject, now: str) -> JsonObject:
    """Return a pod that makes room, with the condition for it."""
    status = pod.get("status") or {}
    why = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "PreemptionByScheduler",
        "message": f"{_SCHEDULER}: preempting to accommodate a higher priority pod",
    }
    others = [one for one in status.get("conditions") or [] if one.get("type") != why["type"]]
    return {**pod, "status": {**status, "conditions": [*others, why]}}


def with_node(pod: JsonObject, node: str, now: str, *, is_told: bool = False) -> JsonObject:
    """Return the pod on its node; a condition that it waits becomes one that it does not.

    Args:
        pod: the pod.
        node: the node's name.
        now: the present time as Kubernetes writes it.
        is_told: whether a pod without the condition gets it.
    """
    placed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
    has_condition = is_told or _condition_of(pod)
    return _with_condition(placed, {"status": "True", "lastTransitionTime": now}) if has_condition else placed


def as_waiting(pod: JsonObject, why: str, now: str) -> JsonObject:
    """Return the pod with the condition that it waits for a node."""
    known = _condition_of(pod)
    since = known.get("lastTransitionTime", now) if known.get("status") == "False" else now
    condition = {"status": "False", "reason": _UNSCHEDULABLE, "message": why, "lastTransitionTime": since}
    return _with_condition(pod, condition)


def as_gated(pod: JsonObject, now: str) -> JsonObject:
    """Return the pod with the condition that its gates keep it from every node."""
    known = _condition_of(pod)
    since = known.get("lastTransitionTime", now) if known.get("status") == "False" else now
    return _with_condition(pod, {**_GATED, "lastTransitionTime": since})


def failed_scheduling(pod: JsonObject, why: str, now: str) -> JsonObject:
    """Return the Event that a pod could not be placed."""
    return event_about(pod, ("Warning", "FailedScheduling", why), _SCHEDULER, now)


def scheduled(pod: JsonObject, now: str) -> JsonObject:
    """Return the Event that a pod was given its node."""
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    words = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
    return event_about(pod, ("Normal", "Scheduled", words), _SCHEDULER, now)


def preempted(pod: JsonObject, by: JsonObject, node: str, now: str) -> JsonObject:
    """Return the Event that a pod on a node makes room for another one."""
    words = f"Preempted by pod {uid_of(by)} on node {node}"
    return event_about(pod, ("Normal", "Preempted", words), _SCHEDULER, now)


def _condition_of(pod: JsonObject) -> JsonObject:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == CONDITION), {})


def _with_condition(pod: JsonObject, condition: JsonObject) -> JsonObject:
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or [] if one.get("type") != CONDITION]
    return {**pod, "status": {**status, "conditions": [*others, {"type": CONDITION, **condition}]}}
