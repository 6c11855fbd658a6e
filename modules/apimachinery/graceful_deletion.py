"""Graceful deletion of pods, after Kubernetes' and KubeEdge's podstatus handler; and finalizers, of all objects.

An object with finalizers is only marked by a deletion. The update that takes the last one away removes it.
"""

from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.kinds import JsonObject, is_being_deleted
from modules.apimachinery.times import format_rfc3339, parse_rfc3339

_ENDED_PHASES = ("Succeeded", "Failed")
_LONGEST_GRACE = 100 * 365 * 24 * 3600
"""Seconds; the end of a longer one may be beyond the year 9999."""


def grace_for_deletion(pod: JsonObject, asked: int | None) -> int:
    """Return a pod's grace period in seconds; 0 deletes it at once.

    A pod without a node, or in a final phase, gets none (CheckGracefulDelete). `asked` None means the spec's, of
    which a negative one is one second.
    """
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in _ENDED_PHASES:
        return 0
    seconds = int(spec.get("terminationGracePeriodSeconds") or 0) if asked is None else asked
    return min(seconds if seconds >= 0 else 1, _LONGEST_GRACE)


def with_deletion_begun(pod: JsonObject, grace: int, now: float) -> JsonObject:
    """Return the object with deletionTimestamp and grace period (Kubernetes' BeforeDelete).

    The grace period of a deletion that has begun can only be shortened, and counts from its start.
    """
    meta = pod["metadata"]
    deadline = parse_rfc3339(str(meta.get("deletionTimestamp") or ""))
    given = int(meta.get("deletionGracePeriodSeconds") or 0)
    if deadline is not None and given <= grace:
        return pod
    begun = now if deadline is None else deadline - given
    marks = {"deletionTimestamp": format_rfc3339(begun + grace), "deletionGracePeriodSeconds": grace}
    return {**pod, "metadata": {**meta, **marks}}


def is_deletion_complete(pod: JsonObject) -> bool:
    """Return whether a deleted pod of an edge of 2019 has ended, by its reported status, and can be removed.

    Such an edge reports nothing more; later edges delete the pod themselves when its containers and volumes are gone.
    """
    status = pod.get("status") or {}
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    is_running = any(state.get("running") is not None for state in states)
    return is_being_deleted(pod) and status.get("phase") in _ENDED_PHASES and not is_running


def finalizers_of(obj: JsonObject) -> list[str]:
    """Return the object's finalizers: the names of the controllers that must clean up before it is removed."""
    found = obj["metadata"].get("finalizers")
    return [str(name) for name in found] if isinstance(found, list) else []


def is_deletion_over(obj: JsonObject) -> bool:
    """Return whether an object that was changed is to be removed (ShouldDeleteDuringUpdate)."""
    grace = obj["metadata"].get("deletionGracePeriodSeconds")
    return is_being_deleted(obj) and not grace and not finalizers_of(obj)


def check_finalizers(live: JsonObject, new: JsonObject) -> None:
    """Refuse finalizers that are added to an object that is being deleted.

    Raises:
        InvalidError: there are some.
    """
    added = [name for name in finalizers_of(new) if name not in finalizers_of(live)]
    if added and is_being_deleted(live):
        told = ", ".join(f'"{name[:253]}"' for name in added[:20])
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        group = str(live["apiVersion"]).rpartition("/")[0]
        name = live["metadata"]["name"]
        raise InvalidError(live["kind"], name, "metadata.finalizers", f"Forbidden: {why} []string{{{told}}}", group)
