"""Finalizers that keep claims and volumes while they are used, after Kubernetes' admission plug-in
StorageObjectInUseProtection and its controllers pvc-protection and pv-protection.

A claim is used by the pods on nodes that name it, ended ones included, and a volume while it is bound.
"""

from collections.abc import Iterator
from typing import Final

from modules.apimachinery.graceful_deletion import finalizers_of, without_finalizer
from modules.apimachinery.kinds import JsonObject, is_being_deleted, key_kind, key_of, kind_named
from modules.apimachinery.lister import Lister
from modules.apimachinery.pod_references import claims_of
from modules.cloud.apiserver.volume_binder import CLAIM, VOLUME
from modules.cloud.storage.object_storage import EventType, ObjectEvent, Storage

FINALIZERS: Final = {CLAIM: "kubernetes.io/pvc-protection", VOLUME: "kubernetes.io/pv-protection"}
"""The finalizer of each kind."""

_POD: Final = kind_named("Pod")
_BOUND: Final = "Bound"


def with_protection(obj: JsonObject, live: JsonObject | None, _objects: Lister) -> JsonObject:
    """Return a new claim or volume with its finalizer."""
    name, present = FINALIZERS[key_kind(obj)], finalizers_of(obj)
    if live is not None or name in present:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "finalizers": [*present, name]}}


def may_end_use(event: ObjectEvent) -> bool:
    """Return whether a claim or a volume that is being deleted may not be used any more after a change."""
    if event.key.kind == _POD.name:
        return event.type is EventType.DELETED and any(claims_of(event.new))
    return event.key.kind in FINALIZERS and event.type is not EventType.DELETED and is_being_deleted(event.new)


def released(storage: Storage, kind: str) -> Iterator[JsonObject]:
    """Yield the claims or the volumes that are being deleted and are not used, without the finalizer."""
    name = FINALIZERS[kind]
    for obj in storage.list(kind_named(kind)):
        is_kept = is_being_deleted(obj) and name in finalizers_of(obj)
        if is_kept and not (_is_claim_used(storage, obj) if kind == CLAIM else _is_bound(obj)):
            yield without_finalizer(obj, name)


def _is_claim_used(storage: Storage, claim: JsonObject) -> bool:
    key = key_of(claim)
    return any(pod["spec"].get("nodeName") and key in claims_of(pod) for pod in storage.list(_POD, key.namespace))


def _is_bound(volume: JsonObject) -> bool:
    return (volume.get("status") or {}).get("phase") == _BOUND
