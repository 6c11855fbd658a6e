"""The Kubernetes API's verbs, for the requests of nodes' metaservers, which come through dynamiccontroller."""

import re
from typing import Any, Final

import msgspec

from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.errors import TOO_DEEP, ApiError, BadRequestError, UnknownKindError
from modules.cloud.apiserver.kinds import KINDS, JsonObject, Kind, ObjectKey, key_for

STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
_NODE: Final = re.compile(r"[-a-z0-9.]+\Z")


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One API request."""

    verb: str
    """get, list, create, update, updatestatus, patch or delete."""
    api_version: str
    plural: str
    namespace: str = ""
    """Empty: a cluster-scoped kind, or all namespaces."""
    name: str = ""
    subresource: str = ""
    patch_type: str = ""
    """The media type of a patch."""
    options: JsonObject = {}
    body: Any = None
    node: str = ""
    """The node whose metaserver makes the request, known from its connection."""


class ApiResult(msgspec.Struct, frozen=True):
    """The response to an API request."""

    object: JsonObject | None = None
    refusal: JsonObject | None = None
    """The metav1.Status of an error."""


def serve(cluster: Cluster, request: ApiCall, *, knows_all: bool = True) -> ApiResult:
    """Carry out an API request.

    Args:
        cluster: the objects.
        request: the request.
        knows_all: whether a missing object is not to exist. A cloud that may have lost its database sets
            `remainingItemCount` in its lists, so that nodes delete nothing for them.
    """
    try:
        made = _carry_out(cluster, request)
        if request.verb == "list" and made is not None and not knows_all:
            made["metadata"]["remainingItemCount"] = 1
        return ApiResult(made)
    except ApiError as error:
        return ApiResult(refusal=error.status())
    except RecursionError:
        return ApiResult(refusal=BadRequestError(TOO_DEEP).status())


def _carry_out(cluster: Cluster, request: ApiCall) -> JsonObject | None:
    kind = _kind(request)
    if request.subresource not in ("", "status"):
        raise BadRequestError(f"{request.plural}/{request.subresource} is not served by this cloud")
    if request.options.get("dryRun"):
        raise BadRequestError("dryRun is not served by this cloud")
    if request.verb == "list":
        return _list(cluster, kind, request)
    if request.verb == "create":
        return cluster.create(_named(_object(request), kind, request))
    if not request.name:
        raise BadRequestError("a name is wanted")
    return _on_one(cluster, request, key_for(kind, request.namespace, request.name), kind)


def _on_one(cluster: Cluster, request: ApiCall, key: ObjectKey, kind: Kind) -> JsonObject | None:
    match request.verb:
        case "get":
            return cluster.storage.get(key)
        case "updatestatus":
            return cluster.replace_status(key, _object(request).get("status") or {})
        case "update" if request.subresource:
            return cluster.replace_status(key, _object(request).get("status") or {})
        case "update":
            return cluster.update(_named(_object(request), kind, request))
        case "patch":
            return _patch(cluster, request, key)
        case "delete":
            preconditions = request.options.get("preconditions") or {}
            if not isinstance(preconditions, dict):
                raise BadRequestError("preconditions: an object is wanted")
            cluster.delete(key, _grace(request), str(preconditions.get("uid") or ""))
            return None
    raise BadRequestError(f"the verb {request.verb[:40]!r} is not served by this cloud")


def _patch(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    if request.patch_type not in (STRATEGIC, MERGE):
        raise BadRequestError(f"patches of type {request.patch_type[:80]!r} are not served by this cloud")
    patch = _object(request)
    if request.subresource == "status":
        return cluster.patch_status(key, patch)
    return cluster.patch(key, patch, strategic=request.patch_type == STRATEGIC)


def _list(cluster: Cluster, kind: Kind, request: ApiCall) -> JsonObject:
    items = _selected(cluster, kind, request)
    version = str(cluster.storage.version)
    return {
        "kind": f"{kind.name}List",
        "apiVersion": kind.api_version,
        "metadata": {"resourceVersion": version},
        "items": items,
    }


def _selected(cluster: Cluster, kind: Kind, request: ApiCall) -> list[JsonObject]:
    """Return the selected objects; the only selector served is a node's for its own pods."""
    fields = str(request.options.get("fieldSelector") or "")
    if not fields and not request.options.get("labelSelector"):
        return cluster.list(kind, request.namespace or None)
    field, _, node = fields.partition("=")
    if request.options.get("labelSelector") or (kind.name, field) != ("Pod", "spec.nodeName") or not _NODE.match(node):
        raise BadRequestError("of selectors, this cloud serves spec.nodeName=NODE for pods, and no other")
    pods = cluster.pods_on(node)
    return [pod for pod in pods if request.namespace in ("", pod["metadata"]["namespace"])]


def _kind(request: ApiCall) -> Kind:
    for kind in KINDS:
        if (kind.api_version, kind.plural) == (request.api_version, request.plural):
            return kind
    raise UnknownKindError(request.plural, [kind.plural for kind in KINDS])


def _object(request: ApiCall) -> JsonObject:
    if not isinstance(request.body, dict):
        raise BadRequestError("a JSON object is wanted")
    return request.body


def _named(obj: JsonObject, kind: Kind, request: ApiCall) -> JsonObject:
    """Return the object with kind, namespace and name of the request's path."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        raise BadRequestError("metadata is missing")
    wanted = {"namespace": request.namespace} if kind.namespaced and request.namespace else {}
    wanted |= {"name": request.name} if request.name else {}
    for field, value in wanted.items():
        if metadata.get(field, value) != value:
            raise BadRequestError(f"the {field} of the object does not match that of the request")
    return {"kind": kind.name, "apiVersion": kind.api_version, **obj, "metadata": {**metadata, **wanted}}


def _grace(request: ApiCall) -> int | None:
    grace = request.options.get("gracePeriodSeconds")
    if grace is None or (isinstance(grace, int) and grace >= 0):
        return grace
    raise BadRequestError("gracePeriodSeconds is a number of seconds, 0 or more")
