"""Which of the nodes that fit a pod is the best one: kube-scheduler's scores, from 0 to 100, and their weights."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.node_selector import selector_matches
from modules.apimachinery.pods.tolerations import tolerates
from modules.apimachinery.types import Pod
from modules.apimachinery.types.scheduling import NodeSelector
from modules.cloud.apiserver.scheduling.pod_affinity import PodRules
from modules.cloud.apiserver.scheduling.rooms import CPU, MEMORY, PODS, NodeRoom, NodeRooms, NodeVerdict, PodDemand
from modules.cloud.apiserver.scheduling.topology_spread import SpreadRules

_MOST: Final = 100
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_MEGABYTE: Final = 1024 * 1024
_SMALLEST_IMAGE: Final = 23 * _MEGABYTE
_LARGEST_IMAGE: Final = 1000 * _MEGABYTE
"""Sizes of images, for each container (init containers, too), between which the score of image locality grows."""
_TAINTS: Final = 3
_AFFINITY: Final = 2
_SPREAD: Final = 2
_POD_AFFINITY: Final = 2
"""Weights; others are 1."""


class Scorer:
    """The scores of nodes that fit a pod.

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
        self._fleet = fleet
        self._rules = rules
        self._spread = spread
        spec = obj.get("spec") or {}
        terms = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_PREFERRED) or ()
        self._preferred = [
            (int(term.get("weight") or 0), convert({"nodeSelectorTerms": [term.get("preference") or {}]},
                                                   NodeSelector, "NodeSelector"))
            for term in terms
        ]  # fmt: skip
        self._images = [_with_tag(each.image) for each in (*pod.spec.init_containers, *pod.spec.containers)]

    def verdict(self, room: NodeRoom) -> NodeVerdict:
        """Return a node's scores for the pod, which fits."""
        taints = room.node.spec.taints if room.node is not None else ()
        tolerations = self._pod.spec.tolerations
        images = tuple(room.images.get(image, 0) for image in self._images)
        return NodeVerdict(
            is_ready(room.obj),
            int(room.used[PODS]),
            least_allocated(room, self._demand) + balanced(room, self._demand),
            sum(one.effect == "PreferNoSchedule" and not tolerates(one, tolerations) for one in taints),
            sum(weight for weight, term in self._preferred if selector_matches(term, room.name, room.labels)),
            images if any(images) else None,
        )

    def scores(self, rooms: Sequence[NodeRoom], verdicts: Sequence[NodeVerdict]) -> list[int]:
        """Return the weighted sum of the scores of each node."""
        found = [verdict.own_score for verdict in verdicts]
        parts = (
            (_TAINTS, _normalized([verdict.soft_taints for verdict in verdicts], is_reversed=True)),
            (_AFFINITY, _normalized([verdict.affinity for verdict in verdicts])),
            (_SPREAD, self._spreads(rooms)),
            (_POD_AFFINITY, self._pod_affinities(rooms)),
            (1, self._localities(verdicts)),
        )
        for weight, part in parts:
            if part:
                found = [one + weight * score for one, score in zip(found, part, strict=True)]
        return found

    def _spreads(self, rooms: Sequence[NodeRoom]) -> list[int]:
        if not self._spread.has_preferences:
            return []
        costs = self._spread.costs(rooms)
        known = [round(cost) for cost in costs if cost is not None]
        least, most = min(known, default=0), max(known, default=0)
        return [
            0 if cost is None else _MOST if most == 0 else _MOST * (most + least - round(cost)) // most
            for cost in costs
        ]

    def _pod_affinities(self, rooms: Sequence[NodeRoom]) -> list[int]:
        points = self._rules.points()
        if not points:
            return []
        worth = [sum(points.get(label, 0) for label in room.labels.items()) for room in rooms]
        least, most = min(worth), max(worth)
        return [_MOST * (one - least) // (most - least) if most > least else 0 for one in worth]

    def _localities(self, verdicts: Sequence[NodeVerdict]) -> list[int]:
        """Return the scores of image locality; a node counts for less where fewer nodes have the image."""
        if all(verdict.images is None for verdict in verdicts):
            return []
        rooms = self._fleet.rooms.values()
        counts = [sum(image in room.images for room in rooms) for image in self._images]
        most = _LARGEST_IMAGE * max(1, len(counts))
        found = []
        for verdict in verdicts:
            total = sum(size * count // len(rooms) for size, count in zip(verdict.images or (), counts, strict=False))
            bounded = min(max(total, _SMALLEST_IMAGE), most)
            found.append(_MOST * (bounded - _SMALLEST_IMAGE) // (most - _SMALLEST_IMAGE))
        return found


def least_allocated(room: NodeRoom, demand: PodDemand) -> int:
    """Return a higher score for a node whose pods request less (LeastAllocated)."""
    found = []
    for name in (CPU, MEMORY):
        there = room.allocatable.get(name, Fraction())
        if there > 0:
            wanted = room.counted[name] + demand.counted.get(name, Fraction())
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
    """Return shares of the largest one; nothing if all are equal, as then no node is better."""
    most = max(found)
    if most == 0:
        return []
    shares = [_MOST * one // most for one in found]
    return [_MOST - share for share in shares] if is_reversed else shares


def _with_tag(image: str) -> str:
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"
