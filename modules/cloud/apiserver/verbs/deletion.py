"""The deletion of an object, or of a collection."""

from collections.abc import Sequence
from typing import Final

from modules.apimachinery.api_errors import BadRequestError, MethodNotAllowedError
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, uid_of
from modules.cloud.apiserver.api_lists import list_objects
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.verbs.requests import kind_of, with_core_event
from modules.cloud.apiserver.write_options import check_resource_version, check_uid, propagation_policy
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
    check_uid(preconditions, cluster.storage.get(key))  # kube-apiserver, too, checks it before the admission
    check_resource_version(preconditions, cluster.to_change(key))
    return cluster.delete(key, _grace(request), preconditions.get("uid") or "", propagation_policy(request.options))


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
