"""The admission plug-in RuntimeClass: overhead and placement of a pod, from its RuntimeClass."""

from collections.abc import Sequence
from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister

_RUNTIME_CLASS: Final = kind_named("RuntimeClass")
_REJECTED: Final = "pod rejected: "
_MOST_COMPARED: Final = 200
"""Tolerations of a pod and its class that are compared with each other."""


def with_runtime_class(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a new pod with the overhead, node selector and tolerations of its RuntimeClass.

    Raises:
        ForbiddenError: the class does not exist, or the pod contradicts it.
    """
    if live is not None:
        return pod
    spec, name = pod["spec"], pod["spec"].get("runtimeClassName")
    found = objects.find(key_for(_RUNTIME_CLASS, "", str(name))) if name else None
    if name and found is None:
        raise _refused(pod, f'{_REJECTED}RuntimeClass "{name}" not found')
    overhead = _overhead_of(found)
    if overhead and (spec.get("overhead") or overhead) != overhead:
        raise _refused(pod, f"{_REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    return {**pod, "spec": {**spec, **({"overhead": overhead} if overhead else {}), **_placement(pod, found or {})}}


def _overhead_of(runtime_class: JsonObject | None) -> JsonObject:
    found: JsonObject = ((runtime_class or {}).get("overhead") or {}).get("podFixed") or {}
    return found


def check_overhead(pod: JsonObject, live: JsonObject | None, objects: Lister) -> None:
    """Check that a new pod with an overhead has it from its RuntimeClass.

    Raises:
        ForbiddenError: the class has none.
    """
    spec = pod["spec"]
    found = objects.find(key_for(_RUNTIME_CLASS, "", str(spec.get("runtimeClassName") or "")))
    if live is None and spec.get("overhead") and not _overhead_of(found):
        words = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise _refused(pod, f"{_REJECTED}{words}")


def _placement(pod: JsonObject, runtime_class: JsonObject) -> JsonObject:
    """Return the fields of a pod's spec that the class's `scheduling` changes."""
    scheduling, spec = runtime_class.get("scheduling") or {}, pod["spec"]
    changed: JsonObject = {}
    if selector := scheduling.get("nodeSelector"):
        given = spec.get("nodeSelector") or {}
        for key, value in selector.items():
            if given.get(key, value) != value:
                of_class = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
                raise _refused(pod, f"conflict: {of_class}; pod.spec.nodeSelector[{key}] = {given[key]}")
        changed["nodeSelector"] = {**given, **selector}
    if tolerations := scheduling.get("tolerations"):
        changed["tolerations"] = merged_tolerations([*(spec.get("tolerations") or ()), *tolerations])
    return changed


def merged_tolerations(tolerations: Sequence[JsonObject]) -> list[JsonObject]:
    """Return tolerations without those that another one includes (`MergeTolerations` in pkg/util/tolerations), if they
    are not too many to be compared.
    """
    if len(tolerations) > _MOST_COMPARED:
        return list(tolerations)
    kept: list[JsonObject] = []
    for place, one in enumerate(tolerations):
        later = (other for other in tolerations[place + 1 :] if other != one)
        if not any(_includes(other, one) for other in (*kept, *later)):
            kept.append(one)
    return kept


def _includes(wide: JsonObject, one: JsonObject) -> bool:
    """Return whether a toleration tolerates whatever another one does."""
    if wide == one:
        return True
    is_any = wide.get("operator") == "Exists"
    longest, seconds = wide.get("tolerationSeconds"), one.get("tolerationSeconds")
    if wide.get("key") != one.get("key") and (wide.get("key") or not is_any):
        return False
    if wide.get("effect") and wide.get("effect") != one.get("effect"):
        return False
    if longest is not None and (seconds is None or seconds > longest):
        return False
    return is_any or (one.get("operator") == "Equal" and one.get("value") == wide.get("value"))


def _refused(pod: JsonObject, why: str) -> ForbiddenError:
    return ForbiddenError("pods", pod["metadata"]["name"], why)
