"""The admission plug-in Priority: the priority of a pod, from its PriorityClass."""

from typing import Final

from modules.apimachinery.api_errors import ForbiddenError
from modules.apimachinery.kinds import JsonObject, key_for, kind_named
from modules.apimachinery.lister import Lister

_PRIORITY_CLASS: Final = kind_named("PriorityClass")
_PREEMPTS: Final = "PreemptLowerPriority"
_COMPUTED: Final = "must not be provided in pod spec; priority admission controller computed"


def with_priority(pod: JsonObject, live: JsonObject | None, objects: Lister) -> JsonObject:
    """Return a pod with its priority.

    Raises:
        ForbiddenError: the pod's class does not exist, or has another priority than the pod.
    """
    if live is not None:
        kept = {name: live["spec"][name] for name in ("priority", "preemptionPolicy") if name in live["spec"]}
        return {**pod, "spec": {**kept, **pod["spec"]}}
    return _of_class(pod, objects)


def _of_class(pod: JsonObject, objects: Lister) -> JsonObject:
    spec, name = pod["spec"], str(pod["spec"].get("priorityClassName") or "")
    found = objects.find(key_for(_PRIORITY_CLASS, "", name)) if name else _default_class(objects)
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


def _default_class(objects: Lister) -> JsonObject | None:
    """Return the PriorityClass of pods that name none: of several, the one with the lowest priority."""
    found = [each for each in objects.list(_PRIORITY_CLASS) if each.get("globalDefault")]
    return min(found, key=lambda each: int(each.get("value") or 0), default=None)


def only_default(new: JsonObject, _live: JsonObject | None, objects: Lister) -> None:
    """Check that no other PriorityClass is the default, if this one is to be.

    Raises:
        ForbiddenError: another class is.
    """
    if not new.get("globalDefault"):
        return
    for other in objects.list(_PRIORITY_CLASS):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != new["metadata"]["name"]:
            why = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise ForbiddenError(_PRIORITY_CLASS.plural, new["metadata"]["name"], why, _PRIORITY_CLASS.api_group)


def _refused(pod: JsonObject, why: str) -> ForbiddenError:
    return ForbiddenError("pods", pod["metadata"]["name"], why)
