"""Affinity and anti-affinity between pods (kube-scheduler 1.32, `plugins/interpodaffinity`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

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
_HARD_WEIGHT: Final = 1
"""The weight of required affinity of existing pods (`hardPodAffinityWeight`)."""

Matcher = Callable[[PodDemand], bool]
Place = tuple[str, str]
"""A label of nodes: the topology."""


class Term(NamedTuple):
    """A rule about the pods in a topology."""

    topology_key: str
    matches: Matcher
    weight: int
    """0 for a required rule."""


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
        self._rooms = fleet.rooms.values()
        self._spaces = fleet.namespaces
        self._affinity = self._terms(pod, _AFFINITY, _REQUIRED)
        self._anti = self._terms(pod, _ANTI_AFFINITY, _REQUIRED)
        self._forbidden = set(self._forbidden_places())
        self._near = self._places_of(
            [lambda other: all(term.matches(other) for term in self._affinity)], self._affinity
        )
        self._far = set[Place]()
        for term in self._anti:
            self._far |= self._places_of([term.matches], [term])
        self._starts = bool(self._affinity) and not self._near and all(term.matches(pod) for term in self._affinity)

    def refusal(self, room: NodeRoom) -> str:
        """Return why a node does not fit; "" if it does."""
        if not self._forbidden and not self._affinity and not self._far:
            return ""
        for term in self._affinity:
            value = room.labels.get(term.topology_key)
            if value is None or ((term.topology_key, value) not in self._near and not self._starts):
                return NO_AFFINITY
        if any((term.topology_key, room.labels.get(term.topology_key)) in self._far for term in self._anti):
            return ANTI_AFFINITY
        if any(room.labels.get(key) == value for key, value in self._forbidden):
            return EXISTING_ANTI_AFFINITY
        return ""

    def points(self) -> Counter[Place]:
        """Return the weight of each topology by the preferences of the pod and of other pods."""
        found: Counter[Place] = Counter()
        own = [(term, 1) for term in self._terms(self._pod, _AFFINITY, _PREFERRED)]
        own += [(term, -1) for term in self._terms(self._pod, _ANTI_AFFINITY, _PREFERRED)]
        for room in self._rooms:
            if own:
                for other in room.demands:
                    self._add(found, room, ((term, sign * term.weight) for term, sign in own if term.matches(other)))
            for other in room.with_rules.values():
                self._add(found, room, self._of_other(other))
        return found

    def _of_other(self, other: PodDemand) -> Iterator[tuple[Term, int]]:
        """Yield the rules of another pod that concern this one, with their weights."""
        hard = ((term, _HARD_WEIGHT) for term in self._terms(other, _AFFINITY, _REQUIRED))
        near = ((term, term.weight) for term in self._terms(other, _AFFINITY, _PREFERRED))
        far = ((term, -term.weight) for term in self._terms(other, _ANTI_AFFINITY, _PREFERRED))
        for each in (hard, near, far):
            yield from ((term, worth) for term, worth in each if term.matches(self._pod))

    @staticmethod
    def _add(found: Counter[Place], room: NodeRoom, terms: Iterable[tuple[Term, int]]) -> None:
        for term, worth in terms:
            value = room.labels.get(term.topology_key)
            if value is not None:
                found[term.topology_key, value] += worth

    def _terms(self, pod: PodDemand, kind: str, when: str) -> list[Term]:
        return terms_of(pod, kind, when, self._spaces) if pod.affinity else []

    def _forbidden_places(self) -> Iterator[Place]:
        """Yield the topologies that pods there keep this one from."""
        for room in self._rooms:
            for other in room.with_rules.values():
                for term in self._terms(other, _ANTI_AFFINITY, _REQUIRED):
                    value = room.labels.get(term.topology_key)
                    if value is not None and term.matches(self._pod):
                        yield term.topology_key, value

    def _places_of(self, matchers: Sequence[Matcher], terms: Sequence[Term]) -> set[Place]:
        """Return the topologies of terms that have a matching pod."""
        if not terms:
            return set()
        rooms = [room for room in self._rooms if any(matches(pod) for pod in room.demands for matches in matchers)]
        return {
            (term.topology_key, value)
            for room in rooms
            for term in terms
            if (value := room.labels.get(term.topology_key)) is not None
        }
