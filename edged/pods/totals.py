"""What a pod as a whole asks for and may use: the sums that cgroups, admission and ranking go by.

A pod's containers run beside each other, its init containers one after the other before them, and sidecars beside
everything that comes after them: so a pod needs the larger of what runs at its start and what runs later (Kubernetes'
resource helpers AggregateContainerRequests and AggregateContainerLimits).
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

from edged.api import Pod, Quantity, ResourceRequirements, parse_quantity
from edged.pods.restart import is_sidecar

Amounts = dict[str, Fraction]
"""Amounts in base units (cores, bytes, pieces), by the resource's name."""

_POD_LEVEL = ("cpu", "memory")
_HUGE_PAGES = "hugepages-"


def pod_requests(pod: Pod) -> Amounts:
    """What the pod is promised, with its overhead. A container's missing request is its limit, as an API server fills
    it in; what the pod itself asks for stands instead of its containers' sum (pod-level resources).
    """
    amounts = _aggregate(pod, lambda resources: {**resources.limits, **resources.requests})
    own = pod.spec.resources
    if own is not None:
        amounts |= _pod_level({**own.limits, **own.requests})
    return _sum(amounts, _amounts(pod.spec.overhead))


def pod_limits(pod: Pod) -> Amounts:
    """What the pod may use at most, with its overhead where there is a limit at all. It is the sum of those containers
    that have a limit: whether all have one is `all_limited`.
    """
    amounts = _aggregate(pod, lambda resources: resources.limits)
    if pod.spec.resources is not None:
        amounts |= _pod_level(pod.spec.resources.limits)
    overhead = _amounts(pod.spec.overhead)
    return _sum(amounts, {name: amount for name, amount in overhead.items() if amounts.get(name)})


def all_limited(pod: Pod, resource: str) -> bool:
    """Whether the pod's use of a resource is bounded: by itself, or in each of its containers."""
    own = pod.spec.resources
    if own is not None and parse_quantity(own.limits.get(resource, 0)) > 0:
        return True
    everyone = pod.spec.init_containers + pod.spec.containers
    return all(parse_quantity(container.resources.limits.get(resource, 0)) > 0 for container in everyone)


def _aggregate(pod: Pod, of: Callable[[ResourceRequirements], Mapping[str, Quantity]]) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        total = _sum(total, _amounts(of(container.resources)))
    sidecars: Amounts = {}
    at_start: Amounts = {}
    for container in pod.spec.init_containers:
        mine = _amounts(of(container.resources))
        beside = _sum(sidecars, mine)
        if is_sidecar(container):
            sidecars, total = beside, _sum(total, mine)
        at_start = _most(at_start, beside)
    return _most(total, at_start)


def _pod_level(quantities: Mapping[str, Quantity]) -> Amounts:
    return _amounts({n: q for n, q in quantities.items() if n in _POD_LEVEL or n.startswith(_HUGE_PAGES)})


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: parse_quantity(quantity) for name, quantity in quantities.items()}


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Fraction(0)) + other.get(name, Fraction(0)) for name in one | other}


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in one | other}
