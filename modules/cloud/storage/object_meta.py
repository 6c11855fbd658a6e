"""The metadata that the API server itself sets, after Kubernetes' BeforeCreate and BeforeUpdate."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, is_custom, metadata_of
from modules.apimachinery.times import format_rfc3339

_OF_SERVER: Final = ("uid", "creationTimestamp", "resourceVersion", "generation", "namespace")
"""Metadata that no update changes."""
_CORE: Final = "v1"
_COUNTED_WHOLE: Final = ("EndpointSlice", "PodTemplate")
"""Kinds without a spec whose generation counts each change beside metadata."""


def prepared_for_create(obj: JsonObject, key: ObjectKey, kind: Kind, uid: str, now: float) -> JsonObject:
    """Return a new object with its uid, creation time, namespace and first generation.

    Args:
        obj: as it was requested.
        key: of the object.
        kind: of the object.
        uid: its uid.
        now: the present time.
    """
    meta = {
        **{name: value for name, value in obj["metadata"].items() if name not in ("deletionTimestamp", "generation")},
        "uid": uid,
        "creationTimestamp": format_rfc3339(now),
    }
    if key.namespace:
        meta["namespace"] = key.namespace
    if kind.counts_generations:
        meta["generation"] = 1
    return {**obj, "metadata": meta}


def prepared_for_update(obj: JsonObject, old: JsonObject) -> JsonObject:
    """Return a new state of an object with the stored one's uid, creation time, resourceVersion and namespace, and the
    next generation if the change counts.
    """
    new = {**obj, "metadata": {**obj["metadata"]}}
    meta, old_meta = new["metadata"], old["metadata"]
    for name in _OF_SERVER:
        if name in old_meta:
            meta[name] = old_meta[name]
        else:
            meta.pop(name, None)
    if "generation" in meta and _spec_changed(old, new):
        meta["generation"] = _generation_of(old) + 1
    return new


def _generation_of(obj: JsonObject) -> int:
    """Return the generation; 0 when the object has something else there."""
    generation = metadata_of(obj).get("generation")
    return generation if isinstance(generation, int) else 0


def _spec_changed(old: JsonObject, new: JsonObject) -> bool:
    """Return whether the generation increases: Kubernetes counts a changed spec, and the start of a deletion."""
    if old["metadata"].get("deletionTimestamp") != new["metadata"].get("deletionTimestamp"):
        return True
    if new["kind"] in _COUNTED_WHOLE or (new["apiVersion"] != _CORE and is_custom(new)):
        return _counted(old) != _counted(new)
    before, after = old.get("spec"), new.get("spec")
    return before is not after and before != after


def _counted(obj: JsonObject) -> JsonObject:
    """Return the part of an object without a spec, or of a custom one, whose changes its generation counts."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status", "apiVersion")}
