"""The objects that the stub's cloud is made of: an API server's storage, as it is in memory (see `database`).

Objects are ordinary JSON dictionaries, so nothing that the stub does not know of is lost. What is stored is
never changed in place: each change stores a new object, and the old one stays good for whoever holds it (a
message on its way to another thread, the old half of an event). Only the edgecontroller's actor calls this;
there are no locks.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from modules.edgecontroller.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConflictError,
    NotFoundError,
    TooLargeError,
)
from modules.edgecontroller.kinds import (
    JsonObject,
    Kind,
    ObjectKey,
    key_of,
    kind_named,
    metadata_of,
    uid_of,
    version_of,
)
from modules.edgecontroller.limits import OBJECT_BYTES
from modules.edgecontroller.shapes import check_form
from modules.edgecontroller.times import rfc3339

if TYPE_CHECKING:
    from beehive.clock import Clock


class Change(StrEnum):
    """What happened to an object; the values are those of Kubernetes' watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ObjectEvent(msgspec.Struct, frozen=True):
    """One change of one object."""

    change: Change
    key: ObjectKey
    new: JsonObject
    """The object after the change; after its deletion its last state, with the deletion's resourceVersion."""
    old: JsonObject | None = None
    body: bytes = b""
    """The object as JSON, of one that this cloudcore has changed."""


class ObjectStore:
    """Objects by key. Each change of any of them increases one counter, the resourceVersion.

    Args:
        clock: time and uids.
        first_version: where the counter begins. A stub that forgets its objects must go on above what it has
            handed out before, because edges compare versions.
    """

    def __init__(self, clock: "Clock", first_version: int = 1) -> None:
        self._clock = clock
        self._version = first_version
        self._objects: dict[ObjectKey, JsonObject] = {}
        self._of_kind: defaultdict[str, dict[ObjectKey, JsonObject]] = defaultdict(dict)
        """The same, by kind."""
        self._changed_at: dict[ObjectKey, float] = {}
        """Monotonic seconds at which each object was last seen to change, here or by another cloudcore."""
        self._events: deque[ObjectEvent] = deque()
        self._since: deque[ObjectEvent] = deque()
        """The changes since the savepoint, in order."""
        self._saved_version = first_version

    @property
    def version(self) -> int:
        """The resourceVersion of the latest change."""
        return self._version

    def take_events(self) -> list[ObjectEvent]:
        """The changes since the last call, in order; they are kept until somebody asks."""
        events = list(self._events)
        self._events.clear()
        return events

    def save(self) -> None:
        """Sets the savepoint, to which `roll_back` returns. No changes may wait to be taken."""
        self._since.clear()
        self._saved_version = self._version

    def roll_back(self) -> list[ObjectEvent]:
        """Undoes what has changed since the savepoint; gives that, latest first."""
        undone = list(reversed(self._since))
        for event in undone:
            if event.old is None:
                del self._objects[event.key], self._of_kind[event.key.kind][event.key]
                self._changed_at.pop(event.key, None)
            else:
                self._set(event.key, event.old)
        self._version = self._saved_version
        self._events.clear()
        self._since.clear()
        return undone

    def __iter__(self) -> Iterator[ObjectKey]:
        """The keys of all objects."""
        return iter(list(self._objects))

    def find(self, key: ObjectKey) -> JsonObject | None:
        """The object, or None. It must not be changed."""
        return self._objects.get(key)

    def unchanged_for(self, key: ObjectKey) -> float:
        """Seconds since an object was last seen to change, by this cloud's clock, whatever times it has in it."""
        now = self._clock.monotonic()
        return now - self._changed_at.get(key, now)

    def get(self, key: ObjectKey, uid: str = "") -> JsonObject:
        """The object. It must not be changed.

        Raises:
            NotFoundError: there is none.
            ConflictError: a uid is given and the object's is another.
        """
        obj = self._objects.get(key)
        if obj is None:
            kind = kind_named(key.kind)
            raise NotFoundError(kind.plural, key.name, kind.api_group)
        if uid and uid != uid_of(obj):
            raise _uid_conflict(key, uid, obj)
        return obj

    def select(self, kind: Kind, wanted: Callable[[JsonObject], bool]) -> list[JsonObject]:
        """Those objects of a kind that are wanted, ordered by namespace and name."""
        found = {key: obj for key, obj in self._of_kind[kind.name].items() if wanted(obj)}
        return [found[key] for key in sorted(found)]

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """The objects of a kind, in all namespaces or in one, ordered by namespace and name."""
        objects = self._of_kind[kind.name]
        return [objects[key] for key in sorted(objects) if namespace in (None, key.namespace)]

    def create(self, obj: JsonObject) -> JsonObject:
        """Stores a new object, with a uid, a creation time and a resourceVersion of the store's choice.

        Raises:
            AlreadyExistsError: there is one of that name.
            BadRequestError: it is not of its kind's form.
            TooLargeError: it is more than an object may be.
        """
        check_form(obj)
        key, kind = key_of(obj), kind_named(obj["kind"])
        if key in self._objects:
            raise AlreadyExistsError(kind.plural, key.name, kind.api_group)
        new = deepcopy(obj)
        meta = new["metadata"]
        meta["uid"] = self._clock.new_id()
        meta["creationTimestamp"] = rfc3339(self._clock.now())
        for name in ("deletionTimestamp", "generation"):
            meta.pop(name, None)
        if key.namespace:
            meta["namespace"] = key.namespace
        if kind.counts_generations:
            meta["generation"] = 1
        return self._store(Change.ADDED, key, new, None)

    def replace(self, obj: JsonObject) -> JsonObject:
        """Stores a new state of an object; a state equal to the old one changes nothing, as in Kubernetes.

        When the given object has a uid or a resourceVersion they must be the stored ones.

        Raises:
            NotFoundError: there is none to replace.
            ConflictError: the given object stems from another object or from another version of it.
            BadRequestError: it is not of its kind's form.
            TooLargeError: it is more than an object may be.
        """
        check_form(obj)
        key = key_of(obj)
        old = self.get(key, uid_of(obj))
        _check_version(key, old, obj)
        new = deepcopy(obj)
        meta, old_meta = new["metadata"], old["metadata"]
        for name in ("uid", "creationTimestamp", "resourceVersion", "generation", "namespace"):
            if name in old_meta:
                meta[name] = old_meta[name]
            else:
                meta.pop(name, None)
        if new == old:
            return old
        if "generation" in meta and _spec_changed(old, new):
            meta["generation"] = _generation_of(old) + 1
        return self._store(Change.MODIFIED, key, new, old)

    def remove(self, key: ObjectKey) -> JsonObject:
        """Forgets an object at once and gives its last state.

        Raises:
            NotFoundError: there is none.
        """
        old = self.get(key)
        return self._store(Change.DELETED, key, deepcopy(old), old)

    def restore(self, objects: Iterable[JsonObject]) -> None:
        """Takes over objects as they are, uids and versions with them, without an event."""
        for obj in objects:
            self._set(key_of(obj), obj)
            self._version = max(self._version, int(version_of(obj) or 0))

    def adopt(self, found: Iterable[tuple[ObjectKey, JsonObject | None]], version: int, *, complete: bool) -> None:
        """Takes over what another cloudcore has changed, with an event for each.

        Args:
            found: the objects as they are now; None: deleted.
            version: the newest resourceVersion.
            complete: what is not among the objects is not there any more.
        """
        adopted = dict(found)
        gone = [key for key in self._objects if key not in adopted] if complete else []
        for key, obj in [*((key, None) for key in gone), *adopted.items()]:
            old = self._objects.get(key)
            if old is not None and (obj is None or uid_of(old) != uid_of(obj)):
                meta = {**old["metadata"], "resourceVersion": str(version)}
                self._note(Change.DELETED, key, {**old, "metadata": meta}, old)
                old = None
            if obj is not None and obj != old:
                self._note(Change.MODIFIED if old else Change.ADDED, key, obj, old)
        self._version = max(self._version, version)
        self.save()

    def next_version(self) -> int:
        """A resourceVersion of its own, for what is no object."""
        self._version += 1
        return self._version

    def _store(self, change: Change, key: ObjectKey, new: JsonObject, old: JsonObject | None) -> JsonObject:
        new["metadata"]["resourceVersion"] = str(self._version + 1)
        body = b"" if change is Change.DELETED else _body_of(new)
        self._version += 1
        self._note(change, key, new, old, body)
        return new

    def _note(self, change: Change, key: ObjectKey, new: JsonObject, old: JsonObject | None, body: bytes = b"") -> None:
        if change is Change.DELETED:
            del self._objects[key], self._of_kind[key.kind][key]
            self._changed_at.pop(key, None)
        else:
            self._set(key, new)
        event = ObjectEvent(change, key, new, old, body)
        self._events.append(event)
        self._since.append(event)

    def _set(self, key: ObjectKey, obj: JsonObject) -> None:
        self._objects[key] = self._of_kind[key.kind][key] = obj
        self._changed_at[key] = self._clock.monotonic()


def _body_of(obj: JsonObject) -> bytes:
    try:
        body = msgspec.json.encode(obj)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequestError(f"{obj['kind']}: it has no JSON form: {error}") from error
    if len(body) > OBJECT_BYTES:
        raise TooLargeError(f"an object has at most {OBJECT_BYTES} bytes")
    return body


def _generation_of(obj: JsonObject) -> int:
    """As it was counted; of an object that has something else there, counting begins anew."""
    generation = metadata_of(obj).get("generation")
    return generation if isinstance(generation, int) else 0


def _spec_changed(old: JsonObject, new: JsonObject) -> bool:
    """Kubernetes counts a generation for a changed spec and for the beginning of a deletion."""
    marks = [metadata_of(obj).get("deletionTimestamp") for obj in (old, new)]
    return old.get("spec") != new.get("spec") or marks[0] != marks[1]


def _check_version(key: ObjectKey, old: JsonObject, new: JsonObject) -> None:
    if version_of(new) and version_of(new) != version_of(old):
        kind = kind_named(key.kind)
        why = "the object has been modified; please apply your changes to the latest version and try again"
        raise ConflictError(kind.plural, key.name, why, kind.api_group)


def _uid_conflict(key: ObjectKey, uid: str, old: JsonObject) -> ConflictError:
    kind = kind_named(key.kind)
    why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {uid_of(old)}"
    return ConflictError(kind.plural, key.name, why, kind.api_group)
