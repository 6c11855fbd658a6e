"""Topology spread constraints (kube-scheduler 1.32, `plugins/podtopologyspread`); a pod's own, no default ones."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.scheduling.pod_affinity import Matcher, selector_of
from modules.cloud.apiserver.scheduling.rooms import NodeRoom, NodeRooms, PodDemand

UNBALANCED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{UNBALANCED} (missing required label)"
_HARD: Final = "DoNotSchedule"


class _Constraint(NamedTuple):
    key: str
    max_skew: int
    min_domains: int
    matches: Matcher
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
        rooms = list(fleet.rooms.values())
        self._hard, self._soft = list[_Counted](), list[_Counted]()
        for group, is_hard in ((self._hard, True), (self._soft, False)):
            mine = [one for one in found if one.is_hard == is_hard]
            if not mine:
                continue
            eligible = [room for room in rooms if all(one.key in room.labels for one in mine)]
            for one in mine:
                counted = [
                    room
                    for room in eligible
                    if (not one.honors_affinity or fits(room)) and (not one.honors_taints or is_tolerated(room))
                ]
                group.append(self._count(one, counted))

    def refusal(self, room: NodeRoom) -> str:
        """Return why a node does not fit; "" if it does."""
        for one in self._hard:
            value = room.labels.get(one.constraint.key)
            if value is None:
                return NO_LABEL
            if one.pods[value] + one.is_matched_by_itself - one.least > one.constraint.max_skew:
                return UNBALANCED
        return ""

    def cost(self, room: NodeRoom) -> float | None:
        """Return how unwelcome a node is; None if it lacks a label."""
        total = 0.0
        for one in self._soft:
            value = room.labels.get(one.constraint.key)
            if value is None:
                return None
            total += one.pods[value] * math.log(len(one.pods) + 2) + one.constraint.max_skew - 1
        return total

    @property
    def has_preferences(self) -> bool:
        """Whether there are constraints that only prefer."""
        return bool(self._soft)

    def _count(self, constraint: _Constraint, rooms: Sequence[NodeRoom]) -> _Counted:
        pods: Counter[str] = Counter()
        for room in rooms:
            pods[room.labels[constraint.key]] += sum(
                other.namespace == self._pod.namespace and not other.is_ending and constraint.matches(other)
                for other in room.demands
            )
        least = min(pods.values(), default=0) if len(pods) >= constraint.min_domains else 0
        return _Counted(constraint, pods, least, constraint.matches(self._pod))


def _read(given: Mapping[str, object], pod: PodDemand) -> _Constraint:
    keys, domains = given.get("matchLabelKeys"), given.get("minDomains")
    skew = given.get("maxSkew")
    return _Constraint(
        str(given.get("topologyKey")),
        skew if isinstance(skew, int) else 1,
        domains if isinstance(domains, int) else 1,
        selector_of(given.get("labelSelector"), {"In": keys if isinstance(keys, list) else ()}, pod.labels),
        given.get("whenUnsatisfiable") == _HARD,
        given.get("nodeAffinityPolicy") != "Ignore",
        given.get("nodeTaintsPolicy") == "Honor",
    )
