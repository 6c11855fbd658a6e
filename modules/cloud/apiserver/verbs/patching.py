"""Patches of objects, and server-side apply."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidError,
    UnsupportedMediaTypeError,
)
from modules.apimachinery.computed import computed
from modules.apimachinery.event_versions import check_update
from modules.apimachinery.go_values import go_text
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, uid_of, version_of
from modules.apimachinery.protobuf.empty_members import without_empty_members
from modules.apimachinery.strategic_merge import merge_json, merge_strategic
from modules.apimachinery.structural_schema.values import unknown_fields
from modules.apimachinery.validation.causes import shown
from modules.apimachinery.validation.pods import ephemeral_containers_update
from modules.cloud.apiextensions.calls import subresources_of
from modules.cloud.apiserver.cluster import ApplyOutcome, Cluster
from modules.cloud.apiserver.field_manager.managed_fields import APPLY as APPLIED
from modules.cloud.apiserver.field_manager.managed_fields import Manager, listed, with_entries
from modules.cloud.apiserver.fields.bodies import LONGEST_SHOWN
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.apiserver.fields.types import DecodingError, decoded, decoded_custom
from modules.cloud.apiserver.fields.validation import STRICT, unknown_metadata, unknown_paths, yaml_error
from modules.cloud.apiserver.verbs.requests import (
    is_event,
    kind_of,
    misnamed,
    named,
    object_of,
    patch_of,
    stored_version,
)
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall, ApiResult

_IDENTITY: Final = ("namespace", "name")
_EPHEMERAL: Final = "ephemeralcontainers"
_APPROVAL: Final = "approval"


def apply(cluster: Cluster, kind: Kind, request: ApiCall) -> ApiResult:
    """Carry out a server-side apply. Nodes may not: it is no write that NodeRestriction knows. Calls inside cloudcore
    name no manager, and what they apply is merged with their last manifest.
    """
    if request.node or request.subresource not in ("", "status"):
        raise UnsupportedMediaTypeError(f"patches of type {APPLY} are not served here by this cloud")
    name = str(request.options.get("fieldManager") or "")
    if name:
        _check_object_type(object_of(request), kind)
    wanted = named(object_of(request), kind, request)
    if not name:
        made, outcome = cluster.apply(wanted)
        return ApiResult(made, created=outcome is ApplyOutcome.CREATED)
    custom = cluster.storage.kinds.custom().get((kind.api_version, kind.plural))
    unknown = (
        unknown_paths(kind, wanted)
        if custom is None
        else computed(unknown_fields, wanted, custom.schema, unknown_metadata, is_applied=True)
    )
    if unknown:
        raise UntypedPatchError(request, kind, [f".{path}: field not declared in schema" for path in unknown])
    if request.duplicates and request.options.get("fieldValidation") == STRICT:
        why = f"error strict decoding YAML: error converting YAML to JSON: {yaml_error(request.duplicates)}"
        raise BadRequestError(why)
    _check_uid_of_apply(cluster, kind, wanted)
    manager = Manager(name, APPLIED, request.subresource, stored_version(request))
    wanted.pop("spec" if request.subresource else _without(cluster, kind), None)
    wanted = _with_nulls(wanted, object_of(request))
    made, outcome = cluster.apply_as(manager, wanted, object_of(request), force=bool(request.options.get("force")))
    return ApiResult(made, created=outcome is ApplyOutcome.CREATED)


def _with_nulls(read: Any, given: Any) -> Any:
    """Return a decoded manifest with its null members: its manager has them, too (`ToFieldSet`)."""
    match read, given:
        case dict(), dict():
            nulls = {name: None for name, value in given.items() if value is None and name not in read}
            return {name: _with_nulls(value, given.get(name)) for name, value in read.items()} | nulls
        case list(), list() if len(read) == len(given):
            return [*map(_with_nulls, read, given)]
    return read


def _check_uid_of_apply(cluster: Cluster, kind: Kind, wanted: JsonObject) -> None:
    """Check that a manifest with a uid is of the object that is there: nobody makes a deleted object again by it.

    Raises:
        ConflictError: there is no object.
        InvalidError: it has another uid.
    """
    if not (uid := uid_of(wanted)):
        return
    live = cluster.storage.find(key_of(wanted))
    if live is None:
        why = f"uid mismatch: the provided object specified uid {uid[:LONGEST_SHOWN]}, and no existing object was found"
        raise ConflictError(kind.plural, wanted["metadata"]["name"], why, kind.api_group)
    _check_uid(live, wanted)


def is_managed_apply(request: ApiCall) -> bool:
    """Return whether it is a server-side apply, which refuses fields that the schema does not have in any mode."""
    return request.patch_type == APPLY and bool(request.options.get("fieldManager"))


def shown_patch(request: ApiCall) -> str:
    """Return a patch as an API server shows it in a refusal."""
    body = request.body
    return shown(go_text(body) if request.patch_type == STRATEGIC else msgspec.json.encode(body).decode())


class UntypedPatchError(ApiError):
    """A manifest of a server-side apply does not have the schema of its kind. kube-apiserver calls it its own failure,
    without a reason.

    Args:
        request: the request.
        kind: the kind.
        faults: each with its path.
    """

    reason = ""

    def __init__(self, request: ApiCall, kind: Kind, faults: Sequence[str]) -> None:
        group, _, version = kind.api_version.rpartition("/")
        of = f"{_namespace_in(request.body)}/{request.name}; {group}/{version}, Kind={kind.name}"
        told = faults[0] if len(faults) == 1 else "\n  ".join(("errors:", *faults))
        super().__init__("cannot apply a manifest", f"failed to create typed patch object ({of}): {told}")


def _namespace_in(manifest: Any) -> str:
    """Return the namespace that a manifest itself names; "" for none."""
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    return str(metadata.get("namespace") or "")[:LONGEST_SHOWN] if isinstance(metadata, dict) else ""


def _check_object_type(manifest: JsonObject, kind: Kind) -> None:
    """Check that a manifest of a server-side apply names the kind of its path; other bodies may leave it out."""
    given, version = (str(manifest.get(field) or "")[:LONGEST_SHOWN] for field in ("kind", "apiVersion"))
    if given != kind.name or (not kind.is_custom and version != kind.api_version):
        raise BadRequestError(f"invalid object type: {version if '/' in version else f'/{version}'}, Kind={given}")


def _without(cluster: Cluster, kind: Kind) -> str:
    """Return the field that a manifest does not set: a status that is a subresource."""
    return "status" if "status" in subresources_of(cluster.storage.kinds, kind) else ""


def patch(cluster: Cluster, request: ApiCall, key: ObjectKey) -> JsonObject:
    _check_uid_of_patch(cluster, request, key)
    live = cluster.to_change(key)
    match request.patch_type:
        case "application/strategic-merge-patch+json" if cluster.storage.kinds.custom_of(live) is None:
            merged = computed(merge_strategic, live, patch_of(request, ""), schema_of(key.kind))
        case "application/merge-patch+json":
            merged = computed(merge_json, live, patch_of(request, "error decoding patch: "))
        case "application/json-patch+json":
            managed = listed(live["metadata"].get("managedFields"))
            merged = computed(apply_json_patch, with_entries(live, managed), request.body)
        case _:
            strategic = () if cluster.storage.kinds.custom_of(live) else (STRATEGIC,)
            known = ", ".join((JSON_PATCH, MERGE, *strategic, APPLY))
            why = "the body of the request was in an unknown format - accepted media types include:"
            raise UnsupportedMediaTypeError(f"{why} {known}")
    try:
        return _store(cluster, request, key, live, merged)
    except DecodingError as error:
        why = error.converted if request.patch_type == STRATEGIC else error.why
        raise InvalidError("", "", "patch", f"Invalid value: {shown_patch(request)}: {why}") from error


def _store(cluster: Cluster, request: ApiCall, key: ObjectKey, live: JsonObject, merged: Any) -> JsonObject:
    """Store what a patch has made of an object."""
    if not isinstance(merged, dict) or merged.get("metadata") is None:
        raise _unnamed(key.name)
    if not isinstance(merged["metadata"], dict):
        decoded(kind_of(cluster.storage.kinds, request), merged)
        raise BadRequestError("the patch makes no object of the metadata")
    if merged["metadata"] == live["metadata"]:
        merged = {**merged, "metadata": live["metadata"]}  # so that nobody looks at them again
    else:
        if cluster.storage.kinds.custom_of(live) is not None:
            merged = computed(decoded_custom, kind_of(cluster.storage.kinds, request), merged)
        check_identity(request, live, merged)
        _check_uid(live, merged)
    if request.subresource in ("status", _APPROVAL) and merged.get("status") is not live.get("status"):
        # with a status that cannot be read, any other patch of the object would be refused
        kind = kind_of(cluster.storage.kinds, request)
        merged = {**merged, **computed(decoded, kind, {"status": merged.get("status")})}
    if request.subresource == "status":
        return cluster.update_status(key, computed(without_empty_members, merged, live), live)
    if request.subresource == _EPHEMERAL:
        return with_ephemeral_containers(cluster, key, merged)
    if request.subresource == _APPROVAL:
        return cluster.update_approval(key, merged)
    changes = check_update if is_event(request) else None
    version = live["apiVersion"] if cluster.storage.kinds.custom_of(live) is None else request.api_version
    return cluster.update({**merged, "kind": live["kind"], "apiVersion": version}, changes)


def with_ephemeral_containers(cluster: Cluster, key: ObjectKey, wanted: JsonObject) -> JsonObject:
    """Store the ephemeral containers of a pod, as `kubectl debug` adds them, and nothing else of it."""
    live, spec = cluster.to_change(key), wanted.get("spec")
    added = spec.get("ephemeralContainers") if isinstance(spec, dict) else None
    read = {"uid": uid_of(wanted) or uid_of(live), "resourceVersion": version_of(wanted) or version_of(live)}
    metadata = {**live["metadata"], **read}
    wanted = {**live, "metadata": metadata, "spec": {**live["spec"], "ephemeralContainers": added or []}}
    return cluster.update(wanted, ephemeral_containers_update)


def _check_uid_of_patch(cluster: Cluster, request: ApiCall, key: ObjectKey) -> None:
    """Check the uid in a patch before the admission, as kube-apiserver does: a node may report a pod that was replaced
    by a pod with the same name on another node. A patch that also renames the object is refused for that.
    """
    metadata = request.body.get("metadata") if isinstance(request.body, dict) else None
    if not isinstance(metadata, dict) or not metadata.get("uid"):
        return
    live = cluster.storage.find(key)
    if live is not None:
        check_identity(request, live, {"metadata": {**live["metadata"], **metadata}})
        _check_uid(live, {"metadata": metadata})


def _unnamed(name: str) -> BadRequestError:
    where = f"the name of the object ({name} based on URL)"
    return BadRequestError(f"{where} was undeterminable: name must be provided")


def check_identity(request: ApiCall, live: JsonObject, merged: JsonObject) -> None:
    """Check that a patch leaves an object its name and namespace.

    Raises:
        BadRequestError: it does not.
    """
    if not merged.get("metadata"):
        raise _unnamed(request.name)
    for field in _IDENTITY:
        given, value = merged["metadata"].get(field), live["metadata"].get(field)
        if given != value:
            raise misnamed(request, field, str(given)[:LONGEST_SHOWN], str(value))


def _check_uid(live: JsonObject, merged: JsonObject) -> None:
    uid = merged["metadata"].get("uid", uid_of(live))
    if uid != uid_of(live):
        why = f'Invalid value: "{str(uid)[:40]}": field is immutable'
        group = str(live["apiVersion"]).rpartition("/")[0]
        raise InvalidError(live["kind"], live["metadata"]["name"], "metadata.uid", why, group)
