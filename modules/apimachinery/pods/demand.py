"""The requests and limits of a whole pod (Kubernetes' PodRequests and PodLimits).

Init containers run one after the other, so the largest of them counts and not their sum; sidecars run beside every
later container.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Pod, Quantity, ResourceRequirements, parse_quantity

Amounts = dict[str, Fraction]
"""Exact amounts in base units (cores, bytes, pieces) by resource name."""


def pod_requests(pod: Pod, unnamed: Mapping[str, Quantity] = MappingProxyType({})) -> Amounts:
    """Return the pod's requests and the sandbox's overhead. A limit without a request counts as the request; a
    pod-level one only if no container requests that resource.

    Args:
        pod: the pod.
        unnamed: the requests that a container counts for where it names none.
    """
    requests = requests_without_overhead(pod, unnamed)
    return _add((requests, _parse(pod.spec.overhead))) if pod.spec.overhead else requests


def requests_without_overhead(pod: Pod, unnamed: Mapping[str, Quantity] = MappingProxyType({})) -> Amounts:
    """Return the pod's requests, as an API server completes them (defaultPodRequests)."""
    total = _sum_of_containers(pod, lambda resources: {**unnamed, **resources.limits, **resources.requests})
    whole = pod.spec.resources
    return total if whole is None else {**_parse(whole.limits), **total, **_parse(whole.requests)}


def pod_limits(pod: Pod) -> Amounts:
    """Return the pod's limits, and the overhead of limited resources.

    A resource that one container leaves unlimited has a sum too; `all_limited` tells whether every container limits it.
    """
    limits = pod_sum(pod, lambda resources: resources.limits)
    if not pod.spec.overhead:
        return limits
    overhead = _parse(pod.spec.overhead)
    return _add((limits, {name: amount for name, amount in overhead.items() if limits.get(name)}))


def all_limited(pod: Pod, resource: str) -> bool:
    """Return whether the whole pod, or every container of it, has a limit of that resource; 0 means no limit."""
    if pod.spec.resources is not None and _parse(pod.spec.resources.limits).get(resource):
        return True
    return all(_parse(c.resources.limits).get(resource) for c in (*pod.spec.init_containers, *pod.spec.containers))


def pod_sum(pod: Pod, pick: Callable[[ResourceRequirements], Mapping[str, Quantity]]) -> Amounts:
    """Return what a pod needs, by the amounts that `pick` returns for it as a whole, or for its containers at the same
    time.
    """
    total = _sum_of_containers(pod, pick)
    return total if pod.spec.resources is None else {**total, **_parse(pick(pod.spec.resources))}


def _sum_of_containers(pod: Pod, pick: Callable[[ResourceRequirements], Mapping[str, Quantity]]) -> Amounts:
    def of(container: Container) -> Amounts:
        return _parse(pick(container.resources))

    total = _add([of(container) for container in pod.spec.containers])
    return _largest_with_init(pod, total, of) if pod.spec.init_containers else total


def _largest_with_init(pod: Pod, total: Amounts, of: Callable[[Container], Amounts]) -> Amounts:
    """Return what a pod needs at the same time, at the most.

    Args:
        pod: with init containers.
        total: amounts of its other containers.
        of: returns the amounts of a container.
    """
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            sidecars = _add((sidecars, of(container)))
            at_once = sidecars
        else:
            at_once = _add((sidecars, of(container)))
        highest = _largest(highest, at_once)
    return _largest(_add((total, sidecars)), highest)


def _parse(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: parse_quantity(quantity) for name, quantity in quantities.items()} if quantities else {}


def _add(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _largest(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Fraction()), other.get(name, Fraction())) for name in one.keys() | other.keys()}
