"""The subresource `scale` of workloads: the number of replicas, as an object of the kind Scale (autoscaling/v1)."""

from functools import partial
from typing import Any, Final

from modules.apimachinery.api_errors import BadRequestError, InternalError, InvalidError, MethodNotAllowedError
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of, version_of
from modules.apimachinery.printing.workloads import selector_text
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.workload_selectors import selector_of
from modules.cloud.apiextensions.scale import ScalePaths, value_at, with_value
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall

_OF_WORKLOADS: Final = ScalePaths(("spec", "replicas"), ("status", "replicas"))
"""Of Deployments, ReplicaSets, StatefulSets and ReplicationControllers."""


def serve_scale(cluster: Cluster, key: ObjectKey, request: ApiCall) -> JsonObject:
    """Carry out a request for the Scale of an object, and return the Scale.

    Raises:
        NotFoundError: there is no such object.
        ConflictError: the Scale has another uid or resourceVersion than the object.
        InvalidError: the number of replicas is negative, or none.
        BadRequestError, MethodNotAllowedError: the request has another form or verb.
    """
    live = cluster.storage.get(key) if request.verb == "get" else cluster.to_change(key)
    custom = cluster.storage.kinds.custom().get((request.api_version, request.plural))
    paths = _OF_WORKLOADS if custom is None or custom.scale is None else custom.scale
    scale_of = partial(_scale_of, paths)
    match request.verb:
        case "get":
            return scale_of(live)
        case "update":
            wanted = request.body
        case "patch" if request.patch_type in (MERGE, STRATEGIC) and isinstance(request.body, dict):
            wanted = merge_json(scale_of(live), request.body)
        case "patch" if request.patch_type == JSON_PATCH:
            wanted = apply_json_patch(scale_of(live), request.body)
        case _:
            raise MethodNotAllowedError(f"the verb {request.verb[:40]!r} is not served for a scale")
    asked = {"resourceVersion": _version(wanted) or version_of(live), "uid": uid_of(wanted) or uid_of(live)}
    metadata = {**live["metadata"], **asked}
    if (name := wanted["metadata"].get("name")) != key.name:
        raise BadRequestError(
            f"the name of the object ({str(name)[:253]}) does not match the name on the URL ({key.name})"
        )
    scaled = with_value({**live, "metadata": metadata}, paths.replicas, _replicas(wanted, key))
    return scale_of(cluster.update(scaled))


def _scale_of(paths: ScalePaths, obj: JsonObject) -> JsonObject:
    """Return the Scale of an object.

    Raises:
        InternalError: a custom object has no replicas, as in kube-apiserver.
    """
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    replicas, found = value_at(obj, paths.replicas), value_at(obj, paths.status_replicas)
    if paths is _OF_WORKLOADS:
        replicas = 1 if replicas is None else replicas
        selector = selector_text(selector_of(obj) or {})
    else:
        selector = str(value_at(obj, paths.selector) or "")
    if replicas is None:
        raise InternalError(f'the spec replicas field ".{".".join(paths.replicas)}" does not exist')
    status: JsonObject = {"replicas": found if isinstance(found, int) else 0}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas},
        "status": {**status, "selector": selector} if selector or paths is _OF_WORKLOADS else status,
    }


def _version(scale: Any) -> str:
    if not isinstance(scale, dict) or not isinstance(scale.get("metadata"), dict):
        raise BadRequestError("a Scale of autoscaling/v1 is wanted")
    return version_of(scale)


def _replicas(scale: JsonObject, key: ObjectKey) -> int:
    spec = scale.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if type(replicas) is not int or replicas < 0:
        why = f"Invalid value: {str(replicas)[:40]}: must be greater than or equal to 0"
        raise InvalidError("Scale", key.name, "spec.replicas", why, "autoscaling")
    return replicas
