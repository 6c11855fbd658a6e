"""The controller of NodeGroups: the label of their nodes (KubeEdge's `controllermanager/nodegroup`).

Other than KubeEdge's, it labels the zone of a node only if the node has none, no group takes all nodes by an empty
`matchLabels`, and a node that a group leaves is another group's immediately.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from modules.apimachinery.conditions import condition_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of, version_of
from modules.cloud.applications import BELONGING_TO
from modules.cloud.authorization.node_metadata import ZONE
from modules.cloud.authorization.trusted_labels import labels_of, selector_of
from modules.cloud.controllers.plan import NOTHING, PlannedWrite, ReconcilePlan, delete, patch, update_status
from modules.cloud.controllers.replica_set import MOST_WRITES
from modules.cloud.controllers.view import View

FINALIZER: Final = "apps.kubeedge.io/nodegroup-controller"
_READY: Final = {"True": "Ready", "False": "NotReady"}


def reconcile(view: View, key: ObjectKey, _now: float) -> ReconcilePlan:
    """Return the labels that nodes get and lose, and the status of a group."""
    group = view.find(key)
    if group is None:
        return NOTHING
    finalizers = group["metadata"].get("finalizers") or []
    if is_being_deleted(group):
        writes = _left(view, key.name, _nodes(view))[:MOST_WRITES]
        if not writes and FINALIZER in finalizers:
            writes = [_marked(group, [one for one in finalizers if one != FINALIZER])]
        return ReconcilePlan(tuple(writes))
    if FINALIZER not in finalizers:
        return ReconcilePlan((_marked(group, [*finalizers, FINALIZER]),))
    selects = selector_of(group)
    members, others = list[JsonObject](), list[JsonObject]()
    for node in _nodes(view):
        (members if selects(node) else others).append(node)
    writes = _left(view, key.name, others)
    is_zone = bool((group.get("spec") or {}).get("topologyEnabled"))
    writes += [write for node in members if (write := _labelled(node, key.name, is_zone=is_zone))]
    return ReconcilePlan(tuple(writes[:MOST_WRITES]), update_status(group, _status(group, members)))


def _nodes(view: View) -> list[JsonObject]:
    return sorted(view.all_of("Node"), key=lambda node: str(node["metadata"]["name"]))


def _labelled(node: JsonObject, group: str, *, is_zone: bool) -> PlannedWrite | None:
    """Return the write that makes a node a group's; None if it is already, or another's."""
    labels = labels_of(node)
    changes: JsonObject = {}
    if BELONGING_TO not in labels:
        changes[BELONGING_TO] = group
    elif labels[BELONGING_TO] != group:
        return None
    if is_zone and ZONE not in labels:
        changes[ZONE] = group
    elif not is_zone and labels.get(ZONE) == group:
        changes[ZONE] = None
    return _relabelled(node, changes) if changes else None


def _left(view: View, group: str, nodes: Sequence[JsonObject]) -> list[PlannedWrite]:
    """Return the writes that take nodes, and the pods on them, from a group. The pods go first: without
    the label nobody would know of them.
    """
    leaving = [node for node in nodes if labels_of(node).get(BELONGING_TO) == group]
    return [write for node in leaving for write in _leaves(view, node, group)]


def _leaves(view: View, node: JsonObject, group: str) -> Iterator[PlannedWrite]:
    for pod in view.pods_on(key_of(node).name):
        selector = (pod.get("spec") or {}).get("nodeSelector") or {}
        if selector.get(BELONGING_TO) == group and not is_being_deleted(pod):
            yield delete(pod)
    zone = {ZONE: None} if labels_of(node).get(ZONE) == group else {}
    yield _relabelled(node, {BELONGING_TO: None, **zone})


def _relabelled(node: JsonObject, changes: JsonObject) -> PlannedWrite:
    """Return a change of labels that is refused if the node has changed: another group may have taken it."""
    return patch(node, {"metadata": {"labels": changes, "resourceVersion": version_of(node)}})


def _marked(group: JsonObject, finalizers: list[str]) -> PlannedWrite:
    return patch(group, {"metadata": {"finalizers": finalizers, "resourceVersion": version_of(group)}})


def _status(group: JsonObject, members: Sequence[JsonObject]) -> JsonObject:
    found = [_node_status(node, group["metadata"]["name"]) for node in members]
    names = {each["nodeName"] for each in found}
    absent = {str(name) for name in (group.get("spec") or {}).get("nodes") or ()} - names
    found += [_failed(name, "Unknown", "node does not exist") for name in absent]
    ready = sum(each["readyStatus"] == "Ready" and each["selectionStatus"] == "Succeeded" for each in found)
    return {"nodeStatuses": sorted(found, key=lambda each: str(each["nodeName"])), "ready": f"{ready}/{len(found)}"}


def _node_status(node: JsonObject, group: str) -> JsonObject:
    name, owner = node["metadata"]["name"], labels_of(node).get(BELONGING_TO, group)
    ready = _READY.get(str(condition_of(node, "Ready").get("status")), "Unknown")
    if owner != group:
        return _failed(name, ready, f"node {name} has already belonged to NodeGroup {owner}")
    return {"nodeName": name, "readyStatus": ready, "selectionStatus": "Succeeded"}


def _failed(name: str, ready: str, reason: str) -> JsonObject:
    return {"nodeName": name, "readyStatus": ready, "selectionStatus": "Failed", "selectionStatusReason": reason}
