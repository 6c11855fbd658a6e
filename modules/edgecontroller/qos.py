"""The quality-of-service class of a pod, as Kubernetes' ComputePodQOS derives it from cpu and memory."""

from collections.abc import Iterator

from modules.edgecontroller.kinds import JsonObject
from modules.edgecontroller.quantities import quantity

_COUNTED = ("cpu", "memory")


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, from a pod spec whose requests have been defaulted.

    Raises:
        ValueError: a resource is not a quantity.
    """
    all_resources = list(_resources(spec))
    if not any(_counted(r, "requests") or _counted(r, "limits") for r in all_resources):
        return "BestEffort"
    if all(_is_guaranteed(resources) for resources in all_resources):
        return "Guaranteed"
    return "Burstable"


def _resources(spec: JsonObject) -> Iterator[JsonObject]:
    for container in [*spec.get("containers", []), *spec.get("initContainers", [])]:
        yield container.get("resources") or {}


def _counted(resources: JsonObject, which: str) -> JsonObject:
    values = resources.get(which) or {}
    return {name: quantity(values[name]) for name in _COUNTED if name in values and quantity(values[name]) > 0}


def _is_guaranteed(resources: JsonObject) -> bool:
    limits = _counted(resources, "limits")
    return len(limits) == len(_COUNTED) and _counted(resources, "requests") == limits
