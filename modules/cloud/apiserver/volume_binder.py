"""Binding of claims to volumes, and their phases, after Kubernetes' persistent volume controller, without provisioning.

A claim is bound to the volume that it names, to a volume whose `claimRef` names it, as one that a provisioner has made
for it, or to the smallest that fits and that its selector selects. The volume that it names must fit, too, or name the
claim: it may be kept for claims of another class. A bound claim gets its volume back if that has lost its `claimRef`.
Where its class waits for the first consumer, a claim gets a volume that does not name it from the scheduler alone.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, uid_of
from modules.apimachinery.types import QuantityError, whole_value
from modules.apimachinery.unvalidated import as_object
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
_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
"""Annotation of a claim or a volume that names the other only since they are bound."""
_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
_PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
"""Annotations of a claim that have the provisioner of its class make a volume."""
_PROVISIONED = "pv.kubernetes.io/provisioned-by"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation of a claim that kube-scheduler has chosen the node of its pod for."""
IN_TREE = "kubernetes.io/"
"""The beginning of provisioners' names that stand for code of Kubernetes, or for none (`no-provisioner`)."""


Find = Callable[[ObjectKey], JsonObject | None]
"""Returns an object, or None."""


def bind_volumes(claims: Iterable[JsonObject], volumes: Iterable[JsonObject], find: Find) -> list[JsonObject]:
    """Return the claims and volumes that are newly bound, with their new metadata, spec and status."""
    claims = sorted(claims, key=is_bound, reverse=True)
    waiting = {"", *(uid_of(claim) for claim in claims if not is_bound(claim))}
    free = [each for each in volumes if _uid_of_owner(each) in waiting and not is_being_deleted(each)]
    changed: list[JsonObject] = []
    for claim in claims:
        volume = _lost_reference(claim, free) if is_bound(claim) else _choose(claim, free, find)
        if volume is not None:
            free.remove(volume)
            changed += bound(claim, volume)
    return changed


def with_provisioners(claims: Iterable[JsonObject], find: Find) -> list[JsonObject]:
    """Return the claims that newly ask the provisioner of their class for a volume; one in Kubernetes' own code is not
    asked, nor is one that waits for the node of a pod until the scheduler has noted it (`VolumeBindingMode`).
    """
    changed = []
    for claim in claims:
        found = _spec(claim).get("storageClassName")
        if not found or is_bound(claim) or _spec(claim).get("volumeName"):
            continue
        storage_class = class_of(claim, find)
        provisioner = str(storage_class.get("provisioner") or "")
        may_be_asked = not is_delayed(claim, find) or selected_node(claim) is not None
        if may_be_asked and provisioner and not provisioner.startswith(IN_TREE):
            asking = _annotated(claim, dict.fromkeys(_PROVISIONERS, provisioner))
            changed += [asking] if asking is not claim else []
    return changed


def why_lost(claim: JsonObject, now: str) -> JsonObject | None:
    """Return the Event about a claim that has newly become Lost; None for a claim in another phase."""
    if _status(claim).get("phase") != _LOST:
        return None
    lost = "its PersistentVolume" if _spec(claim).get("volumeName") else "reference to PersistentVolume"
    words = f"Bound claim has lost {lost}. Data on the volume is lost!"
    return event_about(claim, ("Warning", "ClaimLost", words), _CONTROLLER, now)


def why_unbound(claim: JsonObject, find: Find, now: str) -> JsonObject | None:
    """Return the Event that says why a new claim waits; None if it is bound (KCM's persistent volume controller, which
    has no word for a claim that names its volume).

    Args:
        claim: the stored claim.
        find: returns an object, or None.
        now: the present time as Kubernetes writes it.
    """
    if is_bound(claim):
        return None
    return event_about(claim, _reason_unbound(claim, find), _CONTROLLER, now)


def _reason_unbound(claim: JsonObject, find: Find) -> tuple[str, str, str]:
    named, class_name = _spec(claim).get("volumeName"), _spec(claim).get("storageClassName")
    if named:
        found = "does not fit the claim" if find(ObjectKey(VOLUME, "", str(named))) else "not found"
        return "Warning", "FailedBinding", f'volume "{named}" {found}'
    if not class_name:
        return "Normal", "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
    if is_delayed(claim, find) and selected_node(claim) is None:
        return "Normal", "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    storage_class = class_of(claim, find)
    if not storage_class:
        return "Warning", "ProvisioningFailed", f'storageclass.storage.k8s.io "{class_name}" not found'
    provisioner = str(storage_class.get("provisioner"))
    if provisioner.startswith(IN_TREE):
        return "Warning", "ProvisioningFailed", f"no volume plugin matched name: {provisioner}"
    who = f"the external provisioner '{provisioner}'"
    how = f"Waiting for a volume to be created either by {who} or manually by the system administrator."
    checks = "If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    return "Normal", "ExternalProvisioning", f"{how} {checks}"


def class_of(claim: JsonObject, find: Find) -> JsonObject:
    """Return the StorageClass of a claim; an empty object if it has none, or that is not there."""
    name = _spec(claim).get("storageClassName")
    return (find(ObjectKey("StorageClass", "", str(name))) if name else None) or {}


def is_delayed(claim: JsonObject, find: Find) -> bool:
    """Return whether a claim without a volume gets one only when a node has been chosen for a pod that uses it."""
    if is_bound(claim) or _spec(claim).get("volumeName"):
        return False
    return class_of(claim, find).get("volumeBindingMode") == "WaitForFirstConsumer"


def selected_node(claim: JsonObject) -> str | None:
    """Return the node that the scheduler has chosen, so that the provisioner of a claim's class is asked."""
    found: str | None = as_object(claim["metadata"].get("annotations")).get(_SELECTED_NODE)
    return found


def provisioned_for(claim: JsonObject, node: str) -> JsonObject:
    """Return a claim whose volume is to be made for a node by the provisioner of its class."""
    return _annotated(claim, {_SELECTED_NODE: node})


def changed_phases(claims: Iterable[JsonObject], volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the claims and volumes that have another status now: a volume is Available until it is bound, and Released
    when its claim is gone; a bound claim whose volume is gone or another claim's is Lost, and one that its volume names
    is Bound, with the volume's modes and capacity, whatever somebody has written. A volume whose claim has got another
    one is free again, or Released if its provisioner is to delete it. A claim that is not bound any more is Pending.
    """
    owners = {(str(each["metadata"].get("namespace")), each["metadata"]["name"]): each for each in claims}
    by_name = {each["metadata"]["name"]: each for each in volumes}
    changed = [_with_phase(each, owners) for each in volumes]
    for claim in claims:
        volume = by_name.get(str(_spec(claim).get("volumeName")))
        if volume is not None and _uid_of_owner(volume) == uid_of(claim):
            changed.append(_with_status(_annotated(claim, _COMPLETED), _bound_status(claim, volume)))
        elif is_bound(claim) or _status(claim).get("phase") in (_BOUND, _LOST):
            changed.append(_with_status(claim, _with(claim, _LOST if is_bound(claim) else "Pending")))
    known = {id(each) for each in (*volumes, *claims)}
    return [each for each in changed if id(each) not in known]


def _with_status(obj: JsonObject, status: JsonObject) -> JsonObject:
    """Return an object with a status; itself if that is its own."""
    return obj if _status(obj) == status else {**obj, "status": status}


def _annotated(obj: JsonObject, wanted: Mapping[str, str]) -> JsonObject:
    """Return an object with annotations; itself if it has them."""
    given = as_object(obj["metadata"].get("annotations"))
    if wanted.items() <= given.items():
        return obj
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**given, **wanted}}}


def _with(claim: JsonObject, phase: str, **found: Any) -> dict[str, Any]:
    """Return the status of a claim with a phase, and with these modes and capacity alone."""
    kept = {name: value for name, value in _status(claim).items() if name not in _OF_VOLUME}
    return {**kept, "phase": phase, **{name: value for name, value in found.items() if value}}


def _bound_status(claim: JsonObject, volume: JsonObject) -> dict[str, Any]:
    """Return the status of a bound claim; a capacity that a resize has noted stays."""
    capacity = _status(claim).get("capacity") or _spec(volume).get("capacity")
    return _with(claim, _BOUND, accessModes=_spec(volume).get("accessModes"), capacity=capacity)


def _with_phase(volume: JsonObject, owners: Mapping[tuple[str, str], JsonObject]) -> JsonObject:
    """Return a volume with its phase, and without a claim that has got another volume."""
    owner, phase = _owner(volume), "Available"
    if owner.get("uid"):
        claim = owners.get((str(owner.get("namespace")), str(owner.get("name"))), {})
        is_owned = bool(claim) and uid_of(claim) == owner["uid"]
        phase = _BOUND if is_owned else "Released"
        if is_owned and _spec(claim).get("volumeName") not in (None, "", volume["metadata"]["name"]):
            phase = "Released" if _is_to_be_deleted(volume) else "Available"
            volume = volume if phase == "Released" else _unbound(volume)
    return _with_status(volume, {**_status(volume), "phase": phase})


def _is_to_be_deleted(volume: JsonObject) -> bool:
    """Return whether a released volume is deleted by its provisioner."""
    is_made = _PROVISIONED in as_object(volume["metadata"].get("annotations"))
    return is_made and _spec(volume).get("persistentVolumeReclaimPolicy") == "Delete"


def _unbound(volume: JsonObject) -> JsonObject:
    """Return a volume without its claim, or kept for one of the claim's name if somebody has written that."""
    meta, spec = {**volume["metadata"]}, {**_spec(volume)}
    given = as_object(meta.get("annotations"))
    reference = spec.pop("claimRef")
    if _BY_CONTROLLER.items() <= given.items():
        meta["annotations"] = {name: value for name, value in given.items() if name not in _BY_CONTROLLER}
    else:
        spec["claimRef"] = {name: value for name, value in reference.items() if name != "uid"}
    return {**volume, "metadata": meta, "spec": spec}


def _choose(claim: JsonObject, volumes: list[JsonObject], find: Find) -> JsonObject | None:
    found = next(iter(candidates(claim, volumes)), None)
    return None if found is None or (not _owner(found) and is_delayed(claim, find)) else found


def candidates(claim: JsonObject, volumes: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the volumes that a claim may be bound to, the best first: only those that name it, if there are any."""
    named = _spec(claim).get("volumeName")
    fitting = [volume for volume in volumes if _fits(claim, volume, named)]
    preferred = [volume for volume in fitting if _owner(volume)] or fitting
    return sorted(preferred, key=lambda volume: (_capacity(volume), volume["metadata"]["name"]))


def requested_bytes(claim: JsonObject) -> int:
    """Return how much a claim asks for; 0 for nonsense."""
    return _bytes(as_object(as_object(_spec(claim).get("resources")).get("requests")).get("storage", "0"))


def _lost_reference(claim: JsonObject, volumes: list[JsonObject]) -> JsonObject | None:
    """Return the volume of a bound claim if it names no claim any more: nobody else may get it."""
    name = _spec(claim).get("volumeName")
    return next((each for each in volumes if each["metadata"]["name"] == name and not _owner(each)), None)


def _fits(claim: JsonObject, volume: JsonObject, named: str | None) -> bool:
    owner, meta = _owner(volume), claim["metadata"]
    if owner and (owner.get("namespace"), owner.get("name")) != (meta.get("namespace", "default"), meta["name"]):
        return False
    if _uid_of_owner(volume) not in ("", uid_of(claim)) or is_being_deleted(volume):
        return False
    if named and volume["metadata"]["name"] != named:
        return False
    if named and owner:
        return True  # each names the other
    wanted, offered = _spec(claim), _spec(volume)
    return (
        (bool(owner) or (wanted.get("storageClassName") or "") == (offered.get("storageClassName") or ""))
        and (wanted.get("volumeMode") or _FILESYSTEM) == (offered.get("volumeMode") or _FILESYSTEM)
        and (bool(named or owner) or _selects(wanted.get("selector"), volume))
        and set(wanted.get("accessModes") or []) <= set(offered.get("accessModes") or [])
        and requested_bytes(claim) <= _capacity(volume)
    )


def _selects(selector: Any, volume: JsonObject) -> bool:
    """Return whether the selector of a claim selects a volume; none, and an empty one, select all."""
    if not isinstance(selector, dict) or not any(selector.values()):
        return True
    return matcher_of(selector)(volume["metadata"].get("labels") or {})


def bound(claim: JsonObject, volume: JsonObject) -> list[JsonObject]:
    """Return a volume and a claim that are bound to each other."""
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
    held = volume if _owner(volume) else _annotated(volume, _BY_CONTROLLER)
    asking = _annotated(claim, _COMPLETED if _spec(claim).get("volumeName") else {**_COMPLETED, **_BY_CONTROLLER})
    return [
        {**held, "spec": {**_spec(volume), "claimRef": reference}, "status": volume_status},
        {**asking, "spec": claim_spec, "status": _bound_status(claim, volume)},
    ]


def _status(obj: JsonObject) -> dict[str, Any]:
    return as_object(obj.get("status"))


def is_bound(claim: JsonObject) -> bool:
    """Return whether a claim has been bound, if only in the cluster that it comes from."""
    return _COMPLETED.items() <= as_object(claim["metadata"].get("annotations")).items()


def _spec(obj: JsonObject) -> dict[str, Any]:
    return as_object(obj.get("spec"))


def _owner(volume: JsonObject) -> dict[str, Any]:
    return as_object(_spec(volume).get("claimRef"))


def _uid_of_owner(volume: JsonObject) -> str:
    return str(_owner(volume).get("uid") or "")


def _capacity(volume: JsonObject) -> int:
    return _bytes((_spec(volume).get("capacity") or {}).get("storage", "0"))


def _bytes(quantity: Any) -> int:
    try:
        return whole_value(quantity)
    except QuantityError:
        return 0
