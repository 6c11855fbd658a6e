"""The fields that a request cannot set: a create drops them, and an update keeps them as they are stored.

From the strategies of kube-apiserver 1.32 (`pkg/registry/*/strategy.go`: PrepareForCreate and PrepareForUpdate). Custom
kinds have rules of their own; see `modules.cloud.apiextensions.objects`.
"""

from collections.abc import Callable
from typing import Final

from modules.apimachinery.conditions import condition_of, timed
from modules.apimachinery.kinds import JsonObject, is_custom, kind_named
from modules.apimachinery.served_resources import resource_of

_STATUS: Final = "status"
_WITH_STATUS_AT_CREATION: Final = "Node"
"""The kind whose objects are created with a status: kubelets register themselves so."""
_SPEC_OF_CREATION: Final = "CertificateSigningRequest"
"""The kind whose spec no update changes, and none is refused for."""
_KEPT_BY_STATUS: Final = ("name", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata that a change of a status does not change."""
_ALSO_KEPT: Final = {
    "Pod": ("ownerReferences", "finalizers"),
    "Deployment": ("labels",),
}
"""The same by kind: a node must not set an owner of a pod by its status."""
_META_KEPT: Final = (
    "VolumeAttachment", "ResourceClaim", "CustomResourceDefinition", "FlowSchema", "PriorityLevelConfiguration",
)  # fmt: skip
"""Kinds whose metadata do not change with their status."""
_COMPUTED: Final = "CustomResourceDefinition"
"""The kind whose status this API server computes with each update."""
_SERVED: Final = ("resourceVersion", "managedFields")
"""Metadata that a request may name even then."""


_ZEROS: Final[dict[str, JsonObject]] = {
    "Deployment": {},
    "Job": {},
    "CronJob": {},
    "CertificateSigningRequest": {},
    "FlowSchema": {},
    "PriorityLevelConfiguration": {},
    "ReplicaSet": {"replicas": 0},
    "ReplicationController": {"replicas": 0},
    "StatefulSet": {"replicas": 0, "availableReplicas": 0},
    "DaemonSet": dict.fromkeys(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
    ),
    "PodDisruptionBudget": dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"), 0),
    "Service": {"loadBalancer": {}},
    "Ingress": {"loadBalancer": {}},
    "HorizontalPodAutoscaler": {"desiredReplicas": 0},
    "VolumeAttachment": {"attached": False},
}
"""By kind: the members of a status that JSON has even when they are zero."""


def _with_addresses(status: JsonObject) -> JsonObject:
    """Return a pod's status with its first address under both names, as Kubernetes' conversion has it."""
    one, several = status.get("podIP"), status.get("podIPs")
    if one and not several:
        return {**status, "podIPs": [{"ip": one}]}
    return {**status, "podIP": several[0]["ip"]} if several and not one and several[0].get("ip") else status


def _with_room(status: JsonObject) -> JsonObject:
    """Return a Node's status, which has room for pods in all of its capacity unless it says otherwise."""
    capacity = status.get("capacity")
    return {**status, "allocatable": capacity} if capacity and not status.get("allocatable") else status


def _with_modes(status: JsonObject) -> JsonObject:
    """Return a Service's status whose load balancer's addresses have a mode."""
    balancer = status.get("loadBalancer") or {}
    found = balancer.get("ingress") or ()
    moded = [{**each, "ipMode": each.get("ipMode") or "VIP"} if each.get("ip") else each for each in found]
    return {**status, "loadBalancer": {**balancer, "ingress": moded}} if moded else status


_COMPLETED: Final[dict[str, Callable[[JsonObject], JsonObject]]] = {
    "Namespace": lambda status: {"phase": "Active", **status},
    "Node": _with_room,
    "PersistentVolume": lambda status: {"phase": "Pending", **status},
    "PersistentVolumeClaim": lambda status: {"phase": "Pending", **status},
    "Pod": _with_addresses,
    "Service": _with_modes,
}
"""By kind: returns a status with the defaults of a request to change it (`SetDefaults_…` of core/v1)."""


def has_status(obj: JsonObject) -> bool:
    """Return whether the status of an object of the API server's own kinds is a subresource."""
    return not is_custom(obj) and _STATUS in resource_of(kind_named(obj["kind"])).subresources


def without_status(obj: JsonObject) -> JsonObject:
    """Return a new object without the status that its creation does not set."""
    if _STATUS not in obj or not has_status(obj) or obj["kind"] == _WITH_STATUS_AT_CREATION:
        return obj
    return {name: value for name, value in obj.items() if name != _STATUS}


def with_first_status(obj: JsonObject) -> JsonObject:
    """Return a new object with the status that its kind begins with."""
    zeros = None if is_custom(obj) else _ZEROS.get(obj["kind"])
    return obj if zeros is None else {**obj, _STATUS: {**zeros, **(obj.get(_STATUS) or {})}}


def with_kept_fields(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return a new state of an object with the fields that an update keeps: a status that is a subresource, without the
    addresses of a load balancer that a Service has no more.
    """
    if not has_status(new) or new["kind"] == _COMPUTED:
        return new
    kept = (_STATUS, "spec") if new["kind"] == _SPEC_OF_CREATION else (_STATUS,)
    others = {name: value for name, value in new.items() if name not in kept}
    found = {**others, **{name: live[name] for name in kept if name in live}}
    is_balanced = new["kind"] != "Service" or (new.get("spec") or {}).get("type") == "LoadBalancer"
    return found if is_balanced else {**found, _STATUS: {**(found.get(_STATUS) or {}), "loadBalancer": {}}}


def with_changed_status(new: JsonObject, live: JsonObject) -> JsonObject:
    """Return the stored object with the status of a new state, and with that part of its metadata that a change of the
    status may change, too; metadata that are the stored object's own stay so.
    """
    kind, metadata, before = live["kind"], new["metadata"], live["metadata"]
    if metadata is before:
        pass
    elif kind in _META_KEPT:
        served = {name: metadata[name] for name in _SERVED if name in metadata}
        metadata = {**{name: value for name, value in before.items() if name not in _SERVED}, **served}
    else:
        kept = (*_KEPT_BY_STATUS, *_ALSO_KEPT.get(kind, ()))
        metadata = {
            **{name: value for name, value in metadata.items() if name not in kept},
            **{name: value for name, value in before.items() if name in kept},
        }
    changed = {**live, "metadata": metadata}
    was = (changed.pop(_STATUS, None) or {}).get("qosClass")
    if was and isinstance(new.get(_STATUS), dict) and not new[_STATUS].get("qosClass"):
        new = {**new, _STATUS: {**new[_STATUS], "qosClass": was}}
    if _STATUS in new:
        complete = _COMPLETED.get(kind)
        changed[_STATUS] = new[_STATUS] if complete is None else complete(new[_STATUS] or {})
    return with_first_status(changed) if kind in _ZEROS else changed


def with_approval(new: JsonObject, live: JsonObject, now: str) -> JsonObject:
    """Return a stored certificate request with the conditions of a new state, which get their times, and with its
    metadata.
    """
    conditions = [_timed(each, live, now) for each in (new.get(_STATUS) or {}).get("conditions") or ()]
    status = {**(live.get(_STATUS) or {}), "conditions": conditions}
    return {**with_changed_status({**new, _STATUS: status}, live), _STATUS: status}


def _timed(condition: JsonObject, live: JsonObject, now: str) -> JsonObject:
    old = condition_of(live, str(condition.get("type")))
    times = {"lastUpdateTime": now, "lastTransitionTime": timed(condition, old, now)["lastTransitionTime"]}
    return {**condition, **{name: condition.get(name) or time for name, time in times.items()}}
