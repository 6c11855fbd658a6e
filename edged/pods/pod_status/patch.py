"""Strategic merge patches of pod and node statuses.

KubeEdge's edge sends the pod status as a `podpatch` and the node status as a `nodepatch`. The text is a kubelet's,
because the cloud passes it to the API server unchanged: elements of lists with a merge key (conditions by type,
addresses by ip) one by one with their order beside them, every other list whole, removed fields as null.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from edged.pods.pod_status.conditions import with_parts_of_others
from modules.apimachinery.pods.node_conditions import OURS
from modules.apimachinery.types import Node, PodStatus, to_value

_POD_STATUS_KEYS = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip"}
_NOT_ALWAYS = (
    "message",
    "reason",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
)
"""Fields of a pod's status that the node owns and does not always set."""
_NO_CONDITION = dict.fromkeys(("message", "observedGeneration", "reason"))
"""Removes the fields that a condition does not always have."""
_OF_OTHERS = ("nominatedNodeName", "resize")
"""Fields of a pod's status that others set."""
_NODE_STATUS_KEYS = {"conditions": "type"}
"""Addresses have the merge key `type` too, but a node may have two of one type: they are replaced as a whole."""


def diff_pod_status(old: PodStatus, new: PodStatus, uid: str, *, sure: bool = True) -> str | None:
    """Return the podpatch that turns `old` (as the cloud has it) into `new`; None when nothing changed. What others
    decide stays, however much older `new` is than `old`.

    The uid in the patch makes the API server refuse it for another pod of that name. Without `sure` the cloud may have
    another status than `old`, and the patch sets every field of the node's own.
    """
    whole = with_parts_of_others(new, old)
    if sure and whole == old:
        return None
    difference = _diff if sure else _restatement
    changes = difference(to_value(old), to_value(whole), _POD_STATUS_KEYS)
    return _text({"metadata": {"uid": uid}, "status": changes}) if changes else None


def diff_node(old: Node, new: Node) -> str | None:
    """Return the nodepatch for labels, annotations and status of the node; None when nothing changed."""
    before, after = to_value(old), to_value(new)
    metadata = _diff(_reported_metadata(before), _reported_metadata(after), {})
    status = _diff(before["status"], after["status"], _NODE_STATUS_KEYS)
    if "addresses" in status:
        status["addresses"] = [*(status["addresses"] or []), {"$patch": "replace"}]
    patch = {key: changes for key, changes in (("metadata", metadata), ("status", status)) if changes}
    return _text(patch) if patch else None


def _reported_metadata(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: node["metadata"].get(key, {}) for key in ("labels", "annotations")}


def _text(patch: Any) -> str:
    return msgspec.json.encode(patch, order="sorted").decode()


def _diff(old: Mapping[str, Any], new: Mapping[str, Any], merge_keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the changes to merge into `old` to get `new`."""
    changes: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        before = old.get(name)
        if name in old and before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            changes[name] = _diff(before, value, {})
        elif name in merge_keys and isinstance(value, list) and before:
            changes |= _diff_list(name, before, value, merge_keys[name])
        else:
            changes[name] = value
    return changes


def _restatement(old: Mapping[str, Any], new: Mapping[str, Any], merge_keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the changes that turn `old`, and any other status that this node has reported, into `new`. Parts of
    other writers, who may have changed them since, are left out.
    """
    changes: dict[str, Any] = {name: None for name in (*old, *_NOT_ALWAYS) if name not in new and name != "conditions"}
    for name, value in new.items():
        if name == "conditions":
            before = old.get(name) or []
            own = (each for each in value if each["type"] in OURS or each not in before)
            changes[name] = [_NO_CONDITION | each for each in own]
        elif name not in _OF_OTHERS:
            changes[name] = [*value, {"$patch": "replace"}] if name in merge_keys else value
    return changes


def _diff_list(name: str, old: list[Any], new: list[Any], key: str) -> dict[str, Any]:
    """Return changed, added and removed elements of a list that is merged by `key`, and the order of the whole list."""
    before = {element[key]: element for element in old}
    after = {element[key] for element in new}
    elements = []
    for element in new:
        if element[key] not in before:
            elements.append(element)
        elif changed := _diff(before[element[key]], element, {}):
            elements.append({**changed, key: element[key]})
    elements += [{"$patch": "delete", key: gone} for gone in before if gone not in after]
    order = [{key: element[key]} for element in new]
    return {name: elements, f"$setElementOrder/{name}": order} if elements else {f"$setElementOrder/{name}": order}
