"""The admission plug-in Priority: the number that a pod's PriorityClass stands for."""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister

_POD: Final = kind_named("Pod")
_CLASS: Final = kind_named("PriorityClass")
_PREEMPTS: Final = "PreemptLowerPriority"
_COMPUTED: Final = "must not be provided in pod spec; priority admission controller computed"


def admit(obj: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a pod with its priority, or a PriorityClass that may be stored.

    Raises:
        ForbiddenError: the pod's class does not exist, or has another priority than the pod says; another class is the
            default already.
    """
    if obj["kind"] == _CLASS.name:
        _check_default(obj, objects)
        return obj
    if live is not None:
        kept = {name: live["spec"][name] for name in ("priority", "preemptionPolicy") if name in live["spec"]}
        return {**obj, "spec": {**kept, **obj["spec"]}}
    return _with_priority(obj, objects)


def _with_priority(pod: JsonObject, objects: Lister) -> JsonObject:
    spec, name = pod["spec"], str(pod["spec"].get("priorityClassName") or "")
    found = objects.find(key_for(_CLASS, "", name)) if name else _default(objects)
    if found is None and name:
        raise _refused(pod, f"no PriorityClass with name {name} was found")
    chosen = {} if found is None else {"priorityClassName": found["metadata"]["name"]}
    value, policy = int((found or {}).get("value") or 0), str((found or {}).get("preemptionPolicy") or _PREEMPTS)
    for field, told, wanted in (
        ("priority", "integer value of priority", value),
        ("preemptionPolicy", "string value of PreemptionPolicy", policy),
    ):
        if spec.get(field) not in (None, wanted):
            of_class = f"{wanted} from the given PriorityClass name"
            raise _refused(pod, f"the {told} ({spec[field]}) {_COMPUTED} {of_class}")
    return {**pod, "spec": {**spec, **chosen, "priority": value, "preemptionPolicy": policy}}


def _default(objects: Lister) -> JsonObject | None:
    """Return the PriorityClass of pods that name none: of several, the one with the lowest priority."""
    found = [each for each in objects.list(_CLASS) if each.get("globalDefault")]
    return min(found, key=lambda each: int(each.get("value") or 0), default=None)


def _check_default(new: JsonObject, objects: Lister) -> None:
    if not new.get("globalDefault"):
        return
    for other in objects.list(_CLASS):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != new["metadata"]["name"]:
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise ForbiddenError(_CLASS.plural, new["metadata"]["name"], why, _CLASS.api_group)


def _refused(pod: JsonObject, why: str) -> ForbiddenError:
    return ForbiddenError(_POD.plural, pod["metadata"]["name"], why)
