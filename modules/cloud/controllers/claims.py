"""Adoption and release: which objects a controller has, by its selector and their owner references.

After Kubernetes' controller reference manager: an object that matches and has no controller is adopted, an object that
a controller has and no longer matches is released. A controller that is being deleted adopts nothing. Mirror pods are
never a controller's: nodes make them, with labels of their choice.
"""

from collections.abc import Callable
from typing import NamedTuple

from modules.apimachinery.kinds import JsonObject, is_being_deleted, uid_of, version_of
from modules.apimachinery.pods.objects import has_ended, is_mirror
from modules.apimachinery.workload_selectors import matcher_of, selector_of
from modules.cloud.controllers.plan import PlannedWrite, patch
from modules.cloud.controllers.pods import owner_reference
from modules.cloud.controllers.view import View


class ClaimedObjects(NamedTuple):
    """The objects of a controller."""

    owned: list[JsonObject]
    """By name; without released ones."""
    writes: tuple[PlannedWrite, ...]
    """Adoptions and releases that are due first."""


def claimed(
    view: View,
    owner: JsonObject,
    kind: str,
    finalizer: str = "",
    *,
    may_be: Callable[[JsonObject], bool] = lambda _: True,
    takes_ended: bool = True,
) -> ClaimedObjects:
    """Return the objects of a kind that a controller has, and the writes that adopt or release objects.

    Args:
        view: all objects.
        owner: the controller.
        kind: of its objects.
        finalizer: an adopted object gets it, and a released one loses it; "" is none.
        may_be: returns whether an object that the selector selects may be the controller's.
        takes_ended: whether pods that have ended are adopted, so that their names become free, or they count.
    """
    selects = matcher_of(selector_of(owner))

    def matches(obj: JsonObject) -> bool:
        return selects(_labels(obj)) and may_be(obj)

    owned, writes = [], []
    for obj in view.owned_by(owner, kind):
        if matches(obj) and not is_mirror(obj):
            owned.append(obj)
        elif not is_being_deleted(owner):
            writes.append(_released(obj, owner, finalizer))
    loose = _orphans(view, owner, kind)
    writes += [
        _adopted(obj, owner, finalizer)
        for obj in loose
        if may_be(obj) and (kind != "Pod" or _is_free(obj, ended=takes_ended))
    ]
    return ClaimedObjects(owned, tuple(writes))


def adoptions(view: View, owner: JsonObject, kind: str) -> tuple[PlannedWrite, ...]:
    """Return the adoptions of all objects of a kind that a controller selects and nobody has."""
    return tuple(_adopted(obj, owner, "") for obj in _orphans(view, owner, kind))


def _orphans(view: View, owner: JsonObject, kind: str) -> list[JsonObject]:
    """Return the objects that a controller selects and nobody has; none for one that is being deleted."""
    if is_being_deleted(owner):
        return []
    selects = matcher_of(selector_of(owner))
    loose = view.without_controller(kind, owner["metadata"]["namespace"])
    return [obj for obj in loose if selects(_labels(obj)) and not is_being_deleted(obj)]


def _is_free(pod: JsonObject, *, ended: bool) -> bool:
    return not is_mirror(pod) and (ended or not has_ended(pod))


def _labels(obj: JsonObject) -> dict[str, str]:
    return obj["metadata"].get("labels") or {}


def _adopted(obj: JsonObject, owner: JsonObject, finalizer: str) -> PlannedWrite:
    references = [*(obj["metadata"].get("ownerReferences") or ()), owner_reference(owner)]
    return _referring(obj, references, [*_other_finalizers(obj, finalizer), finalizer] if finalizer else None)


def _released(obj: JsonObject, owner: JsonObject, finalizer: str) -> PlannedWrite:
    references = [one for one in obj["metadata"].get("ownerReferences") or () if one.get("uid") != uid_of(owner)]
    return _referring(obj, references, _other_finalizers(obj, finalizer) if finalizer else None)


def _other_finalizers(obj: JsonObject, finalizer: str) -> list[str]:
    return [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]


def _referring(obj: JsonObject, references: list[JsonObject], finalizers: list[str] | None) -> PlannedWrite:
    """Return the patch; the whole lists are written, so they must not have changed since they were read."""
    changed = {} if finalizers is None else {"finalizers": finalizers or None}
    metadata = {"ownerReferences": references or None, **changed, "resourceVersion": version_of(obj)}
    return patch(obj, {"metadata": metadata})
