"""`apply`: from a manifest and the live object to the object that should be (kubectl's three-way merge).

What the last manifest set and this one does not is removed; what others have set (the edge's status, labels
of a node that registered itself) stays. The last manifest is remembered where kubectl remembers it, in an
annotation.
"""

import base64
import json
from copy import deepcopy
from typing import Any

from modules.edgecontroller.kinds import JsonObject, kind_named
from modules.edgecontroller.object_rules import check_rules, check_shape
from modules.edgecontroller.pod_defaults import with_pod_defaults
from modules.edgecontroller.pod_updates import check_pod_update
from modules.edgecontroller.shapes import without_null_members

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def from_manifest(document: Any) -> JsonObject:
    """The object that a manifest describes, before it meets a live one: checked, complete, without a status
    of its own.

    Raises:
        ApiError: it is not an object, not of a kind that is kept, or breaks a rule of its kind.
    """
    obj: JsonObject = without_null_members(check_shape(document))
    kind = kind_named(obj["kind"])
    obj["apiVersion"] = kind.api_version
    if kind.namespaced:
        obj["metadata"].setdefault("namespace", "default")
    else:
        obj["metadata"].pop("namespace", None)
    for name in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation"):
        obj["metadata"].pop(name, None)
    obj.pop("status", None)
    check_rules(obj)
    if kind.name == "Secret":
        _encode_string_data(obj)
        check_rules(obj)
    return obj


def applied(manifest: JsonObject, live: JsonObject | None) -> JsonObject:
    """The object to store for a manifest (as `from_manifest` gives it).

    Raises:
        InvalidError: the manifest changes a field of a live pod that Kubernetes does not let anybody change.
    """
    remembered = _remembering(manifest)
    if live is None:
        return complete(remembered)
    last = _last_applied(live)
    merged = _three_way(last, remembered, live)
    merged["metadata"].pop("resourceVersion", None)
    if merged["kind"] == "Pod":
        merged["status"] = live.get("status", {})
        merged = with_pod_defaults(merged)
        check_pod_update(live, merged)
    return merged


def complete(obj: JsonObject) -> JsonObject:
    """A new object with the defaults of its kind."""
    if obj["kind"] == "Pod":
        return with_pod_defaults(obj)
    if obj["kind"] == "Secret":
        return {"type": "Opaque", **obj}
    return obj


def _encode_string_data(secret: JsonObject) -> None:
    """`stringData` is for writing only: its values end in `data`, encoded (Kubernetes' Secret strategy)."""
    plain = secret.pop("stringData", None) or {}
    encoded = {key: base64.b64encode(str(value).encode()).decode("ascii") for key, value in plain.items()}
    if encoded:
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def _remembering(manifest: JsonObject) -> JsonObject:
    """The manifest with itself in the annotation, except a secret: it would stand there in clear."""
    obj = deepcopy(manifest)
    if obj["kind"] == "Secret":
        return obj
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations[LAST_APPLIED] = json.dumps(manifest, separators=(",", ":"), sort_keys=True) + "\n"
    return obj


def _last_applied(live: JsonObject) -> JsonObject:
    """What the last manifest set. A secret's is not remembered: all of its data counts as set by
    manifests.
    """
    if live["kind"] == "Secret":
        return {"data": live.get("data") or {}}
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED, "{}")
    try:
        last = json.loads(text)
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
