"""The requests of a Pod's containers, and its QoS class."""

from collections.abc import Iterable
from fractions import Fraction

from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at
from modules.kubectl.describers.common import amount

Amounts = dict[str, Fraction]


def pod_amounts(pod: JsonObject, kind: str) -> Amounts:
    """Return the sum of the `requests` or `limits` of a Pod, by resource.

    Init containers run one after the other, beside the sidecars that were started before; so the most that is in use at
    a time counts.
    """
    running: Amounts = {}
    most: Amounts = {}
    for container in objects_at(pod, "spec.initContainers"):
        amounts = _of_container(container, kind)
        if container.get("restartPolicy") == "Always":
            running = _sum((running, amounts))
            most = _most(most, running)
        else:
            most = _most(most, _sum((running, amounts)))
    together = _sum((running, *(_of_container(each, kind) for each in objects_at(pod, "spec.containers"))))
    overhead = {name: amount(value) for name, value in map_at(pod, "spec.overhead").items()}
    return _sum((_most(most, together), overhead))


def qos_class(pod: JsonObject) -> str:
    """Return Guaranteed, Burstable or BestEffort."""
    containers = [*objects_at(pod, "spec.containers"), *objects_at(pod, "spec.initContainers")]
    sets = [(_compute(each, "requests"), _compute(each, "limits")) for each in containers]
    if not any(requests or limits for requests, limits in sets):
        return "BestEffort"
    exact = all(len(limits) == 2 and requests in ({}, limits) for requests, limits in sets)
    return "Guaranteed" if exact else "Burstable"


def _compute(container: JsonObject, kind: str) -> Amounts:
    return {
        name: value for name, value in _of_container(container, kind).items() if name in ("cpu", "memory") and value
    }


def _of_container(container: JsonObject, kind: str) -> Amounts:
    return {name: amount(value) for name, value in map_at(container, f"resources.{kind}").items()}


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, Fraction(0)) + value
    return total


def _most(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, Fraction(0)), right.get(name, Fraction(0))) for name in left | right}
