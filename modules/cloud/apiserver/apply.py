"""kubectl's `apply`: the three-way merge of a manifest, the last manifest and the live object.

Fields of the last manifest that the new one lacks are removed. Fields set by others stay, such as the edge's status, or
labels of a node that registered itself. The last manifest is stored in kubectl's annotation.
"""

import json
from typing import Any

import msgspec

from beehive.nesting import read_json
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject, is_custom, key_kind, kind_named
from modules.apimachinery.validation.objects import check_shape, validate_object
from modules.cloud.apiserver.admission.api_access import with_kept_api_access
from modules.cloud.apiserver.fields.types import decoded
from modules.cloud.apiserver.kind_defaults import with_defaults
from modules.cloud.apiserver.strategies import without_status

_SERVERS_METADATA = (
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation",
)  # fmt: skip


def shaped(document: Any) -> JsonObject:
    """Return an object of the API server's own kinds as its decoder reads it, after checking its shape.

    Raises:
        ApiError: it is not an object of a known kind, or a field has another type than its kind's.
    """
    if isinstance(document, dict) and isinstance(document.get("kind"), str) and not is_custom(document):
        document = decoded(kind_named(document["kind"]), document)
    return check_shape(document)


def with_distinct_owners(obj: JsonObject) -> JsonObject:
    """Return an object with each of its owner references once (dedupOwnerReferences in apiserver's handlers)."""
    given = obj["metadata"].get("ownerReferences")
    if not given or len(given) == 1:
        return obj
    distinct = {msgspec.json.encode(one, order="sorted"): one for one in given}
    if len(distinct) == len(given):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [*distinct.values()]}}


def from_manifest(document: Any) -> JsonObject:
    """Return the object in a manifest: validated, with its namespace, without status and server-set metadata.

    Raises:
        ApiError: it is not an object, its kind is unknown, or it breaks a rule of its kind.
    """
    obj = with_server_fields_removed(shaped(document))
    kind = kind_named(obj["kind"])
    obj["apiVersion"] = kind.api_version
    if kind.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    else:
        obj["metadata"].pop("namespace", None)
    obj.pop("status", None)
    whole = with_defaults(obj)
    validate_object(whole, is_new=False)
    return whole if kind.name == "Secret" else obj


def applied(manifest: JsonObject, live: JsonObject | None) -> JsonObject:
    """Return the object to store for a manifest from `from_manifest`, with the defaults of its kind."""
    remembered = _remembering(manifest)
    if live is None:
        return with_defaults(remembered)
    last = _last_applied(live)
    merged = _three_way(last, remembered, live)
    merged["metadata"].pop("resourceVersion", None)
    if key_kind(merged) == "Pod":
        merged = {**with_kept_api_access(merged, live), "status": live.get("status", {})}
    return merged if key_kind(merged) == "Namespace" else with_defaults(merged)


def with_server_fields_removed(obj: JsonObject) -> JsonObject:
    """Return a new object without what its creation does not set: the server's metadata, and most statuses."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _SERVERS_METADATA}
    return without_status({**obj, "metadata": metadata})


def _remembering(manifest: JsonObject) -> JsonObject:
    """Return the manifest with itself in the annotation, except for a secret, which would be in clear there."""
    if key_kind(manifest) == "Secret":
        return manifest
    metadata, last = manifest["metadata"], json.dumps(manifest, separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**metadata.get("annotations", {}), LAST_APPLIED: last}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _last_applied(live: JsonObject) -> JsonObject:
    """Return the last manifest. A secret's is not stored: all of its data counts as set by manifests."""
    if key_kind(live) == "Secret":
        return {"data": live.get("data") or {}}
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}")
    try:
        last = read_json(text)
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def _three_way(last: Any, wanted: JsonObject, live: JsonObject) -> JsonObject:
    result = {
        key: value for key, value in live.items() if key in wanted or not (isinstance(last, dict) and key in last)
    }
    for key, value in wanted.items():
        old = live.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            result[key] = _three_way(last.get(key, {}) if isinstance(last, dict) else {}, value, old)
        else:
            result[key] = value
    return result
