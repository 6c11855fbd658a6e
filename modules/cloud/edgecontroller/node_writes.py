"""The objects before and after a node's write, for the admission of a call that another API server carries out."""

from modules.cloud.apiserver.errors import BadRequestError, MethodNotAllowedError
from modules.cloud.apiserver.json_patch import apply_json_patch
from modules.cloud.apiserver.kinds import JsonObject, Kind
from modules.cloud.apiserver.merge_schema import schema_of
from modules.cloud.apiserver.strategic_merge import merge_json, merge_strategic
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall

WRITES = ("create", "update", "updatestatus", "patch", "delete", "deletecollection")
_BY_NAME = ("Lease", "CertificateSigningRequest")
"""Kinds whose admission looks at no state before a write that leaves an object."""


def is_write(call: ApiCall) -> bool:
    """Return whether a call changes an object; a token is none."""
    return call.verb in WRITES and not (call.verb == "create" and call.subresource)


def needs_live(kind: Kind, call: ApiCall) -> bool:
    """Return whether the admission of a write needs the present object."""
    return call.verb == "delete" or (call.verb != "create" and kind.name not in _BY_NAME)


def proposed(kind: Kind, call: ApiCall, live: JsonObject | None) -> JsonObject | None:
    """Return the object as a write would leave it; None when it deletes it.

    Args:
        kind: the object's kind.
        call: the write.
        live: the present object, if it is needed and exists.

    Raises:
        ApiError: the body is no object, or no patch of it, or a node may not write that way.
    """
    if call.verb == "deletecollection":
        raise MethodNotAllowedError("a node deletes one object at a time")
    if call.verb == "delete":
        return None
    changed = _patched(call, live or {}) if call.verb == "patch" else call.body
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise BadRequestError("a JSON object with metadata is wanted")
    metadata = {**changed["metadata"]}
    for name, value in (("name", call.name), ("namespace", call.namespace if kind.namespaced else "")):
        if value and metadata.setdefault(name, value) != value:
            raise BadRequestError(f"the {name} of the object is not the request's")
    new = {**changed, "kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
    if live is not None and (call.subresource == "status" or call.verb == "updatestatus"):
        new["spec"] = live.get("spec", {})
    return new


def _patched(call: ApiCall, live: JsonObject) -> JsonObject:
    match call.patch_type:
        case _ if call.patch_type == STRATEGIC and isinstance(call.body, dict):
            return merge_strategic(live, call.body, schema_of(str(live.get("kind") or "")))
        case _ if call.patch_type == MERGE and isinstance(call.body, dict):
            merged = merge_json(live, call.body)
            return merged if isinstance(merged, dict) else {}
        case _ if call.patch_type == JSON_PATCH:
            patched = apply_json_patch(live, call.body)
            return patched if isinstance(patched, dict) else {}
    raise MethodNotAllowedError("a node writes by update, or by a JSON, merge or strategic merge patch")


def same_uid(call: ApiCall, live: JsonObject) -> bool:
    """Return whether the uid that a write names, if any, is the object's."""
    metadata = call.body.get("metadata") if isinstance(call.body, dict) else None
    preconditions = call.options.get("preconditions")
    named = metadata if isinstance(metadata, dict) else preconditions if isinstance(preconditions, dict) else {}
    return named.get("uid") in (None, "", live["metadata"].get("uid"))
