"""Plans for an object whose owners may be gone, after kube-controller-manager's `attemptToDeleteItem`."""

from collections.abc import Mapping
from itertools import islice
from typing import Final, Protocol

import msgspec

from modules.apimachinery.graceful_deletion import (
    FINALIZER_OF,
    FOREGROUND,
    ORPHAN,
    finalizers_of,
    policy_of,
    without_finalizer,
)
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, is_being_deleted, key_for, uid_of
from modules.cloud.apiserver.garbage_collector.owners import (
    OwnerReference,
    references_of,
    without_blocking,
    without_owners,
)

MOST: Final = 256
"""Objects of one plan; the others get another plan."""
INVALID_NAMESPACE: Final = "OwnerRefInvalidNamespace"
"""The reason of the Event about a reference to an owner in another namespace."""


class Deletion(msgspec.Struct, frozen=True):
    """Delete an object, if it still has the uid."""

    key: ObjectKey
    uid: str
    policy: str


class NewState(msgspec.Struct, frozen=True):
    """Store a new state of an object, if it still has the resourceVersion of its predecessor."""

    obj: JsonObject


class OwnerWarning(msgspec.Struct, frozen=True):
    """Write an Event about an object."""

    obj: JsonObject
    reason: str
    message: str


Action = Deletion | NewState | OwnerWarning


class OwnerGraph(Protocol):
    """The objects, with their owners and dependents."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that a reference names; None if it is not served."""

    def dependents_of(self, uid: str) -> Mapping[ObjectKey, None]:
        """Return the objects that have a reference to an owner."""

    def is_blocked(self, uid: str, namespace: str) -> bool:
        """Return whether an owner, in a namespace or "" for none, has a dependent that keeps it."""

    def is_gone(self, reference: OwnerReference, namespace: str) -> bool:
        """Return whether the owner that a reference in a namespace names is known to have been deleted."""

    def has_elsewhere(self, kind: Kind, reference: OwnerReference) -> bool:
        """Return whether the owner that a reference names is in some namespace."""


def plan(graph: OwnerGraph, key: ObjectKey) -> list[Action]:
    """Return the actions that an object needs; most objects need no action."""
    obj = graph.find(key)
    if obj is None:
        return []
    if is_being_deleted(obj):
        return _plan_of_deleted(graph, key, obj)
    references = references_of(obj)
    return _plan_of_dependent(graph, key, obj, references) if references else []


def _plan_of_deleted(graph: OwnerGraph, key: ObjectKey, obj: JsonObject) -> list[Action]:
    """Let the dependents go, or wait for them."""
    uid, present = uid_of(obj), finalizers_of(obj)
    if FINALIZER_OF[ORPHAN] in present:
        orphans = list(islice(graph.dependents_of(uid), MOST))
        freed = [NewState(without_owners(found, [uid])) for each in orphans if (found := graph.find(each)) is not None]
        return [*freed, *([NewState(without_finalizer(obj, FINALIZER_OF[ORPHAN]))] if len(orphans) < MOST else [])]
    if FINALIZER_OF[FOREGROUND] in present and not graph.is_blocked(uid, key.namespace):
        return [NewState(without_finalizer(obj, FINALIZER_OF[FOREGROUND]))]
    return []


class _Owners(msgspec.Struct):
    """The owners of an object, by their state (`classifyReferences`)."""

    is_owned: bool = False
    """Whether one of them is there, and does not wait for its dependents' deletion."""
    absent: list[str] = []
    waiting: list[str] = []
    warnings: list[OwnerReference] = []
    is_unknown: bool = False
    """Whether it cannot be known if one of them is there."""


def _plan_of_dependent(
    graph: OwnerGraph, key: ObjectKey, obj: JsonObject, references: tuple[OwnerReference, ...]
) -> list[Action]:
    owners = _owners(graph, key, references)
    warnings = [_warning(key, obj, one) for one in owners.warnings]
    if owners.is_unknown:
        return [*warnings]
    if owners.is_owned:
        needless = [*owners.absent, *owners.waiting]
        return [*warnings, *([NewState(without_owners(obj, needless))] if needless else [])]
    uid = uid_of(obj)
    if not owners.waiting or not graph.dependents_of(uid):
        return [*warnings, Deletion(key, uid, policy_of(obj))]
    deleted = Deletion(key, uid, FOREGROUND)
    if any(_waits(graph.find(each)) for each in graph.dependents_of(uid)):  # perhaps it is a circle
        return [*warnings, NewState(without_blocking(obj)), deleted]
    return [*warnings, deleted]


def _owners(graph: OwnerGraph, key: ObjectKey, references: tuple[OwnerReference, ...]) -> _Owners:
    found = _Owners()
    for reference in references:
        kind = graph.kind_of(reference.api_version, reference.kind)
        if kind is None and graph.is_gone(reference, key.namespace):  # its kind may be gone, too
            found.absent.append(reference.uid)
            continue
        if kind is None or (kind.namespaced and not key.namespace):
            found.is_unknown = True
            if kind is not None:
                found.warnings.append(reference)
            continue
        owner = graph.find(key_for(kind, key.namespace, reference.name))
        if owner is None or uid_of(owner) != reference.uid:
            found.absent.append(reference.uid)
            if kind.namespaced and graph.has_elsewhere(kind, reference):
                found.warnings.append(reference)
        elif _waits(owner):
            found.waiting.append(reference.uid)
        else:
            found.is_owned = True
    return found


def _waits(obj: JsonObject | None) -> bool:
    """Return whether an object is deleted in the foreground."""
    return obj is not None and is_being_deleted(obj) and FINALIZER_OF[FOREGROUND] in finalizers_of(obj)


def _warning(key: ObjectKey, obj: JsonObject, of: OwnerReference) -> OwnerWarning:
    owner = f"[{of.api_version}/{of.kind}, namespace: {key.namespace}, name: {of.name}, uid: {of.uid}]"
    return OwnerWarning(obj, INVALID_NAMESPACE, f'ownerRef {owner} does not exist in namespace "{key.namespace}"')
