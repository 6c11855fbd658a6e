"""HorizontalPodAutoscalers in two versions: the same stored objects as `autoscaling/v2` and as `autoscaling/v1`.

The older version has a utilization of CPU in place of the metrics, and no behaviour. What it does not have stays as it
is stored when an object is written through it, and is not shown there; Kubernetes shows it in annotations.
"""

from typing import Any, Final

from modules.apimachinery.kinds import JsonObject, kind_named
from modules.apimachinery.resources import Resource

KIND: Final = kind_named("HorizontalPodAutoscaler")
OLDER: Final = "autoscaling/v1"
_USAGE: Final = "targetCPUUtilizationPercentage"
_STATE: Final = "currentCPUUtilizationPercentage"
_METRICS: Final = "metrics"
_STATES: Final = "currentMetrics"
_BEHAVIOR: Final = "behavior"


def is_older(api_version: str, plural: str) -> bool:
    """Return whether a request's path leads to objects of the older version."""
    return api_version == OLDER and plural == KIND.plural


def is_of_older(resource: Resource) -> bool:
    """Return whether a resource is of the older version."""
    return is_older(resource.group_version, resource.plural)


def to_newer(obj: JsonObject, live: JsonObject | None = None) -> JsonObject:
    """Return an object of the older version as one of the newer.

    Args:
        obj: the object.
        live: its stored state, whose other metrics and behaviour it has; None: it has none.
    """
    found = {**obj, "apiVersion": KIND.api_version} if obj.get("apiVersion") == OLDER else dict(obj)
    before = (live or {}).get("spec") or {}
    if isinstance(spec := obj.get("spec"), dict):
        others = [each for each in before.get(_METRICS) or () if not _is_usage(each, "target")]
        kept = {_BEHAVIOR: before[_BEHAVIOR]} if before.get(_BEHAVIOR) else {}
        found["spec"] = {**_moved(spec, _USAGE, _METRICS, "target", others), **kept}
    if isinstance(status := obj.get("status"), dict):
        found["status"] = _moved(status, _STATE, _STATES, "current", [])
    return found


def to_older(obj: JsonObject) -> JsonObject:
    """Return an object, or a list of them, in the older version; any other object as it is."""
    if obj.get("kind") == f"{KIND.name}List":
        items = [to_older({"kind": KIND.name, **each}) for each in obj["items"]]
        return {**obj, "apiVersion": OLDER, "items": items}
    if obj.get("kind") != KIND.name:
        return obj
    found = {**obj, "apiVersion": OLDER}
    found["status"] = {"currentReplicas": 0, **(obj.get("status") or {})}
    for part, place, state, name in (("spec", _METRICS, "target", _USAGE), ("status", _STATES, "current", _STATE)):
        if given := found.get(part):
            usage = [each["resource"][state] for each in given.get(place) or () if _is_usage(each, state)]
            kept = {field: value for field, value in given.items() if field not in (place, _BEHAVIOR, "conditions")}
            found[part] = {**kept, **({name: usage[0]["averageUtilization"]} if usage else {})}
    return found


def _moved(given: JsonObject, name: str, place: str, state: str, others: list[Any]) -> JsonObject:
    """Return a spec or a status with a utilization of CPU among its metrics."""
    kept = {field: value for field, value in given.items() if field != name}
    usage = given.get(name)
    target = {**({"type": "Utilization"} if state == "target" else {}), "averageUtilization": usage}
    own = [] if usage is None else [{"type": "Resource", "resource": {"name": "cpu", state: target}}]
    return {**kept, place: [*others, *own]} if others or own else kept


def _is_usage(metric: JsonObject, state: str) -> bool:
    """Return whether a metric is the utilization of CPU."""
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and (resource.get(state) or {}).get("averageUtilization") is not None
