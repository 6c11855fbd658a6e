"""The subresource `scale` of workloads: the number of replicas, as an object of the kind Scale (autoscaling/v1)."""

from typing import Final

from modules.apimachinery.api_errors import InternalError, InvalidError, MethodNotAllowedError
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, ObjectKey, uid_of, version_of
from modules.apimachinery.printing.workloads import selector_text
from modules.apimachinery.strategic_merge import merge_json
from modules.apimachinery.workload_selectors import selector_of
from modules.cloud.apiextensions.scale import ScalePaths, value_at, with_value
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.fields.bodies import SCALE, read_body
from modules.cloud.apiserver.fields.types import DecodingError
from modules.cloud.apiserver.verbs.patching import check_identity, shown_patch
from modules.cloud.apiserver.verbs.requests import named, object_of
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
    asked = named(object_of(request, SCALE.name), SCALE, request) if request.verb == "update" else None
    live = cluster.storage.get(key) if request.verb == "get" else cluster.to_change(key)
    custom = cluster.storage.kinds.custom().get((request.api_version, request.plural))
    paths = _OF_WORKLOADS if custom is None or custom.scale is None else custom.scale
    if request.verb == "get":
        return _scale_of(paths, live)
    wanted = asked or _patched(request, _scale_of(paths, live))
    versions = {"resourceVersion": version_of(wanted) or version_of(live), "uid": uid_of(wanted) or uid_of(live)}
    of_scale = {**live, "metadata": {**live["metadata"], **versions}}
    return _scale_of(paths, cluster.update(with_value(of_scale, paths.replicas, _replicas(wanted, key))))


def _patched(request: ApiCall, scale: JsonObject) -> JsonObject:
    """Return what a patch makes of a Scale."""
    body = request.body
    if request.verb == "patch" and request.patch_type in (MERGE, STRATEGIC) and isinstance(body, dict):
        merged = merge_json(scale, body)
    elif request.verb == "patch" and request.patch_type == JSON_PATCH:
        merged = apply_json_patch(scale, body)
    else:
        raise MethodNotAllowedError(f"the verb {request.verb[:40]!r} is not served for a scale")
    try:
        found = read_body(SCALE, merged)
    except DecodingError as error:
        why = error.converted if request.patch_type == STRATEGIC else error.why
        raise InvalidError("", "", "patch", f"Invalid value: {shown_patch(request)}: {why}") from error
    check_identity(request, scale, found)
    return found


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


def _replicas(scale: JsonObject, key: ObjectKey) -> int:
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        why = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise InvalidError("Scale", key.name, "spec.replicas", why, "autoscaling")
    return replicas
