"""The subresource `scale` of workloads: the number of replicas, as an object of the kind Scale (autoscaling/v1)."""

from typing import Any

from modules.apimachinery.api_errors import BadRequestError, InvalidError, MethodNotAllowedError
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, ObjectKey, version_of
from modules.apimachinery.strategic_merge import merge_json
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.tools.printing.workloads import selector_text


def serve_scale(cluster: Cluster, key: ObjectKey, request: ApiCall) -> JsonObject:
    """Carry out a request for the Scale of an object, and return the Scale.

    Raises:
        NotFoundError: there is no such object.
        ConflictError: the Scale has another uid or resourceVersion than the object.
        InvalidError: the number of replicas is negative, or none.
        BadRequestError, MethodNotAllowedError: the request has another form or verb.
    """
    live = cluster.read(key) if request.verb == "get" else cluster.to_change(key)
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
    metadata = {**live["metadata"], "resourceVersion": _version(wanted) or version_of(live)}
    spec = {**(live.get("spec") or {}), "replicas": _replicas(wanted, key)}
    return scale_of(cluster.update({**live, "metadata": metadata, "spec": spec}))


def scale_of(obj: JsonObject) -> JsonObject:
    """Return the Scale of a workload."""
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {"replicas": status.get("replicas", 0), "selector": selector_text(spec.get("selector") or {})},
    }


def _version(scale: Any) -> str:
    if not isinstance(scale, dict) or not isinstance(scale.get("metadata", {}), dict):
        raise BadRequestError("a Scale of autoscaling/v1 is wanted")
    return version_of(scale)


def _replicas(scale: JsonObject, key: ObjectKey) -> int:
    spec = scale.get("spec")
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else 0
    if type(replicas) is not int or replicas < 0:
        why = f"Invalid value: {str(replicas)[:40]}: must be greater than or equal to 0"
        raise InvalidError("Scale", key.name, "spec.replicas", why, "autoscaling")
    return replicas
