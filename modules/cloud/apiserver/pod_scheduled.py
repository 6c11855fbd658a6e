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


def failed_scheduling(pod: JsonObject, why: str, now: str, suffix: str) -> JsonObject:
    """Return the Event that a pod could not be placed; see `_event`."""
    return _event(pod, ("Warning", "FailedScheduling", why), now, suffix)


def preempted(pod: JsonObject, by: JsonObject, node: str, now: str) -> JsonObject:
    """Return the Event that a pod on a node makes room for another one; see `_event`."""
    words = f"Preempted by pod {uid_of(by)} on node {node}"
    return _event(pod, ("Normal", "Preempted", words), now, f"{uid_of(pod)[:8]}{version_of(pod)}")


def _event(pod: JsonObject, what: tuple[str, str, str], now: str, suffix: str) -> JsonObject:
    """Return an Event about a pod.

    Args:
        pod: the stored pod.
        what: its type, reason and message.
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
        "reason": what[1],
        "message": what[2],
        "type": what[0],
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
