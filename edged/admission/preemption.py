"""Chooses the pods that make room for a critical pod (kubelet's preemption): pure functions."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from edged.pods.critical import is_critical
from edged.pods.kill_options import KillOptions
from modules.apimachinery.pods.demand import Amounts, pod_requests
from modules.apimachinery.pods.general_predicates import PODS
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types import Pod

PREEMPTED: Final = KillOptions("Preempting", "Preempted in order to admit critical pod", disruption=True)


def pods_to_preempt(pod: Pod, missing: Amounts, others: Iterable[Pod]) -> list[Pod]:
    """Return pods whose end makes room for a critical one: guaranteed ones only if all others are not enough, then
    burstable ones, and few large ones rather than many. No pod, if no set is enough (kubelet's getPodsToPreempt).

    Args:
        pod: the critical pod.
        missing: what the node has too little of, in base units.
        others: the pods that take the room.
    """
    of_class: dict[QosClass, list[Pod]] = {each: [] for each in QosClass}
    for other in others:
        if _may_preempt(pod, other):
            of_class[qos_class(other)].append(other)
    best_effort, burstable, guaranteed = (
        of_class[each] for each in (QosClass.BEST_EFFORT, QosClass.BURSTABLE, QosClass.GUARANTEED)
    )
    if _without(missing, [*best_effort, *burstable, *guaranteed]):
        return []
    guaranteed = _nearest(guaranteed, _without(missing, [*best_effort, *burstable]))
    burstable = _nearest(burstable, _without(missing, [*best_effort, *guaranteed]))
    return [*_nearest(best_effort, _without(missing, [*burstable, *guaranteed])), *burstable, *guaranteed]


def _may_preempt(pod: Pod, other: Pod) -> bool:
    """Return whether a pod makes room for a critical one (kubelet's Preemptable). A critical one, such as a static pod,
    does so only for a higher priority than it states itself.
    """
    wanted, stated = pod.spec.priority, other.spec.priority
    return not is_critical(other) or (wanted is not None and stated is not None and wanted > stated)


def _nearest(pods: list[Pod], missing: Amounts) -> list[Pod]:
    """Return pods that have all that is missing; each time the one that leaves the least, the smaller one of equals."""
    left, chosen = list(pods), []
    while missing:
        best = min(left, key=lambda pod: (_distance(pod, missing), *map(_requests(pod).get, ("memory", "cpu"), (0, 0))))
        left.remove(best)
        chosen.append(best)
        missing = _without(missing, [best])
    return chosen


def _distance(pod: Pod, missing: Amounts) -> Fraction:
    has, none = _requests(pod), Fraction(0)
    return sum((max(none, 1 - has.get(name, none) / amount) ** 2 for name, amount in missing.items()), none)


def _without(missing: Amounts, pods: Iterable[Pod]) -> Amounts:
    """Return what is still missing when pods have ended."""
    left = dict(missing)
    for pod in pods:
        has = _requests(pod)
        left = {name: amount - has.get(name, 0) for name, amount in left.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _requests(pod: Pod) -> Amounts:
    return {**pod_requests(pod), PODS: Fraction(1)}
