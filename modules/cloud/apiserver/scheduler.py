"""A small scheduler: the node of a pod that names none.

A node fits if its labels, taints, resources and ports fit the pod, by the kubelet's own predicates, so that the node
admits the pod, if the volumes of its claims can be reached there, also those to which they are yet to be bound, and if
the rules about other pods allow it: affinity, anti-affinity, topology spread. Among fitting nodes, ready ones are
preferred, then the one with the highest score (kube-scheduler's), then the one with the fewest pods, then the first by
name: the same objects give the same node. A node that is not ready is taken when no ready one fits: an edge node may be
offline for long, and gets the pod when it connects. Only pods that do not stay on such a node for ever, by their own or
its word, wait instead. Where no node fits, pods of a lower priority may make room.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_kind, key_of
from modules.apimachinery.pod_references import claims_of
from modules.apimachinery.pods.general_predicates import insufficient_amounts, taken_ports, used_port
from modules.apimachinery.pods.node_selector import pod_fits_node, selector_matches
from modules.apimachinery.pods.objects import has_ended, node_of
from modules.apimachinery.pods.tolerations import tolerates
from modules.apimachinery.types import Pod, Taint
from modules.cloud.apiserver.pod_scheduled import is_gated, nominated_node, with_nominated_node
from modules.cloud.apiserver.scheduling.pod_affinity import PodRules
from modules.cloud.apiserver.scheduling.preemption import Preemption, preemptions
from modules.cloud.apiserver.scheduling.rooms import (
    PODS,
    NodeRoom,
    NodeRooms,
    NodeVerdict,
    PodDemand,
    Reasons,
    demand_of,
)
from modules.cloud.apiserver.scheduling.scores import Scorer
from modules.cloud.apiserver.scheduling.topology_spread import SpreadRules
from modules.cloud.apiserver.scheduling.volume_nodes import (
    ELSEWHERE,
    NO_VOLUME,
    TAKEN,
    DelayedClaims,
    claims_for_one_pod,
    missing_volume,
    selectors_of_volumes,
)
from modules.cloud.apiserver.silent_nodes import UNREACHABLE, pod_stays_for, pods_stay_for
from modules.cloud.apiserver.volume_binder import CLAIM, VOLUME
from modules.cloud.applications import NODE_GROUP
from modules.cloud.storage.object_storage import EventType, ObjectEvent
from modules.cloud.storage.unbound_pods import priority_of

_UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_HARD: Final = ("NoSchedule", "NoExecute")
_LONGEST_REASON: Final = 1024
"""Characters of a reason (as many as an Event's message has); nodes choose the keys of their taints."""
_UNREADABLE: Final = "node(s) had amounts that cannot be read"
_NO_NODE: Final = "no nodes available to schedule pods"
_MISPLACED: Final = "node(s) didn't match Pod's node affinity/selector"
_BY_NAME: Final = "metadata.name"
_OF_VOLUMES: Final = (CLAIM, VOLUME, "StorageClass")
MAKE_ROOM: Final = ("Node", "Namespace", NODE_GROUP.key_name, "Pod", *_OF_VOLUMES)
"""The kinds of `makes_room`; no change of another kind lets a pod onto a node."""
_KNOWN: Final = 5
"""The cost of a pod whose placement is known, in looks at nodes."""
_TRIED: Final = 4
"""The cost of a node where others may make room, in looks at nodes."""


class Placement(NamedTuple):
    """The node that is chosen for a pod."""

    node: str
    """Empty: nowhere yet."""
    why: str = ""
    """The reason in that case, in kube-scheduler's words."""
    claimed: Sequence[JsonObject] = ()
    """The pod's claims with their volumes, or with the node where these are to be provisioned, to be stored first."""


def placement_at(node: str, labels: Mapping[str, str], delayed: DelayedClaims) -> Placement:
    """Return the placement of a pod on a node, with the volumes of its claims; nowhere while a volume is missing."""
    claimed = delayed.at(node, labels)
    if claimed is None:
        return Placement("", f"0/1 nodes are available: 1 {NO_VOLUME}.")
    names = (
        each["metadata"]["name"] for each in claimed if key_kind(each) == CLAIM and not each["spec"].get("volumeName")
    )
    for name in names:
        return Placement(
            "", f'binding volumes: persistentvolumeclaim "{name}" is provisioned for node "{node}"', claimed
        )
    return Placement(node, claimed=claimed)


class Placer:
    """A scheduler that places pods one after another, and counts each where it goes.

    Args:
        fleet: all nodes with their pods.
        nominated: pods that wait until others have made room for them on a node.
    """

    def __init__(self, fleet: NodeRooms, nominated: Iterable[JsonObject] = ()) -> None:
        self._fleet = fleet
        self._nominated = {key_of(pod): pod for pod in nominated}
        self._refused: dict[bytes, Placement] = {}
        """The placement of pods without rules about others that fit nowhere: later ones find less room, unless
        a pod gives up what is kept for it."""
        self._lowest: float | None = None
        """The lowest priority of a pod on a node, once it is asked for."""
        self._hopeless = set[bytes]()
        """The pods that no others can make room for."""
        self._provisioned = set[ObjectKey]()
        """The pods that have a node, and wait for their volumes there."""
        self.looks = 0
        """The nodes that were looked at; a pod whose placement is known counts for a few."""

    @classmethod
    def of(cls, nodes: Sequence[JsonObject], pods: Iterable[JsonObject]) -> "Placer":
        """Return a placer for nodes with pods."""
        fleet = NodeRooms()
        fleet.set_nodes(list(nodes))
        by_node: dict[str, list[JsonObject]] = {}
        for pod in pods:
            by_node.setdefault(node_of(pod), []).append(pod)
        for name in fleet.rooms.keys() & by_node.keys():
            fleet.set_pods(name, by_node[name])
        return cls(fleet)

    def place(self, pod: JsonObject) -> Placement:
        """Place a pod without a node, count it there, and return the node.

        Raises:
            BadRequestError, QuantityError: it is not a pod.
        """
        if not self._fleet.rooms:
            self.looks += _KNOWN
            return Placement("", _NO_NODE)
        about, chosen = _about(pod), nominated_node(pod)
        placement = self._refused.get(about) if not chosen else None
        self.looks += _KNOWN if placement is not None else len(self._fleet.rooms)
        if placement is None:
            with self._kept_for_others(pod):
                attempt = _Attempt(pod, self._fleet)
                placement = attempt.placement(chosen)
            if placement.node:
                self._nominate(pod, "", placement.node)
                self._fleet.assume(placement.node, pod, attempt.demand)
            elif placement.claimed:
                self._provisioned.add(key_of(pod))
            elif not attempt.demand.affinity and not _spread(pod):
                self._refused[about] = placement
        return placement

    def preemption(self, pod: JsonObject, budgets: Callable[[], Sequence[JsonObject]]) -> Preemption | None:
        """Return which pods make room for a pod that fits nowhere; None if that is not possible, or under way.

        Args:
            pod: the pod.
            budgets: returns the PodDisruptionBudgets of all namespaces.

        Raises:
            BadRequestError, QuantityError: it is not a pod.
        """
        rooms = [*self._fleet.rooms.values()]
        if self._lowest is None:
            self._lowest = min((room.lowest_priority for room in rooms), default=math.inf)
        about = _about(pod)
        is_hopeless = about in self._hopeless and not nominated_node(pod)
        if is_hopeless or priority_of(pod) <= self._lowest or key_of(pod) in self._provisioned:
            self._nominate(pod, "")
            return None
        with self._kept_for_others(pod):
            attempt = _Attempt(pod, self._fleet)
            able = [room for room in rooms if attempt.may_go_to(room)]
            self.looks += len(rooms) + _TRIED * len(able)
            found = preemptions(pod, able, attempt.fits, budgets())
            best = next(iter(found), None)
        self._nominate(pod, best.node if best is not None else "")
        if best is None:
            self._hopeless.add(about)
        return best

    def _nominate(self, pod: JsonObject, node: str, taken: str = "") -> None:
        """Keep room for a pod on a node.

        Args:
            pod: the pod.
            node: the node; "" to keep none.
            taken: the node that the pod has got, if it has.
        """
        before = self._nominated.pop(key_of(pod), None)
        if node:
            self._nominated[key_of(pod)] = with_nominated_node(pod, node)
        if before is not None and nominated_node(before) not in (node, taken):
            self._refused.clear()
            self._hopeless.clear()

    @contextmanager
    def _kept_for_others(self, pod: JsonObject) -> Iterator[None]:
        """Count the pods, of the same priority or a higher one, that others make room for."""
        rooms, mine = self._fleet.rooms, key_of(pod)
        kept = [
            (rooms[node], other)
            for key, other in self._nominated.items()
            if key != mine and priority_of(other) >= priority_of(pod) and (node := nominated_node(other)) in rooms
        ]
        for room, other in kept:
            room.add(other)
        try:
            yield
        finally:
            for room, other in kept:
                room.drop(key_of(other))


class _Attempt:
    """One look for the node of a pod."""

    def __init__(self, obj: JsonObject, fleet: NodeRooms) -> None:
        self._fleet = fleet
        self._pod = convert(obj, Pod, "Pod")
        self.demand: PodDemand = demand_of(obj, self._pod)
        self._rules = PodRules(self.demand, fleet)
        self._spread = SpreadRules(self.demand, _spread(obj), fleet, self._fits, lambda room: not self._taint(room))
        self._scorer = Scorer(obj, self._pod, self.demand, fleet, self._rules, self._spread)
        self._missing_volume = missing_volume(obj, fleet.find)
        self._volumes = selectors_of_volumes(obj, fleet.find)
        self._delayed = DelayedClaims(obj, fleet.find, fleet.list_volumes)
        self._claims = claims_for_one_pod(obj, fleet.find)
        self._users = [room.name for room in fleet.rooms.values() if self._claims and self._uses_claim(room)]
        """The nodes that have a pod with one of the claims."""
        self._minds_others = bool(self._users) or self._spread.has_limits or self._rules.are_any
        self._asked = _asked(obj, self._pod, self.demand) + msgspec.json.encode(self._volumes) + self._delayed.decisive

    def fits(self, room: NodeRoom) -> bool:
        """Return whether the pod fits a node."""
        return not self._missing_volume and not self._refusal(room) and not self._of_others(room)

    def may_go_to(self, room: NodeRoom) -> bool:
        """Return whether the pod would fit a node if there were no other pods."""
        fits = not self._missing_volume and not self._unfit(room)
        return fits and next(insufficient_amounts(self.demand.requests, {}, room.allocatable), None) is None

    def placement(self, chosen: str) -> Placement:
        """Return where the pod goes.

        Args:
            chosen: the node where others have made room; "" for none.
        """
        rooms, reasons = self._fleet.rooms, Counter[str]()
        if self._missing_volume:
            return Placement("", f"0/{len(rooms)} nodes are available: {self._missing_volume}."[:_LONGEST_REASON])
        named = _named(self._pod)
        candidates = list(rooms.values()) if named is None else [rooms[name] for name in named if name in rooms]
        if len(candidates) < len(rooms):
            reasons[_MISPLACED] = len(rooms) - len(candidates)
        fitting = list[tuple[NodeRoom, NodeVerdict | Reasons]]()
        for room in candidates:
            look = room.verdict(self._asked, self._refusal)
            if look and not isinstance(look, NodeVerdict):
                reasons.update(look)
            elif self._minds_others and (reason := self._of_others(room)):
                reasons[reason] += 1
            else:
                fitting.append((room, look))
        if fitting:
            best = next((room for room, _ in fitting if room.name == chosen), None) or self._best(fitting)
            return placement_at(best.name, best.labels, self._delayed)
        found = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return Placement("", f"0/{len(rooms)} nodes are available: {found}."[:_LONGEST_REASON])

    def _best(self, fitting: Sequence[tuple[NodeRoom, NodeVerdict | Reasons]]) -> NodeRoom:
        """Return the best node; a single one gets no score, as in kube-scheduler."""
        if len(fitting) == 1:
            return fitting[0][0]
        scored = [
            (room, look if isinstance(look, NodeVerdict) else room.scored(self._asked, self._scorer.verdict))
            for room, look in fitting
        ]
        ready = [each for each in scored if each[1].is_ready] or scored
        rooms, looks = [room for room, _ in ready], [look for _, look in ready]
        if len(rooms) == 1:
            return rooms[0]
        scores = self._scorer.scores(rooms, looks)
        most = max(scores)
        best = (place for place, score in enumerate(scores) if score == most)
        return rooms[min(best, key=lambda at: (looks[at].pods, rooms[at].name))]

    def _refusal(self, room: NodeRoom) -> Reasons:
        """Return why a node does not fit, whatever is on others; nothing when it does."""
        return self._unfit(room) or tuple(self._full(room))

    def _unfit(self, room: NodeRoom) -> Reasons:
        """Return why a node does not fit, whatever pods it has."""
        unfit = self._unfit_itself(room)
        return (unfit,) if unfit else tuple(self._out_of_reach(room))

    def _out_of_reach(self, room: NodeRoom) -> Iterator[str]:
        if not all(selector_matches(one, room.name, room.labels) for one in self._volumes):
            yield ELSEWHERE
        if self._delayed.at(room.name, room.labels) is None:
            yield NO_VOLUME

    def _unfit_itself(self, room: NodeRoom) -> str:
        """Return why a node does not fit, but for its volumes. A node that reports nonsense only harms itself."""
        if room.node is None or not room.is_readable:
            return _UNREADABLE
        if (room.obj.get("spec") or {}).get("unschedulable") and not tolerates(
            _UNSCHEDULABLE, self._pod.spec.tolerations
        ):
            return "node(s) were unschedulable"
        if taint := self._taint(room):
            return taint
        return "" if self._fits(room) else _MISPLACED

    def _fits(self, room: NodeRoom) -> bool:
        return pod_fits_node(self._pod, room.name, room.labels)

    def _taint(self, room: NodeRoom) -> str:
        tolerations = self._pod.spec.tolerations
        for taint in room.node.spec.taints if room.node is not None else ():
            if taint.effect not in _HARD or tolerates(taint, tolerations):
                continue
            if taint.key != UNREACHABLE or not self._stays(room):
                return f"node(s) had untolerated taint {{{taint.key}: {taint.value or ''}}}"
        return ""

    def _stays(self, room: NodeRoom) -> bool:
        """Return whether the pod stays on a node for as long as the node does not answer."""
        chosen = pod_stays_for(self._pod.spec.tolerations)
        return (pods_stay_for(room.obj) if chosen is None else chosen) == math.inf

    def _full(self, room: NodeRoom) -> Iterator[str]:
        ports = self.demand.ports
        if ports and used_port(ports, taken_ports(other.ports for other in room.demands)) is not None:
            yield "node(s) didn't have free ports for the requested pod ports"
            return
        for name, _ in insufficient_amounts(self.demand.requests, room.used, room.allocatable):
            yield "Too many pods" if name == PODS else f"Insufficient {name}"

    def _uses_claim(self, room: NodeRoom) -> bool:
        return any(not self._claims.isdisjoint(claims_of(other)) for other in room.pods)

    def _of_others(self, room: NodeRoom) -> str:
        if self._users and (self._users != [room.name] or self._uses_claim(room)):
            return TAKEN
        return self._spread.refusal(room) or self._rules.refusal(room)


def _about(obj: JsonObject) -> bytes:
    """Return all of a pod that decides where it fits."""
    metadata = obj["metadata"]
    return msgspec.json.encode((obj.get("spec"), metadata.get("labels"), metadata.get("namespace")))


def _spread(obj: JsonObject) -> Sequence[JsonObject]:
    """Return the topology spread constraints of a pod."""
    found: Sequence[JsonObject] = (obj.get("spec") or {}).get("topologySpreadConstraints") or ()
    return found


def _asked(obj: JsonObject, pod: Pod, demand: PodDemand) -> bytes:
    """Return all of a pod that a node looks at for itself."""
    spec = obj.get("spec") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    amounts = {name: str(amount) for name, amount in demand.requests.items()}
    images = [each.image for each in (*pod.spec.init_containers, *pod.spec.containers)]
    asked = (spec.get("nodeSelector"), affinity, spec.get("tolerations"), amounts, demand.ports, images)
    return msgspec.json.encode(asked)


def _named(pod: Pod) -> list[str] | None:
    """Return the only nodes that a pod's required affinity names, as for a DaemonSet's pod; None for any."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is None or not required.node_selector_terms:
        return None
    names: list[str] = []
    for term in required.node_selector_terms:
        by_name = [one for one in term.match_fields if one.key == _BY_NAME and one.operator == "In"]
        if not by_name:
            return None
        names += by_name[0].values
    return sorted(set(names))


def makes_room(event: ObjectEvent) -> bool:
    """Return whether a change of an object may let a waiting pod onto a node, or change why it waits."""
    old, new = event.old, event.new
    if event.key.kind == "Node":
        return old is None or event.type is EventType.DELETED or _matters(old) != _matters(new)
    if event.key.kind == "Namespace":  # rules of pods select namespaces by their labels
        return old is not None and old["metadata"].get("labels") != new["metadata"].get("labels")
    if event.key.kind == NODE_GROUP.key_name:  # it decides which labels of nodes count
        return not event.keeps_spec
    if event.key.kind != "Pod":
        return event.key.kind in _OF_VOLUMES
    if event.type is EventType.DELETED or old is None:
        return event.type is EventType.DELETED
    if event.is_of_status or event.keeps_spec:
        has_other_labels = old["metadata"].get("labels") != new["metadata"].get("labels")
        return has_other_labels or (has_ended(new) and not has_ended(old))
    if is_gated(old) and not is_gated(new):
        return True
    return (has_ended(new) and not has_ended(old)) or _place_of(old) != _place_of(new)


def _place_of(pod: JsonObject) -> tuple[object, ...]:
    """Return the subject of other pods' rules, the node and the labels, and the tolerations, which may be added."""
    spec = pod.get("spec") or {}
    return spec.get("nodeName"), pod["metadata"].get("labels"), spec.get("tolerations")


def _matters(node: JsonObject) -> tuple[object, ...]:
    status, stay = node.get("status") or {}, pods_stay_for(node)
    return node["metadata"].get("labels"), node.get("spec"), status.get("allocatable"), is_ready(node), stay
