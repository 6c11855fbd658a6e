"""The rules of PriorityClasses and RuntimeClasses."""

from collections.abc import Mapping
from typing import Any, Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.apimachinery.validation.causes import Causes, forbidden
from modules.apimachinery.validation.labels import labels, toleration
from modules.apimachinery.validation.metadata import immutable
from modules.apimachinery.validation.names import faults_of_label
from modules.apimachinery.validation.resources import container_requirements
from modules.apimachinery.validation.rules import Each, Fields, named, needed, one_of

HIGHEST_OF_USERS: Final = 1_000_000_000
"""The highest priority of a class that is not one of Kubernetes' own."""
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Kubernetes' own PriorityClasses with their priorities."""
_PREFIX: Final = "system-"
_PRIORITY_CLASS: Final = kind_named("PriorityClass")


def priority_class(obj: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check a PriorityClass."""
    name, value = str(obj["metadata"].get("name") or ""), int(obj.get("value") or 0)
    if name.startswith(_PREFIX):
        if SYSTEM_CLASSES.get(name) != value or obj.get("globalDefault"):
            of_name = f"{name} is not a known system priority class"
            if name in SYSTEM_CLASSES:
                of_name = f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
            why = "priority class names with 'system-' prefix are reserved for system use only. error:"
            found.append(forbidden(f"{path}.metadata.name", f"{why} {of_name}"))
    elif value > HIGHEST_OF_USERS:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}"
        found.append(forbidden(f"{path}.value", why))
    _POLICY(obj, path, found)


_POLICY: Final = Fields({"preemptionPolicy": one_of("PreemptLowerPriority", "Never")})


def check_class_deletion(key: ObjectKey) -> None:
    """Check that an object is not one of Kubernetes' own PriorityClasses.

    Raises:
        ForbiddenError: it is.
    """
    if key.kind == _PRIORITY_CLASS.name and key.name in SYSTEM_CLASSES:
        why = "this is a system priority class and cannot be deleted"
        raise ForbiddenError(_PRIORITY_CLASS.plural, key.name, why, _PRIORITY_CLASS.api_group)


def priority_class_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a PriorityClass keeps its priority and its policy."""
    if (new.get("value") or 0) != (live.get("value") or 0):
        found.append(forbidden("value", "may not be changed in an update."))
    immutable(new.get("preemptionPolicy"), live.get("preemptionPolicy"), "preemptionPolicy", found)


def _tolerations(value: Any, path: str, found: Causes) -> None:
    """Check tolerations, which Kubernetes tells below a path of their own."""
    Each(toleration)(value, f"{path}.tolerations", found)


def _overhead(value: Mapping[str, Any], path: str, found: Causes) -> None:
    """Check the overhead of a RuntimeClass, which Kubernetes takes for the limits of a container."""
    container_requirements({"limits": value.get("podFixed") or {}}, path, found)


runtime_class = Fields(
    {
        "handler": needed(named(faults_of_label)),
        "overhead": _overhead,
        "scheduling": Fields({"nodeSelector": labels, "tolerations": _tolerations}),
    }
)


def runtime_class_update(new: JsonObject, live: JsonObject, found: Causes) -> None:
    """Check that a RuntimeClass keeps its handler."""
    immutable(new.get("handler"), live.get("handler"), "handler", found)
