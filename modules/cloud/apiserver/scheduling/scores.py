"""Which of the nodes that fit a pod is the best one: kube-scheduler's scores, from 0 to 100, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from edged.admission.tolerations import tolerates
from edged.api import Pod
from edged.api.scheduling import NodeSelector
from edged.pods.node_selector import selector_matches
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.scheduling.pod_affinity import PodRules
from modules.cloud.apiserver.scheduling.rooms import CPU, MEMORY, NodeRoom, NodeRooms, PodDemand
from modules.cloud.apiserver.scheduling.topology_spread import SpreadRules

_MOST: Final = 100
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MEGABYTE: Final = 1024 * 1024
_SMALLEST_IMAGE: Final = 23 * _MEGABYTE
_LARGEST_IMAGE: Final = 1000 * _MEGABYTE
"""Sizes of images, for each container, between which the score of image locality grows."""
_WEIGHTS: Final = {"taints": 3, "node affinity": 2, "spread": 2, "pod affinity": 2, "fit": 1, "balance": 1, "images": 1}


class Scorer:
    """Scores nodes that fit a pod.

    Args:
        obj: the pod as JSON.
        pod: the same.
        demand: what it takes.
        fleet: all nodes.
        rules: about other pods.
        spread: its topology spread constraints.
    """

    def __init__(
        self, obj: JsonObject, pod: Pod, demand: PodDemand, fleet: NodeRooms, rules: PodRules, spread: SpreadRules
    ) -> None:
        self._pod = pod
        self._demand = demand
        self._rules = rules
        self._spread = spread
        spec = obj.get("spec") or {}
        terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_PREFERRED) or ()
        self._preferred = [
            (int(term.get("weight") or 0), convert({"nodeSelectorTerms": [term.get("preference") or {}]},
                                                   NodeSelector, "NodeSelector"))
            for term in terms
        ]  # fmt: skip
        self._images = [_with_tag(container.image) for container in pod.spec.containers]
        having = {image: sum(image in room.images for room in fleet.rooms.values()) for image in set(self._images)}
        self._shares = {image: Fraction(count, max(1, len(fleet.rooms))) for image, count in having.items()}

    def scores(self, rooms: Sequence[NodeRoom]) -> list[int]:
        """Return the weighted sum of the scores of each node."""
        parts = {
            "taints": _normalized([self._hard_taints(room) for room in rooms], is_reversed=True),
            "node affinity": _normalized([self._node_affinity(room) for room in rooms]),
            "spread": self._spreads(rooms),
            "pod affinity": self._pod_affinities(rooms),
            "fit": [least_allocated(room, self._demand) for room in rooms],
            "balance": [balanced(room, self._demand) for room in rooms],
            "images": [self._locality(room) for room in rooms],
        }
        return [sum(_WEIGHTS[name] * part[place] for name, part in parts.items()) for place in range(len(rooms))]

    def _hard_taints(self, room: NodeRoom) -> int:
        taints = room.node.spec.taints if room.node is not None else ()
        return sum(
            one.effect == "PreferNoSchedule" and not tolerates(one, self._pod.spec.tolerations) for one in taints
        )

    def _node_affinity(self, room: NodeRoom) -> int:
        return sum(weight for weight, term in self._preferred if selector_matches(term, room.name, room.labels))

    def _spreads(self, rooms: Sequence[NodeRoom]) -> list[int]:
        if not self._spread.has_preferences:
            return [0] * len(rooms)
        costs = [self._spread.cost(room) for room in rooms]
        known = [round(cost) for cost in costs if cost is not None]
        least, most = min(known, default=0), max(known, default=0)
        return [
            0 if cost is None else _MOST if most == 0 else _MOST * (most + least - round(cost)) // most
            for cost in costs
        ]

    def _pod_affinities(self, rooms: Sequence[NodeRoom]) -> list[int]:
        points = self._rules.points()
        if not points:
            return [0] * len(rooms)
        worth = [sum(points.get(label, 0) for label in room.labels.items()) for room in rooms]
        least, most = min(worth), max(worth)
        return [_MOST * (one - least) // (most - least) if most > least else 0 for one in worth]

    def _locality(self, room: NodeRoom) -> int:
        total = sum(int(room.images.get(image, 0) * self._shares[image]) for image in self._images)
        most = _LARGEST_IMAGE * max(1, len(self._images))
        bounded = min(max(total, _SMALLEST_IMAGE), most)
        return _MOST * (bounded - _SMALLEST_IMAGE) // (most - _SMALLEST_IMAGE)


def least_allocated(room: NodeRoom, demand: PodDemand) -> int:
    """Return a higher score for a node whose pods request less (LeastAllocated)."""
    found = []
    for name in (CPU, MEMORY):
        there = room.allocatable.get(name, Fraction())
        if there > 0:
            wanted = room.counted[name] + demand.counted(name)
            found.append(0 if wanted > there else int((there - wanted) * _MOST / there))
    return sum(found) // len(found) if found else 0


def balanced(room: NodeRoom, demand: PodDemand) -> int:
    """Return a higher score for a node whose pods request processor and memory evenly (BalancedAllocation)."""
    shares = [
        min(Fraction(1), (room.used.get(name, Fraction()) + demand.requests.get(name, Fraction())) / there)
        for name in (CPU, MEMORY)
        if (there := room.allocatable.get(name, Fraction())) > 0
    ]
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else Fraction()
    return int((1 - deviation) * _MOST)


def _normalized(found: Sequence[int], *, is_reversed: bool = False) -> list[int]:
    most = max(found, default=0)
    shares = [_MOST * one // most if most else 0 for one in found]
    return [_MOST - share for share in shares] if is_reversed else shares


def _with_tag(image: str) -> str:
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"
