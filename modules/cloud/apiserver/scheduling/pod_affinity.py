"""Affinity and anti-affinity between pods (kube-scheduler 1.32, `plugins/interpodaffinity`)."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.apiserver.scheduling.rooms import NodeRoom, NodeRooms, PodDemand

EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
NO_AFFINITY: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_AFFINITY: Final = "podAffinity"
_ANTI_AFFINITY: Final = "podAntiAffinity"
_NO_CHANGE: Final = Counter[tuple[str, str, str]]()
_HARD_WEIGHT: Final = 1
"""The weight of required affinity of existing pods (`hardPodAffinityWeight`)."""

Matcher = Callable[[PodDemand], bool]
Place = tuple[str, str]
"""A label of nodes: the topology."""
Hit = tuple[str, str, str]
"""The reason that a pod of a topology matters for, with the topology."""


_Found = TypeVar("_Found")


class Term(NamedTuple):
    """A rule about the pods in a topology."""

    topology_key: str
    matches: Matcher
    weight: int
    """0 for a required rule."""


def remembered(find: Callable[[PodDemand], _Found]) -> Callable[[PodDemand], _Found]:
    """Return a function that asks another one about the first of pods that are alike only."""
    known: dict[str, _Found] = {}

    def found_for(pod: PodDemand) -> _Found:
        if pod.alike not in known:
            known[pod.alike] = find(pod)
        return known[pod.alike]

    return found_for


def selector_of(selector: object, keys: Mapping[str, Sequence[object]], owner: Mapping[str, str]) -> Matcher:
    """Return the function that tells whether a selector matches a pod's labels: none matches nothing, an empty one all.

    Args:
        selector: the LabelSelector.
        keys: labels that must (`In`) or must not (`NotIn`) have the owner's values.
        owner: the labels of the pod with the rule.
    """
    if not isinstance(selector, dict):
        return lambda _: False
    added = [
        {"key": key, "operator": operator, "values": [owner[str(key)]]}
        for operator, names in keys.items()
        for key in names
        if key in owner
    ]
    whole = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}
    if not whole["matchExpressions"] and not whole.get("matchLabels"):
        return lambda _: True
    matches = matcher_of(whole)
    return lambda pod: matches(pod.labels)


def terms_of(pod: PodDemand, kind: str, when: str, namespaces: Mapping[str, Mapping[str, str]]) -> list[Term]:
    """Return the terms of a pod's rules of a kind."""
    given = (pod.affinity.get(kind) or {}).get(when) or ()
    found = []
    for each in given:
        weight = int(each.get("weight") or 0)
        term: JsonObject = (each.get("podAffinityTerm") or {}) if when == _PREFERRED else each
        keys = {"In": term.get("matchLabelKeys") or (), "NotIn": term.get("mismatchLabelKeys") or ()}
        labels = selector_of(term.get("labelSelector"), keys, pod.labels)
        found.append(Term(str(term.get("topologyKey")), _in_namespaces(term, pod, labels, namespaces), weight))
    return found


def _in_namespaces(
    term: JsonObject, pod: PodDemand, labels: Matcher, namespaces: Mapping[str, Mapping[str, str]]
) -> Matcher:
    names, selector = set(term.get("namespaces") or ()), term.get("namespaceSelector")
    if selector == {}:
        return labels
    if isinstance(selector, dict):
        matches = matcher_of(selector)
        names |= {name for name, given in namespaces.items() if matches(given)}
    elif not names:
        names = {pod.namespace}
    return lambda other: other.namespace in names and labels(other)


class PodRules:
    """The rules of a new pod, and the rules of present pods that concern it."""

    def __init__(self, pod: PodDemand, fleet: NodeRooms) -> None:
        self._pod = pod
        self._rooms = fleet.rooms
        self._spaces = fleet.namespaces
        self._affinity = self._terms(pod, _AFFINITY, _REQUIRED)
        self._anti = self._terms(pod, _ANTI_AFFINITY, _REQUIRED)
        self._is_first_of_its_kind = all(term.matches(pod) for term in self._affinity)
        self._concerns = remembered(lambda other: [*self._concern(other)])
        of_own = bool(self._affinity or self._anti)
        rooms = [room for room in self._rooms.values() if of_own or room.with_rules]
        self._found = Counter(hit for room in rooms for hit in self._hits(room))
        self._near = _near(self._found)
        self._broken = {(why, key) for why, key, _ in self._found if why != NO_AFFINITY}
        """By which labels of nodes rules are broken, with the reason."""
        self.are_any = bool(self._found or self._affinity)
        """Whether a rule may keep the pod from a node."""

    def refusal(self, room: NodeRoom) -> str:
        """Return why a node does not fit; "" if it does. It may be a trial, with fewer pods than the fleet's."""
        if not self.are_any:
            return ""
        known, change = self._rooms.get(room.name), _NO_CHANGE
        if known is not None and room is not known:
            change = Counter(self._hits(room))
            change.subtract(self._hits(known))
        for term in self._affinity:
            value = room.labels.get(term.topology_key)
            hit = NO_AFFINITY, term.topology_key, value or ""
            if value is None or not (self._found[hit] + change[hit] or self._is_first(change)):
                return NO_AFFINITY
        hits = [(why, key, room.labels[key]) for why, key in self._broken if key in room.labels]
        found = {hit[0] for hit in hits if self._found[hit] + change[hit]}
        return next((why for why in (ANTI_AFFINITY, EXISTING_ANTI_AFFINITY) if why in found), "")

    def points(self) -> Counter[Place]:
        """Return the weight of each topology by the preferences of the pod and of other pods."""
        found: Counter[Place] = Counter()
        own = [(term, term.weight) for term in self._terms(self._pod, _AFFINITY, _PREFERRED)]
        own += [(term, -term.weight) for term in self._terms(self._pod, _ANTI_AFFINITY, _PREFERRED)]
        preferred = remembered(lambda pod: [*(one for one in own if one[0].matches(pod)), *self._of_other(pod)])
        for room in self._rooms.values():
            for other in room.demands if own else room.with_rules.values():
                for term, worth in preferred(other):
                    value = room.labels.get(term.topology_key)
                    if value is not None:
                        found[term.topology_key, value] += worth
        return found

    def _of_other(self, other: PodDemand) -> Iterator[tuple[Term, int]]:
        """Yield the rules of another pod that concern this one, with their weights."""
        hard = ((term, _HARD_WEIGHT) for term in self._terms(other, _AFFINITY, _REQUIRED))
        near = ((term, term.weight) for term in self._terms(other, _AFFINITY, _PREFERRED))
        far = ((term, -term.weight) for term in self._terms(other, _ANTI_AFFINITY, _PREFERRED))
        for each in (hard, near, far):
            yield from ((term, worth) for term, worth in each if term.matches(self._pod))

    def _terms(self, pod: PodDemand, kind: str, when: str) -> list[Term]:
        return terms_of(pod, kind, when, self._spaces) if pod.affinity else []

    def _is_first(self, change: Counter[Hit]) -> bool:
        """Return whether the pod may be the first of those that its affinity wants: after a change there are none."""
        return self._is_first_of_its_kind and not self._near + _near(change)

    def _hits(self, room: NodeRoom) -> Iterator[Hit]:
        """Yield what the pods of a node mean for its topologies: that affinity is met there, or that a rule of the pod,
        or one of theirs, is broken.
        """
        for other in room.demands if self._affinity or self._anti else room.with_rules.values():
            for why, term in self._concerns(other):
                value = room.labels.get(term.topology_key)
                if value is not None:
                    yield why, term.topology_key, value

    def _concern(self, other: PodDemand) -> Iterator[tuple[str, Term]]:
        if self._affinity and all(term.matches(other) for term in self._affinity):
            yield from ((NO_AFFINITY, term) for term in self._affinity)
        yield from ((ANTI_AFFINITY, term) for term in self._anti if term.matches(other))
        theirs = self._terms(other, _ANTI_AFFINITY, _REQUIRED)
        yield from ((EXISTING_ANTI_AFFINITY, term) for term in theirs if term.matches(self._pod))


def _near(hits: Counter[Hit]) -> int:
    """Return the number of the hits that affinity wants."""
    return sum(count for (why, _, _), count in hits.items() if why == NO_AFFINITY)
