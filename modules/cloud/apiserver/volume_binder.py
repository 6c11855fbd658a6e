"""Binding of claims to volumes, and their phases, after Kubernetes' persistent volume controller, without provisioning.

A claim is bound to the volume that it names, to a volume whose `claimRef` names it, or to the smallest that fits and
that its selector selects. The volume that it names must fit, too, or name the claim: it may be kept for claims of
another class.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, uid_of
from modules.apimachinery.types import QuantityError, whole_value
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.apiserver.event_registry import event_about

_BOUND = "Bound"
_LOST = "Lost"
_OF_VOLUME = ("accessModes", "capacity")
"""What the status of a bound claim has from its volume."""
_FILESYSTEM = "Filesystem"
"""The mode of a volume that names none."""
CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
KINDS = (CLAIM, VOLUME)
_CONTROLLER = "persistentvolume-controller"


def bind_volumes(claims: Iterable[JsonObject], volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the claims and volumes that are newly bound, with their new spec and status."""
    free = [volume for volume in volumes if not _owner(volume).get("uid") and not is_being_deleted(volume)]
    changed: list[JsonObject] = []
    for claim in claims:
        if _is_bound(claim):
            continue
        volume = _choose(claim, free)
        if volume is not None:
            free.remove(volume)
            changed += _bound(claim, volume)
    return changed


def why_unbound(claim: JsonObject, find: Callable[[ObjectKey], JsonObject | None], now: str) -> JsonObject | None:
    """Return the Event that says why a new claim waits; None if it is bound (KCM's persistent volume controller, which
    has no word for a claim that names its volume).

    Args:
        claim: the stored claim.
        find: returns an object, or None.
        now: the present time as Kubernetes writes it.
    """
    if _is_bound(claim):
        return None
    return event_about(claim, _reason_unbound(claim, find), _CONTROLLER, now)


def _reason_unbound(claim: JsonObject, find: Callable[[ObjectKey], JsonObject | None]) -> tuple[str, str, str]:
    named, class_name = _spec(claim).get("volumeName"), _spec(claim).get("storageClassName")
    if named:
        found = "does not fit the claim" if find(ObjectKey(VOLUME, "", str(named))) else "not found"
        return "Warning", "FailedBinding", f'volume "{named}" {found}'
    if not class_name:
        return "Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
    storage_class = find(ObjectKey("StorageClass", "", str(class_name)))
    if storage_class is None:
        return "Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{class_name}" not found'
    who = f"the external provisioner '{storage_class.get('provisioner')}'"
    how = f"Waiting for a volume to be created either by {who} or manually by the system administrator."
    checks = "If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    return "Normal", "ExternalProvisioning", f"{how} {checks}"


def changed_phases(claims: Iterable[JsonObject], volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the claims and volumes that have another status now: a volume is Available until it is bound, and Released
    when its claim is gone; a bound claim whose volume is gone is Lost, and one that its volume names is Bound, with the
    volume's modes and capacity, whatever somebody has written.
    """
    uids = {(str(each["metadata"].get("namespace")), each["metadata"]["name"]): uid_of(each) for each in claims}
    by_name = {each["metadata"]["name"]: each for each in volumes}
    found = [(each, {**_status(each), "phase": _phase_of(each, uids)}) for each in volumes]
    for claim in claims:
        volume = by_name.get(str(_spec(claim).get("volumeName")))
        if volume is None and _is_bound(claim):
            found.append((claim, _with(claim, _LOST)))
        elif volume is not None and _owner(volume).get("uid", "") == uid_of(claim):
            found.append((claim, _bound_status(claim, volume)))
    return [{**obj, "status": status} for obj, status in found if _status(obj) != status]


def _with(claim: JsonObject, phase: str, **found: Any) -> dict[str, Any]:
    """Return the status of a claim with a phase, and with these modes and capacity alone."""
    kept = {name: value for name, value in _status(claim).items() if name not in _OF_VOLUME}
    return {**kept, "phase": phase, **{name: value for name, value in found.items() if value}}


def _bound_status(claim: JsonObject, volume: JsonObject) -> dict[str, Any]:
    """Return the status of a bound claim; a capacity that a resize has noted stays."""
    capacity = _status(claim).get("capacity") or _spec(volume).get("capacity")
    return _with(claim, _BOUND, accessModes=_spec(volume).get("accessModes"), capacity=capacity)


def _phase_of(volume: JsonObject, uids: Mapping[tuple[str, str], str]) -> str:
    owner = _owner(volume)
    if not owner.get("uid"):
        return "Available"
    is_owned = uids.get((str(owner.get("namespace")), str(owner.get("name")))) == owner["uid"]
    return _BOUND if is_owned else "Released"


def _choose(claim: JsonObject, volumes: list[JsonObject]) -> JsonObject | None:
    named = _spec(claim).get("volumeName")
    fitting = [volume for volume in volumes if _fits(claim, volume, named)]
    preferred = [volume for volume in fitting if _owner(volume)] or fitting
    return min(preferred, key=lambda volume: (_capacity(volume), volume["metadata"]["name"]), default=None)


def _fits(claim: JsonObject, volume: JsonObject, named: str | None) -> bool:
    owner, meta = _owner(volume), claim["metadata"]
    if owner and (owner.get("namespace"), owner.get("name")) != (meta.get("namespace", "default"), meta["name"]):
        return False
    if named and volume["metadata"]["name"] != named:
        return False
    if named and owner:
        return True  # each names the other
    wanted, offered = _spec(claim), _spec(volume)
    requests = (wanted.get("resources") or {}).get("requests") or {}
    return (
        (wanted.get("storageClassName") or "") == (offered.get("storageClassName") or "")
        and (wanted.get("volumeMode") or _FILESYSTEM) == (offered.get("volumeMode") or _FILESYSTEM)
        and (bool(named or owner) or _selects(wanted.get("selector"), volume))
        and set(wanted.get("accessModes") or []) <= set(offered.get("accessModes") or [])
        and _bytes(requests.get("storage", "0")) <= _capacity(volume)
    )


def _selects(selector: Any, volume: JsonObject) -> bool:
    """Return whether the selector of a claim selects a volume; none, and an empty one, select all."""
    if not isinstance(selector, dict) or not any(selector.values()):
        return True
    return matcher_of(selector)(volume["metadata"].get("labels") or {})


def _bound(claim: JsonObject, volume: JsonObject) -> list[JsonObject]:
    meta = claim["metadata"]
    reference = {
        "kind": CLAIM,
        "apiVersion": "v1",
        "namespace": meta.get("namespace", "default"),
        "name": meta["name"],
        "uid": uid_of(claim),
    }
    claim_spec = {**_spec(claim), "volumeName": volume["metadata"]["name"]}
    volume_status = {**_status(volume), "phase": _BOUND}
    return [
        {**volume, "spec": {**_spec(volume), "claimRef": reference}, "status": volume_status},
        {**claim, "spec": claim_spec, "status": _bound_status(claim, volume)},
    ]


def _status(obj: JsonObject) -> dict[str, Any]:
    return _object(obj.get("status"))


def _is_bound(claim: JsonObject) -> bool:
    return _status(claim).get("phase") == _BOUND


def _spec(obj: JsonObject) -> dict[str, Any]:
    return _object(obj.get("spec"))


def _owner(volume: JsonObject) -> dict[str, Any]:
    return _object(_spec(volume).get("claimRef"))


def _object(value: Any) -> dict[str, Any]:
    """Return an object, empty for anything else: an earlier version may have stored it."""
    return value if isinstance(value, dict) else {}


def _capacity(volume: JsonObject) -> int:
    return _bytes((_spec(volume).get("capacity") or {}).get("storage", "0"))


def _bytes(quantity: Any) -> int:
    try:
        return whole_value(quantity)
    except QuantityError:
        return 0
