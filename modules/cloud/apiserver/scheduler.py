"""A small scheduler: the node of a pod that names none.

A node fits if its labels, taints, resources and ports fit the pod, by the kubelet's own predicates, so that the node
admits the pod. Among fitting nodes, ready ones are preferred, then the one with the fewest pods, then the first by
name: the same objects give the same node. Preferences (preferred affinity, topology spread, affinity between pods,
priority, preemption) are not read. A node that is not ready is taken when no ready one fits: an edge node may be
offline for long, and gets the pod when it connects.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from edged.admission.general_predicates import insufficient_beside, taken_host_port, used_resources
from edged.admission.tolerations import tolerates
from edged.api import Node, Pod, QuantityError, Taint, parse_quantity
from edged.pods.node_selector import pod_fits_node
from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.pod_scheduled import is_gated
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = ("NoSchedule", "NoExecute")
_ENDED: Final = ("Succeeded", "Failed")
_PODS: Final = "pods"
_LONGEST_REASON: Final = 1024
"""Characters of a reason (those of an Event's message); nodes choose the keys of their taints."""
_UNREADABLE: Final = "node(s) had amounts that cannot be read"
_NO_NODE: Final = "no nodes available to schedule pods"


class Placement(NamedTuple):
    """The node that is chosen for a pod."""

    node: str
    """Empty: nowhere yet."""
    why: str = ""
    """The reason in that case, in kube-scheduler's words."""


class Placer:
    """Places pods one after another; nodes and pods are read once for all of them.

    Args:
        nodes: all nodes.
        pods: all pods.
    """

    def __init__(self, nodes: Sequence[JsonObject], pods: Iterable[JsonObject]) -> None:
        self._nodes = nodes
        self._on_node: defaultdict[str, list[JsonObject]] = defaultdict(list)
        for pod in pods:
            if not _has_ended(pod):
                self._on_node[str((pod.get("spec") or {}).get("nodeName") or "")].append(pod)
        self._rooms: dict[str, _Room | None] = {}
        """The nodes that were read, with their pods; None for a node with an invalid status."""
        self._refused: dict[bytes, Placement] = {}
        """The placement of pods that fit nowhere, by their spec: later ones find less room, not more."""

    def place(self, pod: JsonObject) -> Placement:
        """Return the node of a pod that has none, and count it there."""
        if not self._nodes:
            return Placement("", _NO_NODE)
        spec = msgspec.json.encode(pod.get("spec"))
        placement = self._refused.get(spec)
        if placement is None:
            placement = self._placement(convert(pod, Pod, "Pod"))
            if placement.node:
                self._on_node[placement.node].append(pod)
                self._rooms.pop(placement.node, None)
            else:
                self._refused[spec] = placement
        return placement

    def _placement(self, pod: Pod) -> Placement:
        reasons: Counter[str] = Counter()
        for node in sorted(self._nodes, key=lambda node: _rank(node, self._on_node)):
            reason = self._refusal(pod, node)
            if not reason:
                return Placement(str(node["metadata"]["name"]))
            reasons[reason] += 1
        found = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return Placement("", f"0/{len(self._nodes)} nodes are available: {found}."[:_LONGEST_REASON])

    def _refusal(self, pod: Pod, node: JsonObject) -> str:
        """Return why a node does not fit; "" when it does. One that reports nonsense keeps only itself from pods."""
        name = str(node["metadata"]["name"])
        try:
            if name not in self._rooms:
                self._rooms[name] = None
                self._rooms[name] = _room_of(node, self._on_node[name])
            room = self._rooms[name]
            return _UNREADABLE if room is None else _misfit(pod, room)
        except (BadRequestError, QuantityError):
            return _UNREADABLE


def _has_ended(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _rank(node: JsonObject, on_node: dict[str, list[JsonObject]]) -> tuple[bool, int, str]:
    name = str(node["metadata"]["name"])
    return not is_ready(node), len(on_node.get(name, ())), name


def is_ready(node: JsonObject) -> bool:
    """Return whether the node's condition Ready is True."""
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def makes_room(event: ObjectEvent) -> bool:
    """Return whether a change of an object may let a waiting pod onto a node, or change why it waits."""
    old, new = event.old, event.new
    if event.key.kind == "Node":
        return old is None or event.type is EventType.DELETED or _matters(old) != _matters(new)
    if event.key.kind != "Pod":
        return False
    if event.type is EventType.DELETED or old is None:
        return event.type is EventType.DELETED
    return (_has_ended(new) and not _has_ended(old)) or (is_gated(old) and not is_gated(new))


def _matters(node: JsonObject) -> tuple[object, ...]:
    status = node.get("status") or {}
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable"), is_ready(node)


class _Room(NamedTuple):
    """A node as the scheduler reads it."""

    node: Node
    unschedulable: bool
    allocatable: dict[str, Fraction]
    pods: list[Pod]
    used: dict[str, Fraction]
    """The requests of the pods."""


def _room_of(obj: JsonObject, others: Sequence[JsonObject]) -> _Room:
    node = convert(obj, Node, "Node")
    allocatable = {name: parse_quantity(amount) for name, amount in node.status.allocatable.items()}
    pods = [convert(other, Pod, "Pod") for other in others]
    return _Room(node, bool((obj.get("spec") or {}).get("unschedulable")), allocatable, pods, used_resources(pods))


def _misfit(pod: Pod, room: _Room) -> str:
    if not pod_fits_node(pod, room.node.metadata.name, room.node.metadata.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    if room.unschedulable and not tolerates(_UNSCHEDULABLE, pod.spec.tolerations):
        return "node(s) were unschedulable"
    for taint in room.node.spec.taints:
        if taint.effect in _HARD and not tolerates(taint, pod.spec.tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value or ''}}}"
    short = insufficient_beside(pod, room.used, room.allocatable)
    if short is not None:
        return "Too many pods" if short[0] == _PODS else f"Insufficient {short[0]}"
    if taken_host_port(pod, room.pods) is not None:
        return "node(s) didn't have free ports for the requested pod ports"
    return ""
