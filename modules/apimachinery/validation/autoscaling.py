"""The rules of HorizontalPodAutoscalers (Kubernetes 1.32, `autoscaling/validation`)."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.validation.causes import Causes, forbidden, invalid, required, unsupported
from modules.apimachinery.validation.metadata import path_segment
from modules.apimachinery.validation.names import faults_of_label
from modules.apimachinery.validation.resources import amount_of, container_resource
from modules.apimachinery.validation.rules import (
    Each,
    Fields,
    Row,
    Rule,
    at_least,
    both,
    named,
    needed,
    non_negative,
    one_of,
    or_zero,
    pointer,
)

_MEMBERS: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""By type of a metric, the member that describes it; in the order in which Kubernetes looks at them."""
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_UTILIZATION, _AVERAGE, _VALUE = "averageUtilization", "averageValue", "value"
_LONGEST_PERIOD: Final = 1800
_LONGEST_WINDOW: Final = 3600
"""Seconds."""


def _positive(value: Any, path: str, found: Causes) -> None:
    """Check that an amount is above 0."""
    if (amount_of(value) or 0) <= 0:
        found.append(invalid(path, str(value), "must be positive"))


def _type_of_target(value: str, path: str, found: Causes) -> None:
    if not value:
        found.append(required(path, "must specify a metric target type"))
    if value not in _TARGETS:
        found.append(invalid(path, value, "must be either Utilization, Value, or AverageValue"))


_TARGET: Final = Fields(
    {
        "type": or_zero(_type_of_target, ""),
        _VALUE: pointer(_positive),
        _AVERAGE: pointer(_positive),
        _UTILIZATION: pointer(at_least(1, "must be greater than 0")),
    }
)


def _aimed(one: str, other: str, none: str, not_both: str = "") -> Row:
    """Return the row of a target that has at least one of two numbers.

    Args:
        one: the number that is required in the absence of both.
        other: the other one; "": none.
        none: why one is required.
        not_both: why `averageValue` or `value` is forbidden beside the other; "": it is not.
    """

    def rule(value: Mapping[str, Any], path: str, found: Causes) -> None:
        _TARGET(value, path, found)
        has = [value.get(name) is not None for name in (one, other)]
        if not any(has):
            found.append(required(f"{path}.{one}", none))
        elif not_both and all(has):
            found.append(forbidden(f"{path}.{other}", not_both))

    return or_zero(rule, {})


_METRIC: Final = or_zero(Fields({"name": needed(path_segment, "must specify a metric name")}), {})
_REFERENCE: Final = or_zero(Fields({"kind": needed(path_segment), "name": needed(path_segment)}), {})
_USAGE: Final = _aimed(
    _UTILIZATION,
    _AVERAGE,
    "must set either a target raw value or a target utilization",
    "may not set both a target raw value and a target utilization",
)
_SOURCES: Final[dict[str, Rule]] = {
    "object": Fields(
        {
            "describedObject": _REFERENCE,
            "metric": _METRIC,
            "target": _aimed(_AVERAGE, _VALUE, "must set either a target value or averageValue"),
        }
    ),
    "external": Fields(
        {
            "metric": _METRIC,
            "target": _aimed(
                _AVERAGE,
                _VALUE,
                "must set either a target value for metric or a per-pod target",
                "may not set both a target value for metric and a per-pod target",
            ),
        }
    ),
    "pods": Fields({"metric": _METRIC, "target": _aimed(_AVERAGE, "", "must specify a positive target averageValue")}),
    "resource": Fields({"name": needed(why="must specify a resource name"), "target": _USAGE}),
    "containerResource": Fields(
        {
            "name": needed(container_resource, "must specify a resource name"),
            "container": needed(named(faults_of_label), "must specify a container"),
            "target": _USAGE,
        }
    ),
}


def _metric(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a metric: the first of its members, and that it is the one of its type."""
    kind = value.get("type") or ""
    if not kind:
        found.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _MEMBERS:
        found.append(unsupported(f"{path}.type", kind, sorted(_MEMBERS)))
    present, expected = [name for name in _SOURCES if value.get(name) is not None], _MEMBERS.get(kind, "")
    for name in present[:1]:
        _SOURCES[name](value[name], f"{path}.{name}", found)
    if not expected:
        found.append(unsupported(f"{path}.type", kind, sorted(_MEMBERS)))
    elif expected not in present:
        found.append(required(f"{path}.{expected}", "must populate information for the given metric source"))
    for name in present if len(present) > 1 else ():
        if name != expected:
            found.append(forbidden(f"{path}.{name}", "must populate the given metric source only"))


def _at_most(seconds: int) -> Rule:
    def rule(value: int, path: str, found: Causes) -> None:
        if value > seconds:
            found.append(invalid(path, value, f"must be less than or equal to {seconds}"))

    return rule


_ABOVE_ZERO: Final = at_least(1, "must be greater than zero")
_POLICY: Final = Fields(
    {
        "type": or_zero(one_of("Percent", "Pods"), ""),
        "value": or_zero(_ABOVE_ZERO),
        "periodSeconds": or_zero(both(_ABOVE_ZERO, _at_most(_LONGEST_PERIOD))),
    }
)
_SCALING: Final = Fields(
    {
        "stabilizationWindowSeconds": pointer(
            both(at_least(0, "must be greater than or equal to zero"), _at_most(_LONGEST_WINDOW))
        ),
        "selectPolicy": pointer(one_of("Disabled", "Max", "Min")),
        "policies": needed(Each(_POLICY), "must specify at least one Policy"),
    }
)


def _numbers(spec: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the numbers of replicas beside each other, and that there is a metric without pods where there are none."""
    least, most, metrics = spec.get("minReplicas"), spec.get("maxReplicas") or 0, spec.get("metrics") or ()
    if least is not None and most < least:
        found.append(invalid(f"{path}.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    if least == 0 and not any(each.get("type") in ("Object", "External") for each in metrics):
        why = "must specify at least one Object or External metric to support scaling to zero replicas"
        found.append(forbidden(f"{path}.metrics", why))


autoscaler = Fields(
    {
        "spec": or_zero(
            Fields(
                {
                    "minReplicas": pointer(at_least(1, "must be greater than or equal to 1")),
                    "maxReplicas": or_zero(at_least(1, "must be greater than 0")),
                    "scaleTargetRef": _REFERENCE,
                    "metrics": Each(_metric),
                    "behavior": Fields({"scaleUp": _SCALING, "scaleDown": _SCALING}),
                },
                _numbers,
            ),
            {},
        )
    }
)
"""The rules of a HorizontalPodAutoscaler."""


def autoscaler_status(new: JsonObject, live: JsonObject, found: Causes) -> None:  # noqa: ARG001 - a rule of statuses
    """Check the numbers in the status of a HorizontalPodAutoscaler."""
    for name in ("currentReplicas", "desiredReplicas"):
        non_negative((new.get("status") or {}).get(name) or 0, f"status.{name}", found)
