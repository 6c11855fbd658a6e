"""The Kubernetes API's verbs: requests of the control socket, and of nodes' metaservers through dynamiccontroller."""

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final
from uuid import UUID

import msgspec

from modules.apimachinery.api_errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidError,
    MethodNotAllowedError,
    UnknownKindError,
    UnsupportedMediaTypeError,
)
from modules.apimachinery.computed import computed
from modules.apimachinery.errors import ApiStatusError, no_such_path
from modules.apimachinery.event_versions import (
    EVENTS_VERSION,
    check_creation,
    check_update,
    core_selector,
    is_of_events,
    operations_to_core,
    to_core,
    to_events,
)
from modules.apimachinery.generated_names import suffix_of
from modules.apimachinery.go_json import type_error
from modules.apimachinery.go_values import go_text
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import (
    KINDS,
    JsonObject,
    Kind,
    ObjectKey,
    is_being_deleted,
    key_for,
    key_kind,
    key_of,
    kind_named,
    uid_of,
    version_of,
)
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.apimachinery.resources import SCALE
from modules.apimachinery.strategic_merge import merge_json, merge_strategic
from modules.apimachinery.structural_schema.rules import has_validations
from modules.apimachinery.structural_schema.values import unknown_fields
from modules.apimachinery.validation.causes import shown
from modules.apimachinery.validation.pods import ephemeral_containers_update
from modules.cloud.apiextensions.calls import in_requested_version, subresources_of
from modules.cloud.apiextensions.kinds import ServedKinds
from modules.cloud.apiserver.api_lists import list_objects, selected_objects
from modules.cloud.apiserver.apply import with_server_fields_removed
from modules.cloud.apiserver.cluster import ApplyOutcome, Cluster
from modules.cloud.apiserver.created_subresources import bind_pod, evict_pod, request_token
from modules.cloud.apiserver.documents import document
from modules.cloud.apiserver.field_manager.managed_fields import APPLY as APPLIED
from modules.cloud.apiserver.field_manager.managed_fields import UPDATE as UPDATED
from modules.cloud.apiserver.field_manager.managed_fields import Manager, listed, with_entries
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.apiserver.fields.types import DecodingError, decoded
from modules.cloud.apiserver.fields.validation import (
    IGNORE,
    STRICT,
    WARN,
    check_fields,
    unknown_metadata,
    unknown_paths,
)
from modules.cloud.apiserver.kind_defaults import encode_string_data
from modules.cloud.apiserver.pod_scheduled import waits_because
from modules.cloud.apiserver.scale_subresource import serve_scale
from modules.cloud.apiserver.unreadable_bodies import not_an_object
from modules.cloud.apiserver.write_options import check_options, is_dry_run, propagation_policy
from modules.cloud.authorization.attributes import NODE_GROUPS, user_of
from modules.cloud.client.calls import APPLY, DOCUMENT, JSON_PATCH, MERGE, STRATEGIC, ApiCall, ApiResult

_LONGEST_PREFIX: Final = 240
_LONGEST_BASE: Final = 58
"""Characters of `generateName` in a generated name (MaxGeneratedNameLength)."""
_ATTEMPTS: Final = 8
"""Generated names that are tried (maxNameGenerationCreateAttempts)."""
_WITH_OBJECT: Final = ("create", "update", "updatestatus", "patch")
_IDENTITY: Final = ("name", "namespace")
_CREATED: Final = {
    ("v1", "pods", "binding"): bind_pod,
    ("v1", "pods", "eviction"): evict_pod,
    ("v1", "serviceaccounts", "token"): request_token,
}
"""The subresources that are created; nodes have no right to them here."""
_CORE: Final = "v1"
_VERSIONED: Final = (
    "CSIDriver", "CSINode", "CSIStorageCapacity", "CustomResourceDefinition", "Lease", "PodDisruptionBudget",
    "RuntimeClass", "VolumeAttachment",
)  # fmt: skip
"""The kinds whose updates name the state that they change (`AllowUnconditionalUpdate`)."""
_FINALIZE: Final = "finalize"
_EPHEMERAL: Final = "ephemeralcontainers"
_APPROVAL: Final = "approval"
_OF_NODES: Final = ("log", "exec", "attach", "portforward", "proxy")
_POD: Final = "Pod"
_DEFINITION: Final = "CustomResourceDefinition"
_HALF_SERVED: Final = {
    ("v1", "services"): "only nodes with a proxy of services answer at its address and its name (hostPort or "
    "hostNetwork of a pod opens a port of its node)",
    ("v1", "podtemplates"): "nothing here acts on a PodTemplate (a Deployment has its template in itself)",
    **dict.fromkeys(
        (("networking.k8s.io/v1", "ingresses"), ("networking.k8s.io/v1", "ingressclasses")),
        "nothing here acts on an Ingress: run a controller for them that answers on a node's port",
    ),
    **dict.fromkeys(
        (("flowcontrol.apiserver.k8s.io/v1", plural) for plural in ("flowschemas", "prioritylevelconfigurations")),
        "nothing here acts on it: requests are limited by this API server's own rules",
    ),
    ("storage.k8s.io/v1", "storageclasses"): "no volumes are provisioned (a PersistentVolume is bound to claims of "
    "its storageClassName)",
    ("resource.k8s.io/v1", "resourceclaims"): "no devices are allocated (device plug-ins give extended resources)",
}
"""The kinds that are only stored, each with its warning to clients."""
_SECRET: Final = kind_named("Secret")
_NODE: Final = kind_named("Node")
_CSR: Final = kind_named("CertificateSigningRequest")
_REQUESTER: Final = ("username", "uid", "groups", "extra")
"""The fields of a certificate request's spec about who asks."""


class DryRunError(Exception):
    """The end of a request with `dryRun`: it was carried out, and the transaction must be rolled back.

    Args:
        result: the response.
    """

    def __init__(self, result: ApiResult) -> None:
        super().__init__("dry run")
        self.result = result


def serve(
    cluster: Cluster, request: ApiCall, *, knows_all: bool = True, part: Sequence[JsonObject] | None = None
) -> ApiResult:
    """Carry out an API request.

    Args:
        cluster: the objects.
        request: the request.
        part: the objects of its collection that are deleted; None: all.
        knows_all: whether a missing object is not to exist. A cloud that may have lost its database sets
            `remainingItemCount` in its lists for nodes, so that they delete nothing for them.

    Raises:
        DryRunError: a dry run has succeeded; the caller rolls back its changes.
    """
    warnings: tuple[str, ...] = ()
    try:
        if request.verb == DOCUMENT:
            return ApiResult(document(cluster.storage.kinds, request.name))
        request = _with_requester(_with_core_event(request))
        check_options(request)
        dry_run = is_dry_run(request)
        warnings = _field_warnings(cluster.storage.kinds, request)
        before = _version_before(cluster, request) if dry_run else ""
        with _managed(cluster, request):
            result = _carry_out(cluster, request, part)
        kinds, is_made = cluster.storage.kinds, request.verb in _WITH_OBJECT
        shown = in_requested_version(kinds, request.api_version, request.plural, result.object, is_made=is_made)
        if _is_event(request) and shown is not None:
            shown = to_events(shown)
        result = result if shown is result.object else msgspec.structs.replace(result, object=shown)
    except (ApiError, ApiStatusError) as error:
        return ApiResult(refusal=error.status(), warnings=warnings)
    if request.verb == "list" and request.node and result.object is not None and not knows_all:
        result.object["metadata"]["remainingItemCount"] = 1
    warnings = (
        *warnings,
        *_placement_warnings(cluster, request, result),
        *_kind_warnings(cluster, request, result),
        *_definition_warnings(request, result),
        *_deletion_warnings(request, result),
    )
    if warnings:
        result = msgspec.structs.replace(result, warnings=warnings)
    if dry_run:
        raise DryRunError(result if request.verb == "deletecollection" else _in_version(result, before))
    return result


def _version_before(cluster: Cluster, request: ApiCall) -> str:
    """Return the resourceVersion of the object that a request is about, "" if there is none."""
    if not request.name or request.verb == "create":
        return ""
    kind = kind_of(cluster.storage.kinds, request)
    live = cluster.storage.find(key_for(kind, request.namespace, request.name))
    return "" if live is None else version_of(live)


def _in_version(result: ApiResult, version: str) -> ApiResult:
    """Return the result of a dry run, which keeps an object's version: another comes with the write
    (DryRunnableStorage).

    Args:
        result: the response.
        version: of the object before; "": it has none.
    """
    metadata = (result.object or {}).get("metadata") or {}
    if "resourceVersion" not in metadata:
        return result
    kept = {name: value for name, value in metadata.items() if name != "resourceVersion"}
    kept |= {"resourceVersion": version} if version else {}
    return msgspec.structs.replace(result, object={**(result.object or {}), "metadata": kept})


def _placement_warnings(cluster: Cluster, request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a new or applied pod has no node yet, or a node that has never registered."""
    obj = result.object
    is_asked = request.verb == "create" or request.patch_type == APPLY
    if request.node or not is_asked or obj is None or key_kind(obj) != _POD:
        return ()
    node = obj["spec"].get("nodeName")
    if node and cluster.storage.find(key_for(_NODE, "", node)) is None:
        return (f"pod {obj['metadata']['name']}: there is no node {node} (it waits until one of that name registers)",)
    why = waits_because(obj)
    advice = "it waits; spec.nodeName, or `cloudcore run --node NAME`, names a node"
    return (f"pod {obj['metadata']['name']}: {why} ({advice})",) if why else ()


def _definition_warnings(request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a written definition has rules that are not evaluated."""
    obj, is_write = result.object, request.verb in ("create", "update", "patch") and not request.subresource
    if request.node or not is_write or obj is None or key_kind(obj) != _DEFINITION or not has_validations(obj):
        return ()
    why = "its rules in CEL (x-kubernetes-validations) are stored and not evaluated: objects that break them are taken"
    return (f"customresourcedefinition {obj['metadata']['name']}: {why}",)


def _kind_warnings(cluster: Cluster, request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that no node, or nobody at all, acts on a new or applied object of its kind."""
    is_asked = request.verb == "create" or request.patch_type == APPLY
    about = _HALF_SERVED.get((request.api_version, request.plural))
    if request.node or not is_asked or about is None or result.object is None or request.subresource:
        return ()
    if request.plural == "services" and any(map(_has_proxy, cluster.storage.list(_NODE))):
        number = result.object["spec"].get("healthCheckNodePort")
        about = f"no node answers at its healthCheckNodePort {number}" if number else ""
    return (f"{result.object['kind'].lower()} {result.object['metadata']['name']}: {about}",) if about else ()


def _has_proxy(node: JsonObject) -> bool:
    """Return whether a node answers for Services, as it reports."""
    return bool(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeProxyVersion"))


def _deletion_warnings(request: ApiCall, result: ApiResult) -> tuple[str, ...]:
    """Return the warning that a node that is alive registers again."""
    if request.verb != "delete" or not _is_of(request, _NODE) or request.node or result.refusal is not None:
        return ()
    return (
        f"node {request.name} registers again if it is alive: `cloudcore revoke node {request.name}` locks it out, and "
        f"`cloudcore allow node {request.name}` ends that",
    )


def _field_warnings(kinds: ServedKinds, request: ApiCall) -> tuple[str, ...]:
    """Return the warnings about the fields of a request's body. A node gets none unless it asks."""
    mode = str(request.options.get("fieldValidation") or (IGNORE if request.node else WARN))
    if mode == IGNORE:
        return ()
    is_other = (request.api_version, request.plural, request.subresource) in _CREATED or request.subresource == SCALE
    is_checked = request.verb in _WITH_OBJECT and request.patch_type != JSON_PATCH and not is_other
    kind = kind_of(kinds, request)
    custom = kinds.custom().get((kind.api_version, kind.plural))
    is_whole = request.verb in ("create", "update")
    if not is_checked:
        return ()
    unknown: tuple[str, ...] = ()
    if custom is not None and not _is_managed_apply(request):
        unknown = computed(unknown_fields, request.body, custom.schema, unknown_metadata)
    if is_whole and mode == STRICT and custom is None and isinstance(request.body, dict):
        computed(decoded, kind, request.body)  # a wrong type is reported before an unknown field
    return computed(check_fields, kind, request.body, mode, request.duplicates, unknown, is_whole=is_whole)


def _carry_out(cluster: Cluster, request: ApiCall, part: Sequence[JsonObject] | None) -> ApiResult:
    kind = kind_of(cluster.storage.kinds, request)
    creates = _CREATED.get((request.api_version, request.plural, request.subresource))
    if creates is not None and request.verb == "create" and request.name and not request.node:
        return ApiResult(creates(cluster, request.namespace, request.name, _object(request)), created=True)
    is_closed = bool(request.node) and request.subresource in (_EPHEMERAL, _APPROVAL)
    if is_closed or request.subresource not in ("", *subresources_of(cluster.storage.kinds, kind)):
        raise _no_subresource(request)
    match request.verb:
        case "list":
            return ApiResult(list_objects(cluster, kind, request.namespace, request.options))
        case "create":
            return ApiResult(_create(cluster, kind, request), created=True)
        case "deletecollection":
            chosen = collection_to_delete(cluster, request) if part is None else part
            return ApiResult(_delete_collection(cluster, kind, request, chosen))
    if not request.name:
        raise MethodNotAllowedError(f"a name is wanted: {request.verb[:40]} is not served on a collection")
    return _on_one(cluster, request, key_for(kind, request.namespace, request.name), kind)


def _no_subresource(request: ApiCall) -> ApiError | ApiStatusError:
    if _is_of(request, kind_named(_POD)) and request.subresource in _OF_NODES:
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
        case "update":
            new = _versioned(cluster, _named(_object(request, kind.name), kind, request), kind)
            return ApiResult(cluster.update(new, check_update if _is_event(request) else None))
        case "patch" if request.patch_type == APPLY:
            return _apply(cluster, kind, request)
        case "patch":
            return ApiResult(_patch(cluster, request, key))
        case "delete":
            return ApiResult(_delete(cluster, request, key))
    raise MethodNotAllowedError(f"the verb {request.verb[:40]!r} is not served by this cloud")


def _update_subresource(cluster: Cluster, request: ApiCall, key: ObjectKey, kind: Kind) -> JsonObject:
    if request.verb == "updatestatus" and not kind.is_custom:
        return cluster.replace_status(key, _object(request).get("status") or {})
    new = _named(_object(request), kind, request)
    if request.subresource == _FINALIZE:
        return cluster.finalize_namespace(new)
    if request.subresource == _EPHEMERAL:
        return _with_ephemeral_containers(cluster, key, new)
    if request.subresource == _APPROVAL:
        return cluster.update_approval(key, new)
    return cluster.update_status(key, _versioned(cluster, new, kind))


def _apply(cluster: Cluster, kind: Kind, request: ApiCall) -> ApiResult:
    """Carry out a server-side apply. Nodes may not: it is no write that NodeRestriction knows. Calls inside cloudcore
    name no manager, and what they apply is merged with their last manifest.
    """
    if request.node or request.subresource not in ("", "status"):
        raise UnsupportedMediaTypeError(f"patches of type {APPLY} are not served here by this cloud")
    name = str(request.options.get("fieldManager") or "")
    if name:
        _check_object_type(_object(request), kind)
    wanted = _named(_object(request), kind, request)
    if not name:
        made, outcome = cluster.apply(wanted)
        return ApiResult(made, created=outcome is ApplyOutcome.CREATED)
    custom = cluster.storage.kinds.custom().get((kind.api_version, kind.plural))
    unknown = (
        unknown_paths(kind, wanted)
        if custom is None
        else computed(unknown_fields, wanted, custom.schema, unknown_metadata)
    )
    if unknown:
        raise UntypedPatchError(request, kind, [f".{path}: field not declared in schema" for path in unknown])
    if kind == _SECRET:
        encode_string_data(wanted)
    manager = Manager(name, APPLIED, request.subresource, _stored_version(request))
    wanted.pop("spec" if request.subresource else _without(cluster, kind), None)
    made, outcome = cluster.apply_as(manager, wanted, _object(request), force=bool(request.options.get("force")))
    return ApiResult(made, created=outcome is ApplyOutcome.CREATED)


def _is_managed_apply(request: ApiCall) -> bool:
    """Return whether it is a server-side apply, which refuses fields that the schema does not have in any mode."""
    return request.patch_type == APPLY and bool(request.options.get("fieldManager"))


class UntypedPatchError(ApiError):
    """A manifest of a server-side apply does not have the schema of its kind. kube-apiserver calls it its own failure.

    Args:
        request: the request.
        kind: the kind.
        faults: each with its path.
    """

    def __init__(self, request: ApiCall, kind: Kind, faults: Sequence[str]) -> None:
        group, _, version = kind.api_version.rpartition("/")
        of = f"{request.namespace}/{request.name}; {group}/{version}, Kind={kind.name}"
        told = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        super().__init__("cannot apply a manifest", f"failed to create typed patch object ({of}): {told}")


def _check_object_type(manifest: JsonObject, kind: Kind) -> None:
    """Check that a manifest of a server-side apply names the kind of its path; other bodies may leave it out."""
    given, version = (str(manifest.get(field) or "")[:_LONGEST_PREFIX] for field in ("kind", "apiVersion"))
    if given != kind.name or (not kind.is_custom and version != kind.api_version):
        raise BadRequestError(f"invalid object type: {version if '/' in version else f'/{version}'}, Kind={given}")


def _without(cluster: Cluster, kind: Kind) -> str:
    """Return the field that a manifest does not set: a status that is a subresource."""
    return "status" if "status" in subresources_of(cluster.storage.kinds, kind) else ""


def _managed(cluster: Cluster, request: ApiCall) -> AbstractContextManager[None]:
    """Return the context that attributes the changes of a request to its manager. A node has none: its
    writes are of statuses, and notes about them would be larger than they are. A binding has none, as in Kubernetes.
    """
    name = str(request.options.get("fieldManager") or "")
    if not name or request.node or request.verb not in _WITH_OBJECT or request.patch_type == APPLY:
        return nullcontext()
    if request.subresource == "binding":
        return nullcontext()
    return cluster.managed_by(Manager(name, UPDATED, request.subresource, _stored_version(request)))


def _patch(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    _check_uid_of_patch(cluster, request, key)
    live = cluster.to_change(key)
    match request.patch_type:
        case "application/strategic-merge-patch+json" if cluster.storage.kinds.custom_of(live) is None:
            merged = computed(merge_strategic, live, _patch_object(request, ""), schema_of(key.kind))
        case "application/merge-patch+json":
            merged = computed(merge_json, live, _patch_object(request, "error decoding patch: "))
        case "application/json-patch+json":
            managed = listed(live["metadata"].get("managedFields"))
            merged = computed(apply_json_patch, with_entries(live, managed), request.body)
        case _:
            strategic = () if cluster.storage.kinds.custom_of(live) else (STRATEGIC,)
            known = ", ".join((JSON_PATCH, MERGE, *strategic, APPLY))
            why = "the body of the request was in an unknown format - accepted media types include:"
            raise UnsupportedMediaTypeError(f"{why} {known}")
    if not isinstance(merged, dict) or not isinstance(merged.get("metadata"), dict):
        raise BadRequestError("the patch takes the object's metadata away")
    for field in _IDENTITY:
        given, value = merged["metadata"].get(field), live["metadata"].get(field)
        if given != value:
            raise _misnamed(request, field, str(given)[:_LONGEST_PREFIX], str(value))
    _check_uid(live, merged)
    if request.subresource == "status":
        return cluster.update_status(key, computed(without_empty_members, merged, live))
    if request.subresource == _EPHEMERAL:
        return _with_ephemeral_containers(cluster, key, merged)
    if request.subresource == _APPROVAL:
        return cluster.update_approval(key, merged)
    changes = check_update if _is_event(request) else None
    try:
        return cluster.update({**merged, "kind": live["kind"], "apiVersion": live["apiVersion"]}, changes)
    except DecodingError as error:
        told = go_text(request.body) if request.patch_type == STRATEGIC else msgspec.json.encode(request.body).decode()
        raise InvalidError("", "", "patch", f"Invalid value: {shown(told)}: {error.why}") from error


def _with_ephemeral_containers(cluster: Cluster, key: ObjectKey, wanted: JsonObject) -> JsonObject:
    """Store the ephemeral containers of a pod, as `kubectl debug` adds them, and nothing else of it."""
    live, spec = cluster.to_change(key), wanted.get("spec")
    added = spec.get("ephemeralContainers") if isinstance(spec, dict) else None
    metadata = {**live["metadata"], "resourceVersion": version_of(wanted) or version_of(live)}
    wanted = {**live, "metadata": metadata, "spec": {**live["spec"], "ephemeralContainers": added or []}}
    return cluster.update(wanted, ephemeral_containers_update)


def _check_uid_of_patch(cluster: Cluster, request: ApiCall, key: ObjectKey) -> None:
    """Check the uid in a patch before the admission, as kube-apiserver does: a node may report a pod that was replaced
    by a pod with the same name on another node.
    """
    live, metadata = cluster.storage.find(key), request.body.get("metadata") if isinstance(request.body, dict) else None
    if live is not None and isinstance(metadata, dict) and metadata.get("uid"):
        _check_uid(live, {"metadata": metadata})


def _check_uid(live: JsonObject, merged: JsonObject) -> None:
    uid = merged["metadata"].get("uid", uid_of(live))
    if uid != uid_of(live):
        why = f'Invalid value: "{str(uid)[:40]}": field is immutable'
        raise InvalidError(live["kind"], live["metadata"]["name"], "metadata.uid", why)


def _versioned(cluster: Cluster, obj: JsonObject, kind: Kind) -> JsonObject:
    """Return an object of an update, which needs a resourceVersion if its kind is custom or such: two holders would
    both get a Lease.
    """
    is_needed = kind.is_custom or kind.name in _VERSIONED
    if is_needed and not version_of(obj) and cluster.storage.find(key_of(obj)) is not None:
        why = "Invalid value: 0x0: must be specified for an update"
        raise InvalidError(kind.plural, obj["metadata"]["name"], "metadata.resourceVersion", why, kind.api_group)
    return obj


def _delete(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    """Delete an object; return the pod, or the Status of a success for other kinds."""
    gone = _deleted(cluster, request, key)
    if key.kind == _POD or is_being_deleted(gone):
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
    uid, version = (str(preconditions.get(name) or "") for name in ("uid", "resourceVersion"))
    _check_precondition("UID", uid, cluster.storage.get(key), uid_of, "deleted and then recreated")
    live = cluster.to_change(key)  # kube-apiserver, too, checks the uid before the admission
    _check_precondition("ResourceVersion", version, live, version_of, "modified")
    return cluster.delete(key, _grace(request), uid, propagation_policy(request.options))


def _check_precondition(
    field: str, wanted: str, live: JsonObject, value_of: Callable[[JsonObject], str], happened: str
) -> None:
    """Refuse a deletion of another object, or of another state of it, than the preconditions name (BeforeDelete)."""
    if wanted and wanted != value_of(live):
        record = f"the {field} in the precondition ({wanted[:40]}) does not match the {field} in record"
        why = f"{record} ({value_of(live)}). The object might have been {happened}"
        group = str(live["apiVersion"]).rpartition("/")[0]
        raise ConflictError(live["kind"], live["metadata"]["name"], why, group)


def collection_to_delete(cluster: Cluster, request: ApiCall) -> list[JsonObject]:
    """Return the objects that the deletion of a collection selects.

    Raises:
        ApiError: it selects none, or a parameter cannot be read.
    """
    request = _with_core_event(request)
    kind = kind_of(cluster.storage.kinds, request)
    if kind.namespaced and not request.namespace:
        raise MethodNotAllowedError(f"{kind.plural} are deleted in one namespace at a time")
    found = selected_objects(cluster, kind, request.namespace, request.options)
    limit = request.options.get("limit")
    return found[:limit] if isinstance(limit, int) and limit > 0 else found


def _delete_collection(cluster: Cluster, kind: Kind, request: ApiCall, chosen: Sequence[JsonObject]) -> JsonObject:
    """Delete objects of a collection, unless they were deleted or replaced in the meantime."""
    gone = []
    for obj in chosen:
        live = cluster.storage.find(key_of(obj))
        if live is not None and uid_of(live) == uid_of(obj):
            gone.append(_deleted(cluster, request, key_of(obj)))
    version = str(cluster.storage.version)
    metadata = {"resourceVersion": version}
    return {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata, "items": gone}


def find_kind(kinds: ServedKinds, request: ApiCall) -> Kind | None:
    """Return the kind of a request's resource; None if the API server stores no such objects."""
    try:
        return kind_of(kinds, request)
    except UnknownKindError:
        return None


def kind_of(kinds: ServedKinds, request: ApiCall) -> Kind:
    """Return the kind of a request's resource.

    Raises:
        UnknownKindError: the API server stores no such objects.
    """
    return kinds.at(_stored_version(request), request.plural)


def _is_of(request: ApiCall, kind: Kind) -> bool:
    """Return whether a request is about objects of a kind. A custom one of another group may have its plural."""
    return (request.api_version, request.plural) == (kind.api_version, kind.plural)


def _is_event(request: ApiCall) -> bool:
    """Return whether a request is about an Event of events.k8s.io, whose errors and rules are that group's."""
    return is_of_events(request.api_version, request.plural)


def _stored_version(request: ApiCall) -> str:
    """Return the stored API version of a request's objects; several versions of a custom kind are one."""
    return _CORE if _is_event(request) else request.api_version


def _with_requester(request: ApiCall) -> ApiCall:
    """Return a request that makes a certificate request with the user who asks in its spec, regardless of the body:
    kube-controller-manager approves requests by the rights of that user (csrStrategy.PrepareForCreate).
    """
    is_asked = request.verb == "create" or request.patch_type == APPLY
    spec = request.body.get("spec") if isinstance(request.body, dict) else None
    if not _is_of(request, _CSR) or not is_asked or not isinstance(spec, dict) or not (request.user or request.node):
        return request
    who: JsonObject = {"username": request.user, "groups": [*request.groups]}
    if request.node:
        who = {"username": user_of(request.node), "groups": [*NODE_GROUPS]}
    others = {name: value for name, value in spec.items() if name not in _REQUESTER}
    return msgspec.structs.replace(request, body={**request.body, "spec": {**others, **who}})


def _with_core_event(request: ApiCall) -> ApiCall:
    """Return a request about an Event of events.k8s.io with its body and its selector as core/v1 has them.

    Raises:
        BadRequestError: the body has another apiVersion.
    """
    if not _is_event(request):
        return request
    body, options = request.body, request.options
    if isinstance(body, dict):
        version = str(body.get("apiVersion") or "")[:_LONGEST_PREFIX]
        if version not in ("", EVENTS_VERSION):
            data = f"the API version in the data ({version})"
            raise BadRequestError(f"{data} does not match the expected API version ({EVENTS_VERSION})")
        body = to_core(body)
    elif request.patch_type == JSON_PATCH:
        body = operations_to_core(body)
    if fields := options.get("fieldSelector"):
        options = {**options, "fieldSelector": core_selector(str(fields))}
    return msgspec.structs.replace(request, body=body, options=options)


def _object(request: ApiCall, kind: str = "") -> JsonObject:
    if not isinstance(request.body, dict):
        raise not_an_object(request.body, kind)
    return request.body


def _patch_object(request: ApiCall, before: str) -> JsonObject:
    if not isinstance(request.body, dict):
        raise BadRequestError(before + type_error(request.body, "map[string]interface {}"))
    return request.body


def _create(cluster: Cluster, kind: Kind, request: ApiCall) -> JsonObject:
    """Create an object; return the object that the request created before its transaction seemed to be lost."""
    uid = _uid_to_create(request)
    obj = _to_create(cluster, kind, request)
    made = cluster.storage.find(key_of(obj)) if uid else None
    if made is not None and uid_of(made) == uid:
        return made
    return cluster.create(obj, check_creation if _is_event(request) else None, uid)


def _uid_to_create(request: ApiCall) -> str:
    """Return the uid of the object that a request creates, the same whenever it is taken; "" for any uid."""
    if not request.message_id:
        return ""
    return str(UUID(bytes=hashlib.sha256(request.message_id.encode()).digest()[:16], version=4))


def _to_create(cluster: Cluster, kind: Kind, request: ApiCall) -> JsonObject:
    obj = _named(_object(request, kind.name), kind, request)
    metadata = obj["metadata"]
    if metadata.get("resourceVersion"):
        raise BadRequestError("resourceVersion should not be set on objects to be created")
    prefix = metadata.get("generateName")
    if not metadata.get("name") and isinstance(prefix, str) and prefix:
        made = _generated_name(cluster, kind, request, prefix)
        obj = {**obj, "metadata": {**metadata, "name": made}}
    elif not metadata.get("name"):
        obj = {**obj, "metadata": {**metadata, "name": ""}}  # the rules of metadata refuse it, with all other faults
    return with_server_fields_removed(obj)


def _generated_name(cluster: Cluster, kind: Kind, request: ApiCall, prefix: str) -> str:
    """Return a name with a prefix that no object has, or that the request has made before; after some attempts, a name
    that an object has (createWithGenerateNameRetry).
    """
    made, uid = "", _uid_to_create(request)
    for attempt in range(_ATTEMPTS):
        made = prefix[:_LONGEST_BASE] + suffix_of(f"{uid}{attempt}" if uid else computed(cluster.clock.new_id))
        live = cluster.storage.find(key_for(kind, request.namespace, made))
        if live is None or uid_of(live) == uid:
            break
    return made


def _named(obj: JsonObject, kind: Kind, request: ApiCall) -> JsonObject:
    """Return the object with kind, namespace and name of the request's path."""
    _check_type(obj, kind)
    if not kind.is_custom:
        obj = computed(decoded, kind, obj)
    given = obj.get("metadata")
    if not isinstance(given or {}, dict):
        raise BadRequestError("metadata is missing")
    metadata = dict(given or {})
    if not kind.namespaced:
        metadata.pop("namespace", None)
    if request.verb == "update" and not metadata.get("name"):
        unknown = f"the name of the object ({request.name} based on URL) was undeterminable"
        raise BadRequestError(f"{unknown}: name must be provided")
    wanted = {"namespace": request.namespace} if kind.namespaced and request.namespace else {}
    wanted |= {"name": request.name} if request.name else {}
    for field, value in wanted.items():
        if (metadata.get(field) or value) != value:
            raise _misnamed(request, field, str(metadata[field])[:_LONGEST_PREFIX], value)
    return {**obj, "kind": kind.name, "apiVersion": kind.api_version, "metadata": {**metadata, **wanted}}


def _check_type(obj: JsonObject, kind: Kind) -> None:
    given, version = (str(obj.get(field) or "")[:_LONGEST_PREFIX] for field in ("kind", "apiVersion"))
    given, version = given or kind.name, version or kind.api_version
    if (given, version) == (kind.name, kind.api_version):
        return
    if kind.is_custom and given == kind.name:
        data = f"the API version in the data ({version})"
        raise BadRequestError(f"{data} does not match the expected API version ({kind.api_version})")
    of = version.rpartition("/")[2]
    if any((one.name, one.api_version) == (given, version) for one in KINDS):
        group = kind.api_group.partition(".")[0] or "core"
        why = f"converting ({of}.{given}) to ({group}.{kind.name}): unknown conversion"
    else:
        why = f'no kind "{given}" is registered for version "{version}"'
    raise BadRequestError(f'{given} in version "{of}" cannot be handled as a {kind.name}: {why}')


def _misnamed(request: ApiCall, field: str, given: str, value: str) -> BadRequestError:
    """Return the error for an object with another name or namespace than its path."""
    if request.verb == "create" or field != "name":
        return BadRequestError(f"the {field} of the provided object does not match the {field} sent on the request")
    return BadRequestError(f"the {field} of the object ({given}) does not match the name on the URL ({value})")


def _grace(request: ApiCall) -> int | None:
    grace = request.options.get("gracePeriodSeconds")
    if grace is None:
        return None
    if type(grace) is int:
        return grace if grace >= 0 else 1
    raise BadRequestError("gracePeriodSeconds is a number of seconds")
