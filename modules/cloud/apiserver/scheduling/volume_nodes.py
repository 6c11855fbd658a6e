"""The nodes that can reach the volumes of a pod (kube-scheduler 1.32, `plugins/volumebinding`, for bound claims)."""

from collections.abc import Callable
from typing import Final

from edged.api.persistent import VolumeNodeAffinity
from edged.api.scheduling import NodeSelector
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey

ELSEWHERE: Final = "node(s) had volume node affinity conflict"


def selectors_of_volumes(pod: JsonObject, find: Callable[[ObjectKey], JsonObject | None]) -> list[NodeSelector]:
    """Return the selectors of nodes that a pod's volumes have. A claim that has no volume yet has none.

    Args:
        pod: the pod.
        find: returns an object, or None.
    """
    found = []
    for each in (pod.get("spec") or {}).get("volumes") or ():
        claim = (each.get("persistentVolumeClaim") or {}).get("claimName")
        key = ObjectKey("PersistentVolumeClaim", str(pod["metadata"].get("namespace") or ""), str(claim or ""))
        bound = ((find(key) or {}).get("spec") or {}).get("volumeName") if claim else None
        volume = find(ObjectKey("PersistentVolume", "", str(bound))) if bound else None
        affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity")
        required = convert(affinity, VolumeNodeAffinity, "VolumeNodeAffinity").required if affinity else None
        if required is not None:
            found.append(required)
    return found
