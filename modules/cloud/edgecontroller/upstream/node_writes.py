"""The objects before and after a node's write, for the admission of a call that another API server carries out."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from modules.apimachinery.api_errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    InvalidError,
    MethodNotAllowedError,
)
from modules.apimachinery.json_patch import apply_json_patch
from modules.apimachinery.kinds import JsonObject, Kind, uid_of, version_of
from modules.apimachinery.strategic_merge import merge_json, merge_strategic
from modules.cloud.apiserver.fields.merge_schemas import schema_of
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall

_log = logging.getLogger(__name__)

_BY_NAME = ("Lease", "CertificateSigningRequest")
"""Kinds whose admission looks at no state before the write, unless it deletes the object."""
_WITH_OTHERS_PARTS: Final = ("Node", "Pod")
"""Kinds with parts that NodeRestriction keeps a node from changing."""
_OTHERS_METADATA: Final = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})
_STATUS: Final = "status"


def needs_live(kind: Kind, call: ApiCall) -> bool:
    """Return whether the admission of a write needs the present object."""
    return call.verb == "delete" or (call.verb != "create" and kind.name not in _BY_NAME)


def is_conditional(kind: Kind, call: ApiCall) -> bool:
    """Return whether a write is for the state that the admission has seen, and no other: it might take back labels,
    annotations, taints or owners that others have set since. Reports of a status do not.
    """
    if kind.name not in _WITH_OTHERS_PARTS or call.verb in ("create", "delete"):
        return False
    if call.verb != "patch" or not isinstance(call.body, dict):
        return True
    return "spec" in call.body or not _OTHERS_METADATA.isdisjoint(_metadata_in(call.body) or {})


def version_in(call: ApiCall) -> str:
    """Return the version of the object that a write is for; "" for any."""
    return str((_metadata_in(call.body) or {}).get("resourceVersion") or "")


def is_present(kind: Kind, call: ApiCall, live: JsonObject) -> bool:
    """Return whether a write names no other uid than the object's, and, if it is conditional, no other version."""
    is_of_another = is_conditional(kind, call) and version_in(call) not in ("", version_of(live))
    return same_uid(call, live) and not is_of_another


def admitted(
    kind: Kind, call: ApiCall, live: JsonObject | None, admit: Callable[[JsonObject | None, JsonObject | None], None]
) -> ApiCall:
    """Return a node's write as it is to be made.

    Args:
        kind: the object's kind.
        call: the write; its body may have any form.
        live: the present object, if it is needed.
        admit: checks the objects before and after; raises ApiError.

    Raises:
        ApiError: the write is refused.
    """
    try:
        if live is not None:
            _check_uid(kind, call, live)
            _check_version(kind, call, live)
            admit(live, live)  # whether a patch fits the object would reveal its content
        admit(live, proposed(kind, call, live))
        if live is None:
            return call
        bound = with_metadata(call, "uid", uid_of(live))
        return with_metadata(bound, "resourceVersion", version_of(live)) if is_conditional(kind, call) else bound
    except ApiError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _log.warning("a write of a node to %s cannot be read", kind.plural, exc_info=error)
        raise BadRequestError(f"{kind.name}: the object does not have the kind's form") from error


def _check_uid(kind: Kind, call: ApiCall, live: JsonObject) -> None:
    """Check the uid that a write names, before the admission as kube-apiserver does: a node may report a pod that was
    replaced by a pod with the same name on another node.

    Raises:
        ConflictError, InvalidError: it is not the object's.
    """
    if same_uid(call, live):
        return
    if call.verb == "patch":
        uid = str((_metadata_in(call.body) or {}).get("uid"))
        why = f'Invalid value: "{uid[:40]}": field is immutable'
        raise InvalidError(kind.name, call.name[:253], "metadata.uid", why, kind.api_group)
    why = "Precondition failed: the UID in the request is not that of the object"
    raise ConflictError(kind.plural, call.name[:253], why, kind.api_group)


def _check_version(kind: Kind, call: ApiCall, live: JsonObject) -> None:
    """Check the version that a write names: one that the admission has not seen may have parts of others.

    Raises:
        ConflictError: it is another.
    """
    if not is_present(kind, call, live):
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise ConflictError(kind.plural, call.name[:253], why, kind.api_group)


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
    for name, value in (("kind", kind.name), ("apiVersion", kind.api_version)):
        if changed.get(name) not in (None, "", value):
            raise BadRequestError(f"the {name} of the object is not the request's")
    new = {**changed, "kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata}
    if live is not None and (call.subresource == _STATUS or call.verb == "updatestatus"):
        new["spec"] = live.get("spec", {})
    return new


def _patched(call: ApiCall, live: JsonObject) -> JsonObject:
    """Return an object with a patch of it."""
    match call.patch_type:
        case _ if call.patch_type == STRATEGIC and isinstance(call.body, dict):
            _refuse_directives(call.body)
            return merge_strategic(live, call.body, schema_of(str(live.get("kind") or "")))
        case _ if call.patch_type == MERGE and isinstance(call.body, dict):
            merged = merge_json(live, call.body)
            return merged if isinstance(merged, dict) else {}
        case _ if call.patch_type == JSON_PATCH:
            patched = apply_json_patch(live, call.body)
            return patched if isinstance(patched, dict) else {}
    raise MethodNotAllowedError("a node writes by update, or by a JSON, merge or strategic merge patch")


def _refuse_directives(patch: JsonObject) -> None:
    """Refuse a strategic merge patch with directives outside of the status, where kubelets need them.

    The admission looks at what `merge_strategic` makes of them. They can change any field: apimachinery's
    `strategicpatch.mergeMap` merges a map, and removes a field for null, at `$deleteFromPrimitiveList/FIELD`. So a
    label could change that the admission does not see, if kube-apiserver merges a patch in another way.

    Raises:
        BadRequestError: there is such a directive.
    """
    places: list[Any] = [{name: value for name, value in patch.items() if name != _STATUS}]
    while places:
        place = places.pop()
        if isinstance(place, dict):
            directive = next((name for name in place if name.startswith("$")), "")
            if directive:
                raise BadRequestError(f"a node's patch has directives in its status only, not {directive[:80]!r}")
            places.extend(place.values())
        elif isinstance(place, list):
            places.extend(place)


def with_labels(call: ApiCall, labels: Mapping[str, str]) -> ApiCall:
    """Return an admitted registration with labels that an administrator has decided, which count before the node's."""
    metadata = _metadata_in(call.body)
    if not labels or metadata is None:
        return call
    own = metadata.get("labels")
    merged = {**(own if isinstance(own, dict) else {}), **labels}
    return msgspec.structs.replace(call, body={**call.body, "metadata": {**metadata, "labels": merged}})


def same_uid(call: ApiCall, live: JsonObject) -> bool:
    """Return whether the uid that a write names, if any, is the object's."""
    named = call.options.get("preconditions") if call.verb == "delete" else _metadata_in(call.body)
    return not isinstance(named, dict) or named.get("uid") in (None, "", uid_of(live))


def with_metadata(call: ApiCall, name: str, value: str) -> ApiCall:
    """Return an admitted write with the uid, or the resourceVersion, of the object that the admission has seen: the API
    server refuses it when another has the name by now, perhaps one of another node.
    """
    if not value:
        return call
    if call.verb == "delete":
        preconditions = {**(call.options.get("preconditions") or {}), name: value}
        return msgspec.structs.replace(call, options={**call.options, "preconditions": preconditions})
    if isinstance(call.body, list):
        test = {"op": "test", "path": f"/metadata/{name}", "value": value}
        return msgspec.structs.replace(call, body=[test, *call.body])
    metadata = _metadata_in(call.body) or {}
    if metadata.get(name) == value:
        return call
    return msgspec.structs.replace(call, body={**call.body, "metadata": {**metadata, name: value}})


def _metadata_in(body: Any) -> JsonObject | None:
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return metadata if isinstance(metadata, dict) else None
