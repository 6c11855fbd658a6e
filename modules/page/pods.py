"""The page of the pods: pods that do not run, by owner and reason, or the matches of a search."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from modules.insight.fleet.rows import FleetPodRow, NodeRow
from modules.insight.fleet.sentences import pods_sentence
from modules.insight.fleet.states import AWAY, NEVER

_MOST_PODS: Final = 200
_FEW: Final = 30
"""Pods that are all shown, without a search."""


class PodGroup(msgspec.Struct, frozen=True):
    """Pods of a workload, or of none, that do not run for the same reason."""

    owner: str
    """Empty for pods without a workload."""
    status: str
    pods: Sequence[FleetPodRow]


class Pods(msgspec.Struct, frozen=True):
    """The answer of `GET /page/v1/pods`."""

    sentence: str
    groups: Sequence[PodGroup]
    """Pods that do not run, unless something is searched."""
    found: Sequence[FleetPodRow]
    """Pods that a search has found; without one, all others of a few."""
    more: int
    """Pods that were found beyond these."""
    unheard: Sequence[str] = ()
    """The nodes of these pods that are away: their pods are as they reported last."""


def pods_answer(rows: Iterable[FleetPodRow], nodes: Sequence[NodeRow], query: str) -> Pods:
    """Return the pods with some words; without words the pods that do not run, and of a few the others, too."""
    pods = sorted(rows, key=lambda each: each.key)
    sentence = pods_sentence(pods, nodes)
    away = {each.name for each in nodes if each.state in (AWAY, NEVER)}
    words = query.lower().split()
    if words:
        found = [each for each in pods if all(word in _searched(each) for word in words)]
        matches = found[:_MOST_PODS]
        return Pods(sentence, [], matches, len(found) - len(matches), sorted({each.node for each in matches} & away))
    groups: defaultdict[tuple[str, str], list[FleetPodRow]] = defaultdict(list)
    for pod in pods:
        if pod.is_troubled:
            groups[pod.owner, pod.status].append(pod)
    most = sorted(groups.items(), key=lambda each: -len(each[1]))[:_MOST_PODS]
    shown = [PodGroup(owner, status, each[:_MOST_PODS]) for (owner, status), each in most]
    more = sum(len(each) for each in groups.values()) - sum(len(each.pods) for each in shown)
    others = [each for each in pods if not each.is_troubled] if len(pods) <= _FEW else []
    unheard = {each.node for pods in (others, *(group.pods for group in shown)) for each in pods} & away
    return Pods(sentence, shown, others, more, sorted(unheard))


def pods_of_node(rows: Iterable[FleetPodRow], node: str) -> list[FleetPodRow]:
    """Return the pods that are bound to a node; pods that do not run come first."""
    return sorted((each for each in rows if each.node == node), key=lambda each: (not each.is_troubled, each.key))


def _searched(pod: FleetPodRow) -> str:
    return f"{pod.key} {pod.node} {pod.status} {pod.owner} {pod.image}".lower()
