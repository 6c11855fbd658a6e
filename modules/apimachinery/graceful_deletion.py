"""Graceful deletion of pods, after Kubernetes' and KubeEdge's podstatus handler; and finalizers, of all objects.

An object with finalizers is only marked by a deletion. The update that takes the last one away removes it. What becomes
of an object's dependents is written into its finalizers, too, and the garbage collector carries it out.
"""

from typing import Final

from modules.apimachinery.api_errors import InvalidError
from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_kind
from modules.apimachinery.pods.objects import has_ended
from modules.apimachinery.times import format_rfc3339, parse_rfc3339

BACKGROUND: Final = "Background"
FOREGROUND: Final = "Foreground"
ORPHAN: Final = "Orphan"
"""The values of `propagationPolicy`."""
FINALIZER_OF: Final = {ORPHAN: "orphan", FOREGROUND: "foregroundDeletion"}
"""The finalizer that holds an object until the garbage collector has carried out a policy."""

_POLICY_OF: Final = {name: policy for policy, name in FINALIZER_OF.items()}
_EVENT: Final = "Event"
"""The kind that is no owner: its deletion ignores the policies."""
_ORPHANING: Final = ("Job", "ReplicationController")
"""The kinds whose dependents stay if a deletion does not say otherwise, as in the API versions that are served."""

_LONGEST_GRACE = 100 * 365 * 24 * 3600
"""Seconds; the end of a longer one may be beyond the year 9999."""


def grace_for_deletion(pod: JsonObject, asked: int | None) -> int:
    """Return a pod's grace period in seconds; 0: delete it immediately.

    A pod without a node, or in a final phase, gets none (CheckGracefulDelete). `asked` None means the spec's; a
    negative one counts as one second.
    """
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or has_ended(pod):
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

    Such an edge reports nothing more; later edges delete the pod themselves after its containers and volumes.
    """
    status = pod.get("status") or {}
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    is_running = any(state.get("running") is not None for state in states)
    return is_being_deleted(pod) and has_ended(pod) and not is_running


def finalizers_of(obj: JsonObject) -> list[str]:
    """Return the object's finalizers: the names of the controllers that must clean up before it is removed."""
    found = obj["metadata"].get("finalizers")
    return [str(name) for name in found] if isinstance(found, list) else []


def finalizers_for_deletion(obj: JsonObject, policy: str | None) -> list[str]:
    """Return the finalizers that an object gets when it is deleted (`deletionFinalizersForGarbageCollection`).

    Args:
        obj: the object.
        policy: the deletion's propagation policy; None: the policy of the object's finalizers, or its kind's.
    """
    present = finalizers_of(obj)
    others = [name for name in present if name not in _POLICY_OF]
    if key_kind(obj) == _EVENT:
        return others
    if policy is None:
        default = ORPHAN if key_kind(obj) in _ORPHANING else BACKGROUND
        policy = next((_POLICY_OF[name] for name in present if name in _POLICY_OF), default)
    wanted = [*others, FINALIZER_OF[policy]] if policy in FINALIZER_OF else others
    return present if set(wanted) == set(present) else wanted


def policy_of(obj: JsonObject) -> str:
    """Return the propagation policy of an object's finalizers; by default Background."""
    present = finalizers_of(obj)
    return next((policy for policy, name in FINALIZER_OF.items() if name in present), BACKGROUND)


def without_finalizer(obj: JsonObject, name: str) -> JsonObject:
    """Return the object without one of its finalizers."""
    kept = [one for one in finalizers_of(obj) if one != name]
    metadata = {field: value for field, value in obj["metadata"].items() if field != "finalizers"}
    return {**obj, "metadata": {**metadata, "finalizers": kept} if kept else metadata}


def is_deletion_over(obj: JsonObject) -> bool:
    """Return whether an object that was changed is to be removed (ShouldDeleteDuringUpdate)."""
    if not obj["metadata"].get("deletionTimestamp") or obj["metadata"].get("deletionGracePeriodSeconds"):
        return False
    return not finalizers_of(obj) and not content_finalizers_of(obj)


def content_finalizers_of(obj: JsonObject) -> list[str]:
    """Return the finalizers in the spec of a namespace, which hold it until its contents are deleted."""
    found = (obj.get("spec") or {}).get("finalizers") if key_kind(obj) == "Namespace" else None
    return [str(name) for name in found] if isinstance(found, list) else []


def check_finalizers(live: JsonObject, new: JsonObject) -> None:
    """Refuse finalizers that are added to an object that is being deleted.

    Raises:
        InvalidError: there are some.
    """
    added = [name for name in finalizers_of(new) if name not in finalizers_of(live)]
    if added and is_being_deleted(live):
        told = ", ".join(f'"{name[:253]}"' for name in sorted(added)[:20])
        why = "no new finalizers can be added if the object is being deleted, found new finalizers"
        group = str(live["apiVersion"]).rpartition("/")[0]
        name = live["metadata"]["name"]
        raise InvalidError(live["kind"], name, "metadata.finalizers", f"Forbidden: {why} []string{{{told}}}", group)
