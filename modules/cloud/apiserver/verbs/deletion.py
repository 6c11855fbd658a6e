"""The deletion of an object, or of a collection."""

from collections.abc import Callable, Sequence
from typing import Final

from modules.apimachinery.api_errors import BadRequestError, ConflictError, MethodNotAllowedError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, uid_of, version_of
from modules.cloud.apiserver.api_lists import list_objects
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.verbs.requests import kind_of, with_core_event
from modules.cloud.apiserver.write_options import propagation_policy
from modules.cloud.client.calls import ApiCall

_RETURNED: Final = frozenset({
    "CSIDriver", "CSINode", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate", "ResourceQuota",
    "Service", "ServiceAccount", "StorageClass", "VolumeAttachment",
})  # fmt: skip
"""Kinds whose deletion returns the object, as measured at kube-apiserver 1.32 (ReturnDeletedObject of its stores); that
of others returns a Status, unless their objects still have finalizers.
"""


def delete(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    """Delete an object; return its last state, or for most kinds the Status of a success."""
    gone = _deleted(cluster, request, key)
    if key.kind in _RETURNED or cluster.storage.find(key) is not None:
        return gone
    group = request.api_version.rpartition("/")[0]
    details = {"name": key.name, "group": group, "kind": request.plural, "uid": uid_of(gone)}
    kept = {name: value for name, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": kept}


def _deleted(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    """Delete an object if the preconditions of a request hold; return its last state."""
    preconditions = request.options.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise BadRequestError("preconditions: an object is wanted")
    uid, version = (preconditions.get(name) for name in ("uid", "resourceVersion"))
    _check_precondition("UID", uid, cluster.storage.get(key), uid_of, "deleted and then recreated")
    live = cluster.to_change(key)  # kube-apiserver, too, checks the uid before the admission
    _check_precondition("ResourceVersion", version, live, version_of, "modified")
    return cluster.delete(key, _grace(request), uid or "", propagation_policy(request.options))


def _check_precondition(
    field: str, wanted: str | None, live: JsonObject, value_of: Callable[[JsonObject], str], happened: str
) -> None:
    """Refuse a deletion of another object, or of another state of it, than the preconditions name (BeforeDelete). An
    empty text is one, too: nothing has it.
    """
    if wanted is not None and wanted != value_of(live):
        record = f"the {field} in the precondition ({wanted[:40]}) does not match the {field} in record"
        why = f"{record} ({value_of(live)}). The object might have been {happened}"
        group = str(live["apiVersion"]).rpartition("/")[0]
        raise ConflictError(live["kind"], live["metadata"]["name"], why, group)


def collection_to_delete(cluster: Cluster, request: ApiCall) -> list[JsonObject]:
    """Return the objects that the deletion of a collection selects.

    Raises:
        ApiError: it selects none, or a parameter cannot be read.
    """
    request = with_core_event(request)
    kind = kind_of(cluster.storage.kinds, request)
    if kind.namespaced and not request.namespace:
        raise MethodNotAllowedError(f"{kind.plural} are deleted in one namespace at a time")
    found: list[JsonObject] = list_objects(cluster, kind, request.namespace, request.options)["items"]
    return found


def delete_collection(cluster: Cluster, kind: Kind, request: ApiCall, chosen: Sequence[JsonObject]) -> JsonObject:
    """Delete objects of a collection, unless they were deleted or replaced in the meantime; return a list of them, as
    they were selected.
    """
    gone = []
    for obj in chosen:
        live = cluster.storage.find(key_of(obj))
        if live is not None and uid_of(live) == uid_of(obj):
            _deleted(cluster, request, key_of(obj))
            gone.append(obj)
    version = str(cluster.storage.version)
    metadata = {"resourceVersion": version}
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": gone}


def _grace(request: ApiCall) -> int | None:
    grace = request.options.get("gracePeriodSeconds")
    if grace is None:
        return None
    if type(grace) is int:
        return grace if grace >= 0 else 1
    raise BadRequestError("gracePeriodSeconds is a number of seconds")
