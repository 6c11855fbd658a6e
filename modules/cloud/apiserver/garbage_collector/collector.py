"""GarbageCollector: carries out what follows from deletions, a bounded part at a time."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, Protocol

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.conditions import conditions_of, timed
from modules.apimachinery.graceful_deletion import (
    BACKGROUND,
    FINALIZER_OF,
    FOREGROUND,
    content_finalizers_of,
    finalizers_of,
)
from modules.apimachinery.kinds import (
    KINDS,
    JsonObject,
    Kind,
    ObjectKey,
    is_being_deleted,
    key_for,
    key_of,
    kind_named,
    uid_of,
)
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.event_registry import event_about
from modules.cloud.apiserver.garbage_collector.owners import OwnerIndex, OwnerReference, references_of
from modules.cloud.apiserver.garbage_collector.plan import MOST, Action, Deletion, NewState, OwnerWarning, plan
from modules.cloud.apiserver.namespaces import CONTENTS, finalized
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.storage.database.errors import DatabaseError
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_log = logging.getLogger(__name__)

_NAMESPACE: Final = kind_named("Namespace")
_POD: Final = kind_named("Pod")
_NAMESPACED: Final = tuple(kind for kind in KINDS if kind.namespaced)
_BUILT_IN: Final = {(kind.api_group, kind.name): kind for kind in KINDS}
_COMPONENT: Final = "garbage-collector-controller"
_PARTS: Final = 4
"""Parts of what follows from a deletion that are done in one transaction: dependents of dependents, for instance."""

_SETTLED: Final = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
"""The conditions of a namespace without contents, by type, with reason and message; their status is False."""


class Contents(Protocol):
    """The objects in a namespace."""

    def contents_of(self, namespace: str) -> Iterable[tuple[Kind, ObjectKey]]:
        """Yield the objects in a namespace, with their kinds."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""


def plan_of_namespace(view: Contents, namespace: JsonObject, now: str) -> list[Action]:
    """Return the deletions of a namespace's contents; if all were begun, its new state, if that is another. Other
    objects stay until its pods are gone, which may need them to the end (KEP-5080).

    Args:
        view: the objects.
        namespace: is being deleted.
        now: the present time.
    """
    if CONTENTS not in content_finalizers_of(namespace):
        return []
    remaining = [(kind, obj) for kind, key in view.contents_of(namespace["metadata"]["name"])
                 if (obj := view.find(key)) is not None]  # fmt: skip
    remaining = [(kind, obj) for kind, obj in remaining if kind == _POD] or remaining
    unmarked = ((kind, obj) for kind, obj in remaining if not is_being_deleted(obj))
    deletions = [Deletion(_key(kind, obj), uid_of(obj), BACKGROUND) for kind, obj in islice(unmarked, MOST)]
    if deletions:
        return [*deletions]
    if not remaining:
        kept = [name for name in content_finalizers_of(namespace) if name != CONTENTS]
        return [NewState(_with_conditions(finalized(namespace, kept), {}, now))]
    told = _with_conditions(namespace, _reasons(remaining), now)
    return [] if told is namespace else [NewState(told)]


def _key(kind: Kind, obj: JsonObject) -> ObjectKey:
    return ObjectKey(kind.key_name, obj["metadata"]["namespace"], obj["metadata"]["name"])


def _reasons(remaining: list[tuple[Kind, JsonObject]]) -> dict[str, tuple[str, str]]:
    """Return the reasons and messages of the conditions that are True, by type."""
    resources = Counter(f"{kind.plural}.{kind.api_group}" for kind, _ in remaining)
    finalizers = Counter(name for _, obj in remaining for name in finalizers_of(obj))
    counted = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(resources.items()))
    found = {"NamespaceContentRemaining": ("SomeResourcesRemain", f"Some resources are remaining: {counted}")}
    if finalizers:
        held = ", ".join(f"{name[:253]} in {count} resource instances" for name, count in _first(finalizers))
        about = f"Some content in the namespace has finalizers remaining: {held}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", about)
    return found


def _first(finalizers: Counter[str]) -> list[tuple[str, int]]:
    return sorted(finalizers.items())[:20]


def _with_conditions(namespace: JsonObject, reasons: dict[str, tuple[str, str]], now: str) -> JsonObject:
    """Return the namespace with its conditions; the same object if it has them already."""
    status = namespace.get("status") or {}
    before = {one.get("type"): one for one in conditions_of(namespace)}
    conditions = [one for kind, one in before.items() if kind not in _SETTLED]
    for kind, settled in _SETTLED.items():
        reason, message = reasons.get(kind, settled)
        told = {"type": kind, "status": str(kind in reasons), "reason": reason, "message": message}
        conditions.append(timed(told, before.get(kind, {}), now))
    if conditions == status.get("conditions"):
        return namespace
    return {**namespace, "status": {**status, "conditions": conditions}}


class GarbageCollector(Reconciler):
    """The reconciler that deletes the dependents of deleted owners, frees orphans, and empties namespaces that are
    being deleted.

    It plans again what a change may concern. Several cloudcores plan the same; the first one's changes leave the others
    nothing to do, as each transaction begins with the changes of the others.

    Args:
        cluster: the objects.
    """

    name = "garbage-collector-controller"
    is_of_statuses = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._owners = OwnerIndex()
        self._waiting: dict[ObjectKey, None] = {}
        """The objects to plan, in order."""
        self._gone: set[tuple[str, str, str, str]] = set()
        """Deleted owners whose dependents are among these objects, by group, kind, namespace and uid."""
        self._terminating: set[str] = set()
        """Namespaces that are being deleted."""

    @property
    def has_work(self) -> bool:
        """Whether there is something to plan."""
        return bool(self._waiting)

    def load(self) -> None:
        """Take over all objects: something may have been left to do at the last stop."""
        for key in self._cluster.storage:
            self.add(key, self._cluster.storage.get(key))

    def add(self, key: ObjectKey, obj: JsonObject) -> None:
        """Take over a loaded object."""
        self._owners.change(key, None, obj)
        self._observe(key, None, obj, has_other_owners=_has_changed(None, obj))

    def handle_event(self, event: ObjectEvent) -> None:
        """Plan what a change concerns, also one of another cloudcore, which may have ended before that was done."""
        if event.type is EventType.DELETED:
            self._owners.change(event.key, event.old, None)
            self._observe_deletion(event)
        else:
            has_other_owners = _has_changed(event.old, event.new)
            if has_other_owners:
                self._owners.change(event.key, event.old, event.new)
            self._observe(event.key, event.old, event.new, has_other_owners=has_other_owners)

    def roll_back(self, event: ObjectEvent) -> None:
        """Take a change back, and plan the object again; the newest comes first."""
        if event.type is EventType.DELETED:
            self._gone.discard(_identity(event))
            self._owners.change(event.key, None, event.old)
        else:
            self._owners.change(event.key, event.new, event.old)
        if event.key.kind == _NAMESPACE.name:
            self._observe_namespace(event.key, event.old)
        self._waiting[event.key] = None

    def collect(self) -> None:
        """Carry out the plans of some objects, at most a few hundred; `has_work` is True while more are left."""
        for key in [*self._waiting][:MOST]:
            del self._waiting[key]
            actions = self._plan(key)
            if len(actions) >= MOST or (key.kind == _NAMESPACE.name and actions):
                self._waiting[key] = None
            for action in actions:
                self._act(key, action)
            if len(actions) >= MOST:
                break
        if not self._waiting:
            self._gone.clear()

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - new deletions do not wait
        """Do some parts of what follows from deletions."""
        for _ in range(_PARTS):
            if not self._waiting:
                break
            try:
                attempt(self.collect)
            except DatabaseError:
                raise
            except Exception:  # noqa: BLE001 - one bad object must not stop all; its plan is not made again
                _log.exception("something that follows from a deletion cannot be done")
        return self.has_work

    def overdue(self) -> Callable[[], None] | None:
        """Return the work on the namespaces that are being deleted, whose conditions may be out of date."""
        self._waiting |= {key_for(_NAMESPACE, "", name): None for name in sorted(self._terminating)}
        return _nothing if self._waiting else None

    def _observe(self, key: ObjectKey, old: JsonObject | None, new: JsonObject, *, has_other_owners: bool) -> None:
        if key.kind == _NAMESPACE.name:
            self._observe_namespace(key, new)
        if has_other_owners:
            self._waiting[key] = None
            before, now = references_of(old), references_of(new)
            blocking = {one.uid for one in now if one.blocks}
            self._wait_for_owners(key, [one for one in before if one.blocks and one.uid not in blocking])
        if is_being_deleted(new) and not (old and is_being_deleted(old) and finalizers_of(old) == finalizers_of(new)):
            self._waiting[key] = None
            if FINALIZER_OF[FOREGROUND] in finalizers_of(new):
                self._waiting |= self._owners.dependents_of(uid_of(new))

    def _observe_namespace(self, key: ObjectKey, namespace: JsonObject | None) -> None:
        if namespace is not None and is_being_deleted(namespace):
            self._terminating.add(key.name)
        else:
            self._terminating.discard(key.name)

    def _observe_deletion(self, event: ObjectEvent) -> None:
        dependents = self._owners.dependents_of(uid_of(event.new))
        if dependents:
            self._gone.add(_identity(event))
            self._waiting |= dependents
        self._wait_for_owners(event.key, references_of(event.old))
        if event.key.kind == _NAMESPACE.name:
            self._terminating.discard(event.key.name)
        elif event.key.namespace in self._terminating and self._was_last(event.key):
            self._waiting[key_for(_NAMESPACE, "", event.key.namespace)] = None

    def _was_last(self, gone: ObjectKey) -> bool:
        """Return whether a deleted object was the last one of its namespace, or the last pod."""
        is_pod = gone.kind == _POD.name
        left = self._cluster.storage.keys_in(_POD, gone.namespace) if is_pod else self.contents_of(gone.namespace)
        return next(iter(left), None) is None

    def _wait_for_owners(self, key: ObjectKey, references: Iterable[OwnerReference]) -> None:
        """Plan the owners that may wait for a dependent."""
        for one in references:
            kind = self.kind_of(one.api_version, one.kind)
            owner = self.find(key_for(kind, key.namespace, one.name)) if kind is not None else None
            if owner is not None and is_being_deleted(owner):
                self._waiting[key_of(owner)] = None

    def _plan(self, key: ObjectKey) -> list[Action]:
        obj = self.find(key)
        actions = plan(self, key)
        if key.kind == _NAMESPACE.name and obj is not None and is_being_deleted(obj) and not actions:
            return plan_of_namespace(self, obj, self._now())
        return actions

    def _act(self, key: ObjectKey, action: Action) -> None:
        try:
            match action:
                case Deletion(key=deleted, uid=uid, policy=policy):
                    self._cluster.delete(deleted, uid=uid, policy=policy)
                case NewState(obj=obj):
                    self._cluster.replace(obj)
                case OwnerWarning():
                    what = "Warning", action.reason, action.message
                    self._cluster.record_event(event_about(action.obj, what, _COMPONENT, self._now()))
        except ApiError as error:  # an object beyond the limits of its size, for instance
            _log.warning("what follows from a deletion cannot be done for %s: %s", key, error)
            self._waiting.pop(key, None)

    def _now(self) -> str:
        return format_rfc3339(self._cluster.clock.now())

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""
        return self._cluster.storage.find(key)

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that a reference names; None if it is not served."""
        group = api_version.rpartition("/")[0]
        if (built_in := _BUILT_IN.get((group, kind))) is not None:
            return built_in
        custom = (one.kind for one in self._cluster.storage.kinds.custom().values())
        return next((one for one in custom if (one.api_group, one.name) == (group, kind)), None)

    def dependents_of(self, uid: str) -> Mapping[ObjectKey, None]:
        """Return the objects that have a reference to an owner."""
        return self._owners.dependents_of(uid)

    def is_blocked(self, uid: str, namespace: str) -> bool:
        """Return whether an owner, in a namespace or "" for none, has a dependent that keeps it."""
        return self._owners.is_blocked(uid, namespace)

    def is_gone(self, reference: OwnerReference, namespace: str) -> bool:
        """Return whether the owner that a reference in a namespace names is known to have been deleted."""
        group = reference.api_version.rpartition("/")[0]
        return any((group, reference.kind, where, reference.uid) in self._gone for where in ("", namespace))

    def has_elsewhere(self, kind: Kind, reference: OwnerReference) -> bool:
        """Return whether the owner that a reference names is in some namespace that has an object."""
        names = (namespace["metadata"]["name"] for namespace in self._cluster.storage.list(_NAMESPACE))
        found = (self.find(key_for(kind, name, reference.name)) for name in names)
        return any(one is not None and uid_of(one) == reference.uid for one in found)

    def contents_of(self, namespace: str) -> Iterator[tuple[Kind, ObjectKey]]:
        """Yield the objects in a namespace, with their kinds."""
        storage = self._cluster.storage
        custom = {one.kind.key_name: one.kind for one in storage.kinds.custom().values() if one.kind.namespaced}
        for kind in (*_NAMESPACED, *custom.values()):
            for key in storage.keys_in(kind, namespace):
                yield kind, key


def _identity(event: ObjectEvent) -> tuple[str, str, str, str]:
    """Return group, kind, namespace and uid of a deleted object."""
    obj = event.new
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"]), event.key.namespace, uid_of(obj)


def _nothing() -> None:
    """Begin a transaction, at whose end the plans are carried out."""


def _has_changed(old: JsonObject | None, new: JsonObject) -> bool:
    """Return whether an object's owner references have changed."""
    before = None if old is None else old["metadata"].get("ownerReferences")
    return bool(before != new["metadata"].get("ownerReferences"))
