"""A small scheduler: the node of a pod that names none.

A node fits whose labels, taints, resources and ports fit the pod, by the kubelet's own predicates, so that the node
admits what is placed there. Of those that fit, ready nodes go first, then the one with the fewest pods, then the first
by name: the same objects give the same node. Preferences (preferred affinity, topology spread, affinity between pods,
priority, preemption) are not read. A node that is not ready is taken when no ready one fits: an edge node may be
offline for long, and gets the pod when it connects.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from edged.admission.general_predicates import insufficient_resource, taken_host_port
from edged.admission.tolerations import tolerates
from edged.api import Node, Pod, QuantityError, Taint, parse_quantity
from edged.pods.node_selector import pod_fits_node
from modules.cloud.apiserver.conversion import convert
from modules.cloud.apiserver.errors import BadRequestError
from modules.cloud.apiserver.kinds import JsonObject
from modules.cloud.apiserver.storage import EventType, ObjectEvent

_UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = ("NoSchedule", "NoExecute")
_ENDED: Final = ("Succeeded", "Failed")
_PODS: Final = "pods"
_LONGEST_REASON: Final = 1024
"""Characters of a reason (those of an Event's message); nodes choose the keys of their taints."""
_NO_NODE: Final = "no nodes available to schedule pods"


class Placement(NamedTuple):
    """Where a pod goes."""

    node: str
    """Empty: nowhere yet."""
    why: str = ""
    """The reason in that case, in kube-scheduler's words."""


def place(pod: JsonObject, nodes: Sequence[JsonObject], pods: Iterable[JsonObject]) -> Placement:
    """Return the node of a pod.

    Args:
        pod: without a node.
        nodes: all nodes; a silent one with conditions that say so.
        pods: all pods.
    """
    if not nodes:
        return Placement("", _NO_NODE)
    wanted = convert(pod, Pod, "Pod")
    on_node: defaultdict[str, list[JsonObject]] = defaultdict(list)
    for other in pods:
        if not _has_ended(other):
            on_node[str((other.get("spec") or {}).get("nodeName") or "")].append(other)
    reasons: Counter[str] = Counter()
    for node in sorted(nodes, key=lambda node: _rank(node, on_node)):
        reason = _refusal(wanted, node, on_node[node["metadata"]["name"]])
        if not reason:
            return Placement(str(node["metadata"]["name"]))
        reasons[reason] += 1
    found = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return Placement("", f"0/{len(nodes)} nodes are available: {found}."[:_LONGEST_REASON])


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
    return event.type is EventType.DELETED or (old is not None and _has_ended(new) and not _has_ended(old))


def _matters(node: JsonObject) -> tuple[object, ...]:
    status = node.get("status") or {}
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable"), is_ready(node)


def _refusal(pod: Pod, obj: JsonObject, others: Sequence[JsonObject]) -> str:
    """Return why a node does not fit; "" when it does. A node that reports nonsense keeps only itself from pods."""
    try:
        return _misfit(pod, obj, others)
    except (BadRequestError, QuantityError):
        return "node(s) had amounts that cannot be read"


def _misfit(pod: Pod, obj: JsonObject, others: Sequence[JsonObject]) -> str:
    node = convert(obj, Node, "Node")
    if not pod_fits_node(pod, node.metadata.name, node.metadata.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    if (obj.get("spec") or {}).get("unschedulable") and not tolerates(_UNSCHEDULABLE, pod.spec.tolerations):
        return "node(s) were unschedulable"
    for taint in node.spec.taints:
        if taint.effect in _HARD and not tolerates(taint, pod.spec.tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value or ''}}}"
    allocatable = {name: parse_quantity(amount) for name, amount in node.status.allocatable.items()}
    return _shortage(pod, [convert(other, Pod, "Pod") for other in others], allocatable)


def _shortage(pod: Pod, others: Sequence[Pod], allocatable: dict[str, Fraction]) -> str:
    short = insufficient_resource(pod, others, allocatable)
    if short is not None:
        return "Too many pods" if short[0] == _PODS else f"Insufficient {short[0]}"
    if taken_host_port(pod, others) is not None:
        return "node(s) didn't have free ports for the requested pod ports"
    return ""
