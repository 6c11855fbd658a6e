"""The Kubernetes API's verbs: each request is carried out on the objects, or refused."""

from collections.abc import Sequence
from typing import Final

import msgspec

from modules.apimachinery.api_errors import ApiError, InvalidError, MethodNotAllowedError, UnprocessableError
from modules.apimachinery.application import KnownSince, incomplete
from modules.apimachinery.autoscaler_versions import is_older, to_older
from modules.apimachinery.computed import computed
from modules.apimachinery.errors import ApiStatusError, no_such_path
from modules.apimachinery.event_versions import check_update, to_events
from modules.apimachinery.kinds import (
    JsonObject,
    Kind,
    ObjectKey,
    key_for,
    key_of,
    kind_named,
    metadata_of,
    uid_of,
    version_of,
)
from modules.apimachinery.resources import READ_VERBS, SCALE
from modules.cloud.apiextensions.calls import in_requested_version, subresources_of
from modules.cloud.apiserver.api_lists import list_objects
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.created_subresources import CREATED
from modules.cloud.apiserver.documents import document
from modules.cloud.apiserver.field_manager.managed_fields import UPDATE as UPDATED
from modules.cloud.apiserver.field_manager.managed_fields import Manager
from modules.cloud.apiserver.fields.bodies import read_body
from modules.cloud.apiserver.scale_subresource import serve_scale
from modules.cloud.apiserver.verbs.advice import object_advice
from modules.cloud.apiserver.verbs.autoscalers import with_newer_autoscaler
from modules.cloud.apiserver.verbs.creation import create
from modules.cloud.apiserver.verbs.deletion import collection_to_delete, delete, delete_collection
from modules.cloud.apiserver.verbs.patching import UntypedPatchError, apply, patch, with_ephemeral_containers
from modules.cloud.apiserver.verbs.requests import (
    WITH_OBJECT,
    check_namespace,
    is_event,
    is_of,
    kind_of,
    named,
    object_of,
    stored_version,
    with_core_event,
    with_requester,
)
from modules.cloud.apiserver.verbs.warnings import (
    definition_warnings,
    deletion_warnings,
    field_warnings,
    kind_warnings,
    placement_warnings,
)
from modules.cloud.apiserver.write_options import check_options, is_dry_run
from modules.cloud.client.calls import APPLY, DOCUMENT, ApiCall, ApiResult

_VERSIONED: Final = (
    "CSIDriver", "CSINode", "CSIStorageCapacity", "CustomResourceDefinition", "Lease", "PodDisruptionBudget",
    "RuntimeClass", "VolumeAttachment",
)  # fmt: skip
"""The kinds whose updates name the state that they change (`AllowUnconditionalUpdate`)."""
_MADE_BY_UPDATE: Final = (
    "ClusterRole", "ClusterRoleBinding", "Endpoints", "Event", "Lease", "LimitRange", "Role", "RoleBinding",
    "RuntimeClass", "Service",
)  # fmt: skip
"""The kinds whose objects an update creates if there are none (`AllowCreateOnUpdate`)."""
_WITHOUT_WARNINGS: Final = (UntypedPatchError, UnprocessableError)
"""Refusals of patches that make no object, of whose fields nothing can be said."""
_FINALIZE: Final = "finalize"
_EPHEMERAL: Final = "ephemeralcontainers"
_APPROVAL: Final = "approval"
_OF_NODES: Final = ("log", "exec", "attach", "portforward", "proxy")
_POD: Final = "Pod"


class DryRunError(Exception):
    """The end of a request with `dryRun`: it was carried out, and the transaction must be rolled back.

    Args:
        result: the response.
    """

    def __init__(self, result: ApiResult) -> None:
        super().__init__("dry run")
        self.result = result


def serve(
    cluster: Cluster,
    request: ApiCall,
    *,
    knows_all: bool = True,
    known_since: KnownSince | None = None,
    part: Sequence[JsonObject] | None = None,
) -> ApiResult:
    """Carry out an API request.

    Args:
        cluster: the objects.
        request: the request.
        part: the objects of its collection that are deleted; None: all.
        knows_all: whether a missing object is not to exist. A cloud that may have lost its database sets
            `remainingItemCount` in its lists for nodes, so that they delete nothing for them.
        known_since: what a missing object must be younger than, not to exist in such a cloud; None: nothing is known.

    Raises:
        DryRunError: a dry run has succeeded; the caller rolls back its changes.
    """
    warnings: tuple[str, ...] = ()
    try:
        if request.verb == DOCUMENT:
            return ApiResult(document(cluster.storage.kinds, request.name))
        if is_of_older := is_older(request.api_version, request.plural):
            request = with_newer_autoscaler(cluster, request)
        request = with_requester(with_core_event(request))
        check_options(request)
        dry_run = is_dry_run(request)
        _check_patched(cluster, request)
        warnings = field_warnings(cluster.storage.kinds, request)
        before = None if request.node and not dry_run else _before(cluster, request)
        manager = _manager_of(request)
        if manager is None:
            result = _carry_out(cluster, request, part)
        else:
            with cluster.managed_by(manager):
                result = _carry_out(cluster, request, part)
        kinds, is_made = cluster.storage.kinds, request.verb in WITH_OBJECT
        shown = in_requested_version(kinds, request.api_version, request.plural, result.object, is_made=is_made)
        if is_event(request) and shown is not None:
            shown = to_events(shown)
        if is_of_older and shown is not None:
            shown = to_older(shown)
        result = result if shown is result.object else msgspec.structs.replace(result, object=shown)
    except (ApiError, ApiStatusError) as error:
        return ApiResult(refusal=error.status(), warnings=() if isinstance(error, _WITHOUT_WARNINGS) else warnings)
    if request.verb == "list" and request.node and result.object is not None and not knows_all:
        result.object["metadata"] |= incomplete(known_since)
    if not request.node:  # who would not read them
        warnings = (
            *warnings,
            *placement_warnings(cluster, request, result),
            *kind_warnings(cluster, request, result),
            *definition_warnings(request, result),
            *object_advice(cluster.storage.kinds.custom(), request, result, before),
            *deletion_warnings(request, result),
        )
    if warnings:
        result = msgspec.structs.replace(result, warnings=warnings)
    if dry_run:
        raise DryRunError(result if request.verb == "deletecollection" else _in_version(result, before))
    return result


def _check_patched(cluster: Cluster, request: ApiCall) -> None:
    """Check that there is an object to be patched, before anything is said about the patch. Raises NotFoundError."""
    if request.verb == "patch" and request.patch_type != APPLY and not request.node:
        cluster.storage.get(key_for(kind_of(cluster.storage.kinds, request), request.namespace, request.name))


def _before(cluster: Cluster, request: ApiCall) -> JsonObject | None:
    """Return the object that a request changes, None if there is none."""
    if not request.name or request.verb in ("create", *READ_VERBS):
        return None
    return cluster.storage.find(key_for(kind_of(cluster.storage.kinds, request), request.namespace, request.name))


def _in_version(result: ApiResult, before: JsonObject | None) -> ApiResult:
    """Return the result of a dry run, which keeps an object's version: another comes with the write
    (DryRunnableStorage).

    Args:
        result: the response.
        before: the object before; None: there is none.
    """
    metadata = (result.object or {}).get("metadata") or {}
    if "resourceVersion" not in metadata:
        return result
    kept = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    kept |= {} if before is None else {"resourceVersion": version_of(before)}
    return msgspec.structs.replace(result, object={**(result.object or {}), "metadata": kept})


def _carry_out(cluster: Cluster, request: ApiCall, part: Sequence[JsonObject] | None) -> ApiResult:
    kind = kind_of(cluster.storage.kinds, request)
    creates = CREATED.get((request.api_version, request.plural, request.subresource))
    if creates is not None and request.verb == "create" and request.name and not request.node:
        of_body, make = creates
        body = computed(read_body, of_body, request.body)
        check_namespace(body, request)
        return ApiResult(make(cluster, request.namespace, request.name, body), created=True)
    is_closed = bool(request.node) and request.subresource in (_EPHEMERAL, _APPROVAL)
    if is_closed or request.subresource not in ("", *subresources_of(cluster.storage.kinds, kind)):
        raise _no_subresource(request)
    match request.verb:
        case "list":
            return ApiResult(list_objects(cluster, kind, request.namespace, request.options))
        case "create":
            return ApiResult(create(cluster, kind, request), created=True)
        case "deletecollection":
            chosen = collection_to_delete(cluster, request) if part is None else part
            return ApiResult(delete_collection(cluster, kind, request, chosen))
    if not request.name:
        raise MethodNotAllowedError(f"a name is wanted: {request.verb[:40]} is not served on a collection")
    return _on_one(cluster, request, key_for(kind, request.namespace, request.name), kind)


def _no_subresource(request: ApiCall) -> ApiError | ApiStatusError:
    if is_of(request, kind_named(_POD)) and request.subresource in _OF_NODES:
        why = f"pods/{request.subresource} is not served by this cloud: `edgecore` has it on the pod's node"
        return MethodNotAllowedError(why)
    return no_such_path()


def _on_one(cluster: Cluster, request: ApiCall, key: ObjectKey, kind: Kind) -> ApiResult:
    if request.subresource == SCALE:
        return ApiResult(serve_scale(cluster, key, request))
    if request.verb == "updatestatus" or (request.verb == "update" and request.subresource):
        return ApiResult(_update_subresource(cluster, request, key, kind))
    if request.subresource == _FINALIZE:
        raise MethodNotAllowedError("the server does not allow this method on the requested resource")
    match request.verb:
        case "get":
            return ApiResult(cluster.storage.get(key))
        case "update" if _is_made(cluster, request, key, kind):
            return ApiResult(create(cluster, kind, _without_version(request)), created=True)
        case "update":
            new = _versioned(cluster, named(object_of(request, kind.name), kind, request), kind)
            return ApiResult(cluster.update(new, check_update if is_event(request) else None, is_decoded=True))
        case "patch" if request.patch_type == APPLY:
            return apply(cluster, kind, request)
        case "patch":
            return ApiResult(patch(cluster, request, key))
        case "delete":
            return ApiResult(delete(cluster, request, key))
    raise MethodNotAllowedError(f"the verb {request.verb[:40]!r} is not served by this cloud")


def _is_made(cluster: Cluster, request: ApiCall, key: ObjectKey, kind: Kind) -> bool:
    """Return whether an update creates its object. Nodes, and controllers inside cloudcore, whose calls have no option
    for a manager, learn by its refusal that an object is gone; a body with a uid is of an object that was there.
    """
    is_asked = "fieldManager" in request.options and not request.node and kind.name in _MADE_BY_UPDATE
    if not is_asked or cluster.storage.find(key) is not None:
        return False
    return not uid_of(named(object_of(request, kind.name), kind, request))


def _without_version(request: ApiCall) -> ApiCall:
    """Return the update as a creation, in which a resourceVersion has no meaning."""
    body = object_of(request)
    metadata = {name: value for name, value in metadata_of(body).items() if name != "resourceVersion"}
    return msgspec.structs.replace(request, body={**body, "metadata": metadata})


def _update_subresource(cluster: Cluster, request: ApiCall, key: ObjectKey, kind: Kind) -> JsonObject:
    if request.verb == "updatestatus" and not kind.is_custom:
        return cluster.replace_status(key, object_of(request).get("status") or {})
    new = named(object_of(request), kind, request)
    if request.subresource == _FINALIZE:
        return cluster.finalize_namespace(new)
    if request.subresource == _EPHEMERAL:
        return with_ephemeral_containers(cluster, key, new)
    if request.subresource == _APPROVAL:
        return cluster.update_approval(key, new)
    return cluster.update_status(key, _versioned(cluster, new, kind))


def _manager_of(request: ApiCall) -> Manager | None:
    """Return the manager of the fields that a request changes. A node has none: its writes are of statuses, and notes
    about them would be larger than they are. Bindings and ephemeral containers have none, as in Kubernetes.
    """
    name = str(request.options.get("fieldManager") or "")
    if not name or request.node or request.verb not in WITH_OBJECT or request.patch_type == APPLY:
        return None
    if request.subresource in ("binding", _EPHEMERAL):
        return None
    return Manager(name, UPDATED, request.subresource, stored_version(request))


def _versioned(cluster: Cluster, obj: JsonObject, kind: Kind) -> JsonObject:
    """Return an object of an update, which needs a resourceVersion if its kind is custom or such: two holders would
    both get a Lease.
    """
    is_needed = kind.is_custom or kind.name in _VERSIONED
    if is_needed and not version_of(obj) and cluster.storage.find(key_of(obj)) is not None:
        why = "Invalid value: 0x0: must be specified for an update"
        raise InvalidError(kind.plural, obj["metadata"]["name"], "metadata.resourceVersion", why, kind.api_group)
    return obj
