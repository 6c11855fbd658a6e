"""Which pods of a lower priority make room for a pod (kube-scheduler 1.32, `plugins/defaultpreemption`).

On one node, as few and as unimportant ones as possible, and those whose budgets allow it before others. Two things are
otherwise: a node that does not answer ends no pod, so that none of its pods is chosen, nor is a static pod, which its
node would only start again.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of
from modules.apimachinery.pods.objects import is_mirror
from modules.apimachinery.times import parse_rfc3339
from modules.cloud.apiserver.disruption_budgets import covers
from modules.cloud.apiserver.pod_scheduled import nominated_node
from modules.cloud.apiserver.scheduling.rooms import NodeRoom
from modules.cloud.storage.unbound_pods import priority_of

_NEVER: Final = "Never"
_ENOUGH: Final = 100
"""Ways after which no further node is tried (kube-scheduler's `minCandidateNodesAbsolute`)."""
_MOST_TRIALS: Final = 500
"""Trials of pods that may stay, some 0.1 ms each, after which no further node is tried, if there is a way."""


class Preemption(NamedTuple):
    """The pods that are to go from a node."""

    node: str
    victims: tuple[JsonObject, ...]
    """The most important one first."""
    broken: int
    """How many of them their budgets do not allow to go."""


def preemptions(
    pod: JsonObject, rooms: Sequence[NodeRoom], fits: Callable[[NodeRoom], bool], budgets: Sequence[JsonObject]
) -> list[Preemption]:
    """Return how nodes can make room for a pod that fits nowhere, the best way first; that without victims, if the
    victims of a former choice are still ending.

    Args:
        pod: the pod.
        rooms: the nodes that the pod could go to, if they had room.
        fits: whether the pod fits a node, which may have fewer pods than it has.
        budgets: the PodDisruptionBudgets of all namespaces.
    """
    priority, spec = priority_of(pod), pod.get("spec") or {}
    if spec.get("preemptionPolicy") == _NEVER:
        return []
    if _waits_for_victims(pod, rooms, priority):
        return [Preemption(nominated_node(pod), (), 0)]
    found, trials = list[Preemption](), 0
    for room in rooms:
        if room.lowest_priority < priority and is_ready(room.obj):
            lower = [other for other in room.pods if priority_of(other) < priority and not is_mirror(other)]
            trial = room.without(map(key_of, lower))
            if fits(trial):
                trials += len(lower)
                found.append(_on_node(trial, lower, fits, budgets))
        if len(found) == _ENOUGH or trials >= _MOST_TRIALS:
            break
    return sorted((one for one in found if one.victims), key=_badness)


def _waits_for_victims(pod: JsonObject, rooms: Sequence[NodeRoom], priority: int) -> bool:
    chosen = [room for room in rooms if room.name == nominated_node(pod) and is_ready(room.obj)]
    return any(is_being_deleted(other) and priority_of(other) < priority for room in chosen for other in room.pods)


def _on_node(
    trial: NodeRoom, lower: Sequence[JsonObject], fits: Callable[[NodeRoom], bool], budgets: Sequence[JsonObject]
) -> Preemption:
    """Return which pods go from a node, given the node without its lower pods; pods that need not go are put back
    into `trial`.
    """
    lower = sorted(lower, key=_importance)
    protected = _protected(lower, budgets)
    victims = list[JsonObject]()
    for pod in sorted(lower, key=lambda one: key_of(one) not in protected):
        trial.add(pod)
        if not fits(trial):
            trial.drop(key_of(pod))
            victims.append(pod)
    broken = sum(key_of(pod) in protected for pod in victims)
    return Preemption(trial.name, tuple(sorted(victims, key=_importance)), broken)


def _protected(pods: Sequence[JsonObject], budgets: Sequence[JsonObject]) -> set[ObjectKey]:
    """Return the keys of the pods that budgets do not allow to go when all of them go, the most important one first."""
    found = set[ObjectKey]()
    for budget in budgets:
        status = budget.get("status") or {}
        left, gone = int(status.get("disruptionsAllowed") or 0), status.get("disruptedPods") or {}
        for pod in pods:
            key = key_of(pod)
            if key.namespace == budget["metadata"]["namespace"] and key.name not in gone and covers(budget, pod):
                left -= 1
                if left < 0:
                    found.add(key)
    return found


def _importance(pod: JsonObject) -> tuple[int, float, ObjectKey]:
    """Return the place of a pod: a higher priority comes first, then an earlier start."""
    return -priority_of(pod), _start_of(pod), key_of(pod)


def _start_of(pod: JsonObject) -> float:
    started = parse_rfc3339(str((pod.get("status") or {}).get("startTime") or ""))
    return math.inf if started is None else started


def _badness(one: Preemption) -> tuple[float, ...]:
    """Return kube-scheduler's criteria; between equal ones, the first node is taken."""
    priorities = [priority_of(pod) for pod in one.victims]
    first = min(_start_of(pod) for pod in one.victims if priority_of(pod) == priorities[0])
    return one.broken, priorities[0], sum(each + 2**31 for each in priorities), len(priorities), -first
