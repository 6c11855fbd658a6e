"""Deletion of pods: when it begins, when it is over (Kubernetes' graceful deletion, KubeEdge's podstatus handler)."""

from modules.edgecontroller.kinds import JsonObject, is_being_deleted
from modules.edgecontroller.times import rfc3339, seconds_of

_ENDED_PHASES = ("Succeeded", "Failed")
_LONGEST_GRACE = 100 * 365 * 24 * 3600
"""Seconds; the end of a longer one may have no date."""


def grace_for_deletion(pod: JsonObject, asked: int | None) -> int:
    """Seconds a pod is given to end; 0 means it goes at once.

    A pod without a node and a pod that has ended have nothing to wait for (CheckGracefulDelete).
    """
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _ENDED_PHASES:
        return 0
    seconds = int(spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked
    return min(max(0, seconds), _LONGEST_GRACE)


def with_deletion_begun(pod: JsonObject, grace: int, now: float) -> JsonObject:
    """The pod marked as being deleted. A deletion that has begun can only be shortened, counted from its beginning
    (Kubernetes' BeforeDelete).
    """
    meta = pod["metadata"]
    deadline = seconds_of(str(meta.get("deletionTimestamp") or ""))
    given = int(meta.get("deletionGracePeriodSeconds") or 0)
    if deadline is not None and given <= grace:
        return pod
    begun = now if deadline is None else deadline - given
    marks = {"deletionTimestamp": rfc3339(begun + grace), "deletionGracePeriodSeconds": grace}
    return {**pod, "metadata": {**meta, **marks}}


def is_deletion_complete(pod: JsonObject) -> bool:
    """Whether a pod whose whole status an edge of 2019 has reported has ended and can be forgotten.

    Such an edge says nothing more; those of today delete the pod themselves when all that was the pod's is gone.
    """
    status = pod.get("status") or {}
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    is_running = any(state.get("running") is not None for state in states)
    return is_being_deleted(pod) and status.get("phase") in _ENDED_PHASES and not is_running
