"""Topology spread constraints (kube-scheduler 1.32, `plugins/podtopologyspread`); a pod's own, no default ones."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.scheduling.pod_affinity import Matcher, remembered, selector_of
from modules.cloud.apiserver.scheduling.rooms import NodeRoom, NodeRooms, PodDemand

UNBALANCED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNBALANCED} (missing required label)"
_HARD: Final = "DoNotSchedule"
_HOSTNAME: Final = "kubernetes.io/hostname"
"""The topology in which each node is for itself, also if another has its label."""


class _Constraint(NamedTuple):
    key: str
    max_skew: int
    min_domains: int
    matches: Matcher
    counts_pods: bool
    """Whether pods of nodes count at all: where the selector is empty they do not, although it matches them."""
    is_hard: bool
    honors_affinity: bool
    honors_taints: bool


class _Counted(NamedTuple):
    constraint: _Constraint
    pods: Counter[str]
    """The matching pods by topology."""
    least: int
    is_matched_by_itself: bool


class SpreadRules:
    """Numbers of matching pods in each topology.

    Args:
        pod: the new pod.
        constraints: `spec.topologySpreadConstraints`.
        fleet: the nodes.
        fits: whether the pod's node selector and affinity match a node.
        is_tolerated: whether the pod tolerates a node's taints.
    """

    def __init__(
        self,
        pod: PodDemand,
        constraints: Sequence[JsonObject],
        fleet: NodeRooms,
        fits: Callable[[NodeRoom], bool],
        is_tolerated: Callable[[NodeRoom], bool],
    ) -> None:
        self._pod = pod
        found = [_read(each, pod) for each in constraints]
        self._rooms = fleet.rooms
        self._fits = fits
        self._is_tolerated = is_tolerated
        self._soft = [one for one in found if not one.is_hard]
        hard = [one for one in found if one.is_hard]
        eligible = _with_labels(self._rooms.values(), hard) if hard else []
        self._hard = [self._counted(one, self._by_topology(one, eligible)) for one in hard]
        self.has_limits = bool(hard)
        """Whether there are constraints that keep the pod from nodes."""

    def refusal(self, room: NodeRoom) -> str:
        """Return why a node does not fit; "" if it does. It may be a trial, with fewer pods than the fleet's."""
        known = self._rooms.get(room.name)
        for counted in self._hard:
            value = room.labels.get(counted.constraint.key)
            if value is None:
                return NO_LABEL
            one = counted if known is None or room is known else self._of_trial(counted, room, known, value)
            if one.pods[value] + one.is_matched_by_itself - one.least > one.constraint.max_skew:
                return UNBALANCED
        return ""

    def costs(self, rooms: Sequence[NodeRoom]) -> list[float | None]:
        """Return how unwelcome each of the nodes that fit is; None if it lacks a label. Only their topologies count."""
        labelled = _with_labels(rooms, self._soft)
        eligible = _with_labels(self._rooms.values(), self._soft)
        total = dict.fromkeys((room.name for room in labelled), 0.0)
        for one in self._soft:
            if one.key == _HOSTNAME:
                weight, pods = len(labelled), {room.name: self._matching(one, room) for room in labelled}
            else:
                places = {room.labels[one.key] for room in labelled}
                counted = self._by_topology(one, (room for room in eligible if room.labels[one.key] in places))
                weight, pods = len(places), {room.name: counted[room.labels[one.key]] for room in labelled}
            for name in total:
                total[name] += pods[name] * math.log(weight + 2) + one.max_skew - 1
        return [total.get(room.name) for room in rooms]

    @property
    def has_preferences(self) -> bool:
        """Whether there are constraints that only prefer."""
        return bool(self._soft)

    def _counted(self, constraint: _Constraint, pods: Counter[str]) -> _Counted:
        least = min(pods.values(), default=0) if len(pods) >= constraint.min_domains else 0
        return _Counted(constraint, pods, least, constraint.matches(self._pod))

    def _of_trial(self, one: _Counted, room: NodeRoom, known: NodeRoom, value: str) -> _Counted:
        if not self._counts(one.constraint, room):
            return one
        pods = one.pods.copy()
        pods[value] += self._matching(one.constraint, room) - self._matching(one.constraint, known)
        return self._counted(one.constraint, pods)

    def _by_topology(self, constraint: _Constraint, rooms: Iterable[NodeRoom]) -> Counter[str]:
        """Return the matching pods by topology, of those nodes that the constraint counts."""
        pods: Counter[str] = Counter()
        for room in rooms:
            if self._counts(constraint, room):
                pods[room.labels[constraint.key]] += self._matching(constraint, room)
        return pods

    def _counts(self, constraint: _Constraint, room: NodeRoom) -> bool:
        """Return whether the pods of a node count."""
        is_near = not constraint.honors_affinity or self._fits(room)
        return is_near and (not constraint.honors_taints or self._is_tolerated(room))

    def _matching(self, constraint: _Constraint, room: NodeRoom) -> int:
        return constraint.counts_pods and sum(
            other.namespace == self._pod.namespace and not other.is_ending and constraint.matches(other)
            for other in room.demands
        )


def _with_labels(rooms: Iterable[NodeRoom], constraints: Sequence[_Constraint]) -> list[NodeRoom]:
    return [room for room in rooms if all(one.key in room.labels for one in constraints)]


def _read(given: Mapping[str, object], pod: PodDemand) -> _Constraint:
    keys, domains = given.get("matchLabelKeys"), given.get("minDomains")
    added = {"In": keys if isinstance(keys, list) else ()}
    skew, selector = given.get("maxSkew"), given.get("labelSelector")
    return _Constraint(
        str(given.get("topologyKey")),
        skew if isinstance(skew, int) else 1,
        domains if isinstance(domains, int) else 1,
        remembered(selector_of(selector, added, pod.labels)),
        not _is_empty(selector) or any(key in pod.labels for key in added["In"]),
        given.get("whenUnsatisfiable") == _HARD,
        given.get("nodeAffinityPolicy") != "Ignore",
        given.get("nodeTaintsPolicy") == "Honor",
    )


def _is_empty(selector: object) -> bool:
    return isinstance(selector, dict) and not any(selector.values())
