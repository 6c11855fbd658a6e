"""Merges of a whole reported status into the stored object (docs/protocol.md, "Status merge"; KubeEdge's upstream
handlers).

Edges of 2019 report this way (podstatus, nodestatus); later ones send patches, and need it only for old pods.
"""

import json

from modules.apimachinery.conversion import copied
from modules.apimachinery.extended_resources import foreign_resources
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.node_conditions import OURS, is_ours
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.cloud.edgecontroller.kubelet_ports import kubelet_port

_TRANSITIONS_KEPT = ("Ready", "Initialized")
_OF_OTHERS_OF_POD = ("nominatedNodeName", "resize", "resourceClaimStatuses")
_GPU_RESOURCE = "nvidia.com/gpu"
_GPU_ANNOTATION = "huawei.com/gpu-status"


def merged_pod_status(pod: JsonObject, reported: JsonObject, now: float) -> JsonObject:
    """Return the status to store: the reported one, with transition and start times that the cloud keeps, and with the
    parts of others as the cloud has them: the report may be older (kubelet's mergePodStatus).

    Args:
        pod: the stored pod, with the old status.
        reported: v1.PodStatus from the edge.
        now: seconds since the epoch.
    """
    old = pod.get("status") or {}
    status = _cut_times(copied(reported))
    before = {condition.get("type"): condition for condition in old.get("conditions") or []}
    conditions = _with_conditions_of_others(status.pop("conditions", None) or [], old.get("conditions") or [])
    status |= {"conditions": conditions} if conditions else {}
    status |= {name: old[name] for name in _OF_OTHERS_OF_POD if name in old}
    for condition in conditions:
        if condition.get("type") in _TRANSITIONS_KEPT:
            previous = before.get(condition["type"], {})
            same = previous.get("status") == condition.get("status") and previous.get("lastTransitionTime")
            condition["lastTransitionTime"] = previous["lastTransitionTime"] if same else format_rfc3339(now)
    status["startTime"] = old.get("startTime") or status.get("startTime") or format_rfc3339(now)
    if isinstance(status.get("containerStatuses"), list):
        status["containerStatuses"].sort(key=lambda container: str(container.get("name")))
    containers = pod.get("spec", {}).get("initContainers") or []
    order = {container.get("name"): place for place, container in reversed(list(enumerate(containers)))}
    if isinstance(status.get("initContainerStatuses"), list):
        status["initContainerStatuses"].sort(key=lambda c: order.get(c.get("name"), -1))
    if old.get("qosClass"):
        status.setdefault("qosClass", old["qosClass"])
    return status


def _with_conditions_of_others(reported: list[JsonObject], stored: list[JsonObject]) -> list[JsonObject]:
    own = [one for one in reported if is_ours(str(one.get("type")), str(one.get("reason")))]
    names = OURS.union(str(one.get("type")) for one in own)
    return [*(copied(one) for one in stored if one.get("type") not in names), *own]


def merged_node(node: JsonObject, request: JsonObject, now: float, update_frequency: float) -> JsonObject:
    """Return the node with a reported status, and the conditions and extended resources that others have added.

    Args:
        node: the stored node.
        request: NodeStatusRequest: `Status` and `ExtendResources`.
        now: seconds since the epoch.
        update_frequency: seconds; an older heartbeat is set to now.
    """
    merged: JsonObject = copied(node)
    status: JsonObject = copied(request.get("Status") or {})
    for condition in status.get("conditions") or []:
        heartbeat = parse_rfc3339(str(condition.get("lastHeartbeatTime") or ""))
        if heartbeat is None or now - heartbeat > update_frequency:
            condition["lastHeartbeatTime"] = format_rfc3339(now)
    old = node.get("status") or {}
    if "volumesAttached" in old:
        status["volumesAttached"] = old["volumesAttached"]
    if kubelet_port(node):  # 0 is no port, as in KubeEdge's cloudcore: the reported one fills it
        status["daemonEndpoints"] = old["daemonEndpoints"]
    reported = {condition.get("type") for condition in status.get("conditions") or []}
    others = [condition for condition in old.get("conditions") or [] if condition.get("type") not in reported]
    if others:
        status["conditions"] = [*others, *(status.get("conditions") or [])]
    own = status.get("capacity") or {}
    for name in ("capacity", "allocatable"):
        if foreign := foreign_resources(own, old.get(name) or {}):
            status[name] = {**(status.get(name) or {}), **foreign}
    merged["status"] = status
    _annotate_extended_resources(merged, request.get("ExtendResources") or {})
    return merged


def _annotate_extended_resources(node: JsonObject, resources: JsonObject) -> None:
    """Set an annotation for each extended resource, and one more for GPUs, which schedulers read."""
    if not resources:
        return
    annotations = node["metadata"].setdefault("annotations", {})
    for name, entries in resources.items():
        annotations[name] = _compact(entries)
    gpus = [{"id": entry.get("name", ""), "healthy": True} for entry in resources.get(_GPU_RESOURCE) or []]
    if gpus:
        annotations[_GPU_ANNOTATION] = _compact(gpus)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _cut_times(status: JsonObject) -> JsonObject:
    """Cut times to whole seconds, as in metav1.Time; other edges may write fractions."""
    for condition in status.get("conditions") or []:
        for name in ("lastTransitionTime", "lastProbeTime"):
            text = str(condition.get(name) or "")
            seconds = parse_rfc3339(text) if text else None
            if seconds is not None:
                condition[name] = format_rfc3339(seconds)
    return status
