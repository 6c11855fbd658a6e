"""Deletion of pods: when it begins, when it is over (Kubernetes' graceful deletion, KubeEdge's podstatus
handler).
"""

from copy import deepcopy

from modules.edgecontroller.kinds import JsonObject, is_being_deleted
from modules.edgecontroller.times import rfc3339, seconds_of

_ENDED_PHASES = ("Succeeded", "Failed")


def grace_for_deletion(pod: JsonObject, asked: int | None) -> int:
    """Seconds a pod is given to end; 0 means it goes at once.

    A pod without a node and a pod that has ended have nothing to wait for (CheckGracefulDelete).
    """
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _ENDED_PHASES:
        return 0
    return max(0, int(spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked)


def with_deletion_begun(pod: JsonObject, grace: int, now: float) -> JsonObject:
    """The pod marked as being deleted. A deletion that has begun can only be shortened."""
    meta = pod["metadata"]
    deadline = now + grace
    begun = seconds_of(str(meta.get("deletionTimestamp", "")))
    if begun is not None and begun <= deadline and meta.get("deletionGracePeriodSeconds", 0) <= grace:
        return pod
    marked = deepcopy(pod)
    marked["metadata"]["deletionTimestamp"] = rfc3339(deadline)
    marked["metadata"]["deletionGracePeriodSeconds"] = grace
    return marked


def is_deletion_complete(pod: JsonObject) -> bool:
    """Whether a pod that is being deleted has ended on its node and can be forgotten."""
    if not is_being_deleted(pod):
        return False
    status = pod.get("status") or {}
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    if any(state.get("running") is not None for state in states):
        return False
    if status.get("phase") in _ENDED_PHASES:
        return True
    return bool(states) and all(state.get("terminated") is not None for state in states)
