"""The nodes as the scheduler reads them, with sums of what their pods use."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.apimachinery.pods.demand import Amounts, pod_requests
from modules.apimachinery.pods.general_predicates import Port, host_ports
from modules.apimachinery.pods.objects import has_ended
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.types import Node, Pod, QuantityError, parse_quantity
from modules.cloud.apiserver.volume_binder import Find
from modules.cloud.storage.unbound_pods import priority_of

PODS: Final = "pods"
CPU: Final = "cpu"
MEMORY: Final = "memory"
_UNNAMED: Final = {CPU: "100m", MEMORY: "200Mi"}
"""The requests that a container counts for in scores where it names none (kube-scheduler's non-zero requests)."""
_MOST_VERDICTS: Final = 32
"""Looks that a node keeps, for pods with as many different demands."""


class PodDemand(NamedTuple):
    """The resources that a pod takes of a node, and the effect of its labels and rules on others."""

    namespace: str
    labels: Mapping[str, str]
    requests: Amounts
    counted: Amounts
    """The requests as they count in scores."""
    ports: list[Port]
    affinity: JsonObject
    """`podAffinity` and `podAntiAffinity`; empty if it has neither."""
    is_ending: bool
    priority: int
    alike: str
    """The same text for all pods with the same namespace, labels and rules about others."""


def demand_of(obj: JsonObject, pod: Pod | None = None) -> PodDemand:
    """Return the demand of a pod.

    Raises:
        BadRequestError, QuantityError: it is not one.
    """
    pod = convert(obj, Pod, "Pod") if pod is None else pod
    metadata, affinity = obj["metadata"], _pod_affinity_of(obj)
    namespace, labels = str(metadata.get("namespace") or ""), metadata.get("labels") or {}
    return PodDemand(
        namespace,
        labels,
        pod_requests(pod),
        pod_requests(pod, _UNNAMED),
        host_ports(pod),
        affinity,
        bool(metadata.get("deletionTimestamp")),
        priority_of(obj),
        sys.intern(msgspec.json.encode((namespace, labels, affinity)).decode()),
    )


def takes_the_same(pod: JsonObject, other: JsonObject) -> bool:
    """Return whether two states of a pod take the same of their node, such as when only the status has changed."""
    return _demanding_of(pod) == _demanding_of(other)


def _demanding_of(pod: JsonObject) -> tuple[object, ...]:
    """Return all that `demand_of` depends on; a pod gets its node while it is counted there already."""
    metadata = pod["metadata"]
    is_mirror = CONFIG_MIRROR in (metadata.get("annotations") or {})
    return (
        {**(pod.get("spec") or {}), "nodeName": ""},
        metadata.get("labels"),
        is_mirror,
        bool(metadata.get("deletionTimestamp")),
    )


def _readable_demand_of(obj: JsonObject) -> PodDemand | None:
    try:
        return demand_of(obj)
    except (BadRequestError, QuantityError):
        return None


def _pod_affinity_of(obj: JsonObject) -> JsonObject:
    """Return the rules of a pod about other pods. The rules of a mirror pod do not count: a node writes them, and could
    keep pods from other nodes.
    """
    if CONFIG_MIRROR in (obj["metadata"].get("annotations") or {}):
        return {}
    affinity = (obj.get("spec") or {}).get("affinity") or {}
    return {name: affinity[name] for name in ("podAffinity", "podAntiAffinity") if affinity.get(name)}


class NodeVerdict(NamedTuple):
    """A node's verdict on a pod that fits it, without the pods of other nodes."""

    is_ready: bool
    pods: int
    own_score: int
    """The weighted scores that need no other node."""
    soft_taints: int
    """The taints that it rather not has."""
    affinity: int
    """The weights of the preferences that match it."""
    images: tuple[int, ...] | None
    """The bytes that it has of the pod's images, or None."""


Reasons = tuple[str, ...]
"""The reasons why a node does not fit a pod; none: it does."""


class NodeRoom:
    """A node with its pods.

    Args:
        obj: the Node.
        known: has read the same Node already.
    """

    def __init__(self, obj: JsonObject, known: NodeRoom | None = None) -> None:
        self.name = str(obj["metadata"]["name"])
        self.obj: JsonObject = {}
        self.node: Node | None = None
        """None for a node that reports nonsense."""
        self.allocatable: dict[str, Fraction] = {}
        self.images: dict[str, int] = {}
        """The bytes of the images that the node has, by name."""
        self._known: dict[ObjectKey, tuple[JsonObject, PodDemand | None]] = {}
        self.used: Amounts = {PODS: Fraction()}
        """The requests of the pods, with their number."""
        self.counted: Amounts = {CPU: Fraction(), MEMORY: Fraction()}
        """The same as it counts in scores."""
        self._unreadable = 0
        self._priorities = Counter[int]()
        self.with_rules: dict[ObjectKey, PodDemand] = {}
        """The pods that have rules about other pods."""
        self._verdicts: dict[bytes, NodeVerdict | Reasons] = {}
        if known is None:
            self.read(obj)
        else:
            self.obj, self.node, self.allocatable, self.images = obj, known.node, known.allocatable, known.images

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the node."""
        return self.node.metadata.labels if self.node is not None else {}

    @property
    def is_readable(self) -> bool:
        """Whether the node, and all of its pods, can be read."""
        return self.node is not None and not self._unreadable

    def read(self, obj: JsonObject) -> None:
        """Take the present state of the node."""
        if obj is self.obj:
            return
        self.obj, self.node, self.images = obj, None, {}
        self._verdicts.clear()
        try:
            node = convert(obj, Node, "Node")
            self.allocatable = {name: parse_quantity(amount) for name, amount in node.status.allocatable.items()}
        except (BadRequestError, QuantityError):
            return
        self.node, self.images = node, dict(_images(obj))

    def verdict(self, demand: bytes, evaluate: Callable[[NodeRoom], Reasons]) -> NodeVerdict | Reasons:
        """Return the node's verdict on pods with a demand, or why they do not fit; computed again when it or its pods
        have changed. No reasons: they fit, and nobody has asked for its score yet.
        """
        found = self._verdicts.get(demand)
        if found is None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            found = self._verdicts[demand] = evaluate(self)
        return found

    def scored(self, demand: bytes, evaluate: Callable[[NodeRoom], NodeVerdict]) -> NodeVerdict:
        """Return the node's verdict, which nobody has asked for yet, on pods that fit it."""
        found = self._verdicts[demand] = evaluate(self)
        return found

    @property
    def pods(self) -> Iterator[JsonObject]:
        """The pods of the node that have not ended."""
        return (pod for pod, _ in self._known.values())

    @property
    def lowest_priority(self) -> float:
        """The lowest priority of its pods; infinity without any."""
        return min(self._priorities, default=math.inf)

    @property
    def demands(self) -> Iterator[PodDemand]:
        """The pods of the node that can be read."""
        return (demand for _, demand in self._known.values() if demand is not None)

    def set_pods(self, pods: Iterable[JsonObject]) -> None:
        """Take all pods of the node that have not ended; known pods are not read again, nor asked for their names."""
        keys = {id(pod): key for key, (pod, _) in self._known.items()}
        present = {keys.get(id(pod)) or key_of(pod): pod for pod in pods if id(pod) in keys or not has_ended(pod)}
        for key in [key for key in self._known if key not in present]:
            self.drop(key)
        for key, pod in present.items():
            known, demand = self._known.get(key, (None, None))
            if known is None or demand is None or not (known is pod or takes_the_same(known, pod)):
                self.add(pod)
            else:
                self._known[key] = pod, demand

    def without(self, keys: Iterable[ObjectKey]) -> NodeRoom:
        """Return the node without some of its pods."""
        room, gone = NodeRoom(self.obj, self), frozenset(keys)
        for key, (pod, demand) in self._known.items():
            if key not in gone:
                room.add(pod, demand)
        return room

    def add(self, pod: JsonObject, demand: PodDemand | None = None) -> None:
        """Take one more pod.

        Args:
            pod: the pod.
            demand: what it takes; None: it is read from the pod.
        """
        key, demand = key_of(pod), demand or _readable_demand_of(pod)
        if key in self._known:
            self.drop(key)
        self._known[key] = pod, demand
        self._verdicts.clear()
        self._unreadable += demand is None
        if demand is not None:
            self._count(demand, 1)
            if demand.affinity:
                self.with_rules[key] = demand

    def drop(self, key: ObjectKey) -> None:
        """Note that a pod was deleted."""
        _, demand = self._known.pop(key)
        self.with_rules.pop(key, None)
        self._verdicts.clear()
        if demand is None:
            self._unreadable -= 1
        else:
            self._count(demand, -1)

    def _count(self, demand: PodDemand, sign: int) -> None:
        self.used[PODS] += sign
        self._priorities[demand.priority] += sign
        if not self._priorities[demand.priority]:
            del self._priorities[demand.priority]
        for name, amount in demand.requests.items():
            self.used[name] = self.used.get(name, Fraction()) + (amount if sign > 0 else -amount)
        for name in self.counted.keys() & demand.counted:
            self.counted[name] += demand.counted[name] if sign > 0 else -demand.counted[name]


def _images(node: JsonObject) -> Iterator[tuple[str, int]]:
    for image in (node.get("status") or {}).get("images") or ():
        size = image.get("sizeBytes") if isinstance(image, dict) else None
        if isinstance(size, int):
            yield from ((str(name), size) for name in image.get("names") or ())


class NodeRooms:
    """All nodes with their pods; unchanged objects are not read again.

    Args:
        find: returns an object, such as a claim of a pod or its volume, or None.
        list_volumes: returns all PersistentVolumes.
    """

    def __init__(self, find: Find = lambda _: None, list_volumes: Callable[[], Iterable[JsonObject]] = tuple) -> None:
        self.find = find
        self.list_volumes = list_volumes
        self.rooms: dict[str, NodeRoom] = {}
        self._nodes: list[JsonObject] = []
        self._seen: dict[str, int] = {}
        """The number of the latest change of a node's pods that is known."""
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """The labels of the namespaces."""

    def set_nodes(self, nodes: list[JsonObject]) -> None:
        """Take the present nodes."""
        if nodes == self._nodes:
            return
        self._nodes = nodes
        known, self.rooms = self.rooms, {}
        for obj in sorted(nodes, key=lambda node: str(node["metadata"]["name"])):
            name = str(obj["metadata"]["name"])
            room = known.get(name) or NodeRoom(obj)
            room.read(obj)
            self.rooms[name] = room
        self._seen = {name: change for name, change in self._seen.items() if name in self.rooms}

    def outdated(self, changes: Mapping[str, int]) -> list[str]:
        """Return the nodes whose pods have changed since the known changes.

        Args:
            changes: the latest one of each node that has pods.
        """
        seen = self._seen
        return [name for name in self.rooms if seen.get(name) != changes.get(name, 0)]

    def set_pods(self, node: str, pods: Iterable[JsonObject], change: int = 0) -> None:
        """Take all pods of a node, as they are at a change."""
        self.rooms[node].set_pods(pods)
        self._seen[node] = change

    def assume(self, node: str, pod: JsonObject, demand: PodDemand) -> None:
        """Count a pod that is being put onto a node; the node's pods are read again before they count next time."""
        self.rooms[node].add(pod, demand)
        self._seen.pop(node, None)
