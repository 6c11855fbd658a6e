"""The reports about a pod that waits for a node or has got one: the condition PodScheduled, and Events."""

from typing import Final

from modules.apimachinery.conditions import condition_of, timed, with_condition
from modules.apimachinery.kinds import JsonObject, uid_of
from modules.cloud.apiserver.event_registry import event_about

CONDITION: Final = "PodScheduled"
_SCHEDULER: Final = "default-scheduler"
_UNSCHEDULABLE: Final = "Unschedulable"
_GATED: Final = {
    "type": CONDITION,
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
    condition = condition_of(pod, CONDITION)
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
    why = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "PreemptionByScheduler",
        "message": f"{_SCHEDULER}: preempting to accommodate a higher priority pod",
    }
    return with_condition(pod, why)


def with_node(pod: JsonObject, node: str, now: str, *, is_told: bool = False) -> JsonObject:
    """Return the pod on its node; a condition that it waits becomes one that it does not.

    Args:
        pod: the pod.
        node: the node's name.
        now: the present time as Kubernetes writes it.
        is_told: whether a pod without the condition gets it.
    """
    placed = {**pod, "spec": {**pod["spec"], "nodeName": node}}
    has_condition = is_told or condition_of(pod, CONDITION)
    condition = {"type": CONDITION, "status": "True", "lastTransitionTime": now}
    return with_condition(placed, condition) if has_condition else placed


def as_waiting(pod: JsonObject, why: str, now: str) -> JsonObject:
    """Return the pod with the condition that it waits for a node."""
    condition = {"type": CONDITION, "status": "False", "reason": _UNSCHEDULABLE, "message": why}
    return with_condition(pod, timed(condition, condition_of(pod, CONDITION), now))


def as_gated(pod: JsonObject, now: str) -> JsonObject:
    """Return the pod with the condition that its gates keep it from every node."""
    return with_condition(pod, timed(_GATED, condition_of(pod, CONDITION), now))


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
