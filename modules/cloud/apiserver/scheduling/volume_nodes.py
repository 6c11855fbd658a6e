"""The rules of a pod's claims (kube-scheduler 1.32, `plugins/volumebinding`, and the mode ReadWriteOncePod of
`plugins/volumerestrictions`). Every claim is bound before its pod has a node, also where its class would wait for that.
"""

from collections.abc import Callable
from typing import Final

from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted
from modules.apimachinery.pod_references import claims_of, ephemeral_volumes_of, why_not_for
from modules.apimachinery.types.persistent import VolumeNodeAffinity
from modules.apimachinery.types.scheduling import NodeSelector

ELSEWHERE: Final = "node(s) had volume node affinity conflict"
TAKEN: Final = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
_ONE_POD: Final = "ReadWriteOncePod"

Find = Callable[[ObjectKey], JsonObject | None]
"""Returns an object, or None."""


def selectors_of_volumes(pod: JsonObject, find: Find) -> list[NodeSelector]:
    """Return the selectors of nodes that a pod's volumes have."""
    found = []
    for key in claims_of(pod):
        bound = _spec(find(key)).get("volumeName")
        affinity = _spec(find(ObjectKey("PersistentVolume", "", str(bound)))).get("nodeAffinity") if bound else None
        required = convert(affinity, VolumeNodeAffinity, "VolumeNodeAffinity").required if affinity else None
        if required is not None:
            found.append(required)
    return found


def missing_volume(pod: JsonObject, find: Find) -> str:
    """Return which claim of a pod keeps it waiting on any node: it is not there, goes, or has no volume; "" for none.

    A volume that is bound later may be out of reach of a node that was chosen before.
    """
    made = {key for key, _ in ephemeral_volumes_of(pod)}
    for key in claims_of(pod):
        claim = find(key)
        if claim is None:
            waits = "waiting for ephemeral volume controller to create the " if key in made else ""
            return f'{waits}persistentvolumeclaim "{key.name}"{"" if waits else " not found"}'
        if key in made and (why := why_not_for(pod, claim)):
            return why
        if is_being_deleted(claim):
            return f'persistentvolumeclaim "{key.name}" is being deleted'
        if not _spec(claim).get("volumeName"):
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def claims_for_one_pod(pod: JsonObject, find: Find) -> set[ObjectKey]:
    """Return the keys of a pod's claims that no other pod may use."""
    return {key for key in claims_of(pod) if _ONE_POD in (_spec(find(key)).get("accessModes") or ())}


def _spec(obj: JsonObject | None) -> JsonObject:
    return (obj or {}).get("spec") or {}
