"""The quality-of-service class of a pod, which decides whose process is killed first when memory runs out."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from modules.apimachinery.pods.demand import Amounts, requests_without_overhead
from modules.apimachinery.types import Pod, Quantity, ResourceRequirements, parse_quantity

_COUNTED = ("cpu", "memory")


class QosClass(StrEnum):
    """Kubernetes' three classes."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(pod: Pod) -> QosClass:
    """Return the class from the requests and limits of all containers, init containers included (ComputePodQOS).

    BestEffort: no container requests or limits CPU or memory. Guaranteed: every container limits both, and the sums of
    requests and limits are equal (a missing request counts as equal, as the API server fills it in). Burstable:
    everything else. Pod-level resources replace the containers' own.
    """
    whole = pod.spec.resources
    if whole is not None and (_positive(whole.requests) or _positive(whole.limits)):
        limits = _positive(whole.limits)
        requests = requests_without_overhead(pod)
        guaranteed = set(limits) == set(_COUNTED) and all(requests[name] == limits[name] for name in _COUNTED)
        return QosClass.GUARANTEED if guaranteed else QosClass.BURSTABLE
    return _class_of([c.resources for c in pod.spec.init_containers + pod.spec.containers])


def _class_of(resources: Sequence[ResourceRequirements]) -> QosClass:
    if not any(_positive(r.requests) or _positive(r.limits) for r in resources):
        return QosClass.BEST_EFFORT
    for resource in resources:
        limits = _positive(resource.limits)
        if set(limits) != set(_COUNTED) or {**limits, **_amounts(resource.requests)} != limits:
            return QosClass.BURSTABLE
    return QosClass.GUARANTEED


def _positive(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: value for name, value in _amounts(quantities).items() if value > 0} if quantities else {}


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    return {name: parse_quantity(quantities[name]) for name in _COUNTED if name in quantities}
