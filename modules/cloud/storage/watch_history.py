"""The latest changes of each kind, so that a watch can begin at an earlier resourceVersion, also after a restart."""

from collections import defaultdict, deque
from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject, key_kind, version_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent, Storage, StoredChange
from modules.cloud.storage.stored_changes import StoredHistory

CHANGES: Final = 1000
BYTES: Final = 2 * 1024 * 1024
"""Bounds of the history of one kind."""
FORGET_EVERY: Final = 100
"""Changes of a kind beyond these bounds that the database keeps, before it deletes them together."""


class ObjectChanged(msgspec.Struct, frozen=True, gc=False):
    """A change of an object, for watches."""

    change: str
    """ADDED, MODIFIED or DELETED."""
    object: JsonObject
    """The object after the change; its last state when it was deleted."""
    old: JsonObject | None = None
    """The object before the change."""
    body: bytes = b""
    """The object as JSON without `managedFields`, if it is at hand; only changes that are just committed have it."""
    is_selected_alike: bool = False
    """Whether it is known that each selector selects both states of the object, or none."""
    is_of_status: bool = False
    """Whether it is known that nothing but the status was changed, and the version with it."""

    @property
    def kind(self) -> str:
        """The kind as in keys of objects."""
        return key_kind(self.object)

    @property
    def version(self) -> int:
        """The resourceVersion of the change."""
        return int(self.object["metadata"].get("resourceVersion") or 0)


class ObjectChanges(msgspec.Struct, frozen=True):
    """The changes of a transaction, in order."""

    changes: tuple[ObjectChanged, ...]


class WatchQuery(msgspec.Struct, frozen=True):
    """The beginning of a watch."""

    kind: str
    version: int | None = None
    """The resourceVersion after which it begins; None begins with all present objects."""


class WatchStart(msgspec.Struct, frozen=True):
    """The first events of a watch; events of later versions follow."""

    version: int = 0
    changes: list[ObjectChanged] = []
    refusal: JsonObject | None = None
    """The metav1.Status of an error."""


class WatchHistory:
    """The latest changes of each kind; each kind's own, because leases change more often than all others together.

    Args:
        storage: the present objects.
        stored: the changes that the database has kept; None: no changes.
    """

    def __init__(self, storage: Storage, stored: StoredHistory | None = None) -> None:
        self._storage = storage
        self._began = {"": storage.version} if stored is None else stored.began
        self._unknown_before = dict(storage.unknown_until)
        """Kinds that were unknown then are in `_began`."""
        self._changes: defaultdict[str, deque[tuple[ObjectChanged, int]]] = defaultdict(deque)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._forgotten: dict[str, int] = {}
        self._forgettable: dict[str, int] = {}
        """By kind, how many changes were forgotten since the database was told."""
        self._newest = storage.version
        if stored is not None:
            self._restore(stored)

    def record(self, event: ObjectEvent) -> ObjectChanged:
        """Add a committed change, and return it for the running watches."""
        alike, is_of_status = event.is_selected_alike, event.is_of_status
        kept = ObjectChanged(event.type, event.new, event.old, b"", alike, is_of_status)
        self._add(event.key.kind, kept, event.size)
        bare = event.bare
        return ObjectChanged(event.type, event.new, event.old, bare, alike, is_of_status) if bare else kept

    def drain_forgotten(self) -> dict[str, int]:
        """Return the kinds with many changes in the database that this history has not, and the last version that
        it may forget them. They count as forgotten there then.
        """
        found = {kind: self._forgotten[kind] for kind, count in self._forgettable.items() if count >= FORGET_EVERY}
        for kind in found:
            del self._forgettable[kind]
        return found

    def _add(self, kind: str, changed: ObjectChanged, size: int) -> None:
        self._changes[kind].append((changed, size))
        self._bytes[kind] += size
        self._newest = max(self._newest, int(changed.object["metadata"].get("resourceVersion") or 0))
        while len(self._changes[kind]) > CHANGES or self._bytes[kind] > BYTES:
            oldest, its_size = self._changes[kind].popleft()
            self._bytes[kind] -= its_size
            self._forgotten[kind] = max(self._forgotten.get(kind, 0), oldest.version)
            self._forgettable[kind] = self._forgettable.get(kind, 0) + 1

    def _restore(self, stored: StoredHistory) -> None:
        """Take over stored changes. A damaged change is not known, nor are earlier changes of its kind; so it is with
        a former state of a Secret, if a selector could tell it from the one before.
        """
        for change in stored.changes:
            kind = change.key.kind
            try:
                changed, size = self._restored(change)
            except msgspec.DecodeError:
                self._forgotten[kind] = change.version
                continue
            if changed is not None:
                self._add(kind, changed, size)
            elif change.type is EventType.ADDED or change.old is not None:
                self._forgotten[kind] = change.version

    def _restored(self, change: StoredChange) -> tuple[ObjectChanged | None, int]:
        """Return a change and its bytes; None for a state of a Secret that is not its present one."""
        if change.body is None:
            obj = self._storage.find(change.key)
            if obj is None or version_of(obj) != str(change.version):
                return None, 0
            size = len(msgspec.json.encode(obj))
        else:
            obj, size = decode_json(change.body, dict), len(change.body)
        is_changed = change.type is EventType.MODIFIED
        old = decode_json(change.old, dict) if change.old is not None else obj if is_changed else None
        return ObjectChanged(change.type, obj, old), size

    def _floor(self, kind: str) -> int:
        """Return the version after which all changes of a kind are known."""
        until, before = self._storage.unknown_until, self._unknown_before
        unknown = [until[each] for each in ("", kind) if until.get(each, 0) > before.get(each, 0)]
        return max(
            self._storage.first_version, self._began.get(kind, self._began[""]), self._forgotten.get(kind, 0), *unknown
        )

    def start(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch; a refusal with 410 when the history begins after its version."""
        if query.version is None:
            objects = self._storage.list(self._storage.kinds.named(query.kind))
            changes = [ObjectChanged(EventType.ADDED, obj) for obj in objects]
            return WatchStart(self._storage.version, changes)
        if not self._floor(query.kind) <= query.version <= self._storage.version:
            return WatchStart(refusal=too_old(query.version, self._newest).status())
        later = [one for one, _ in self._changes[query.kind] if one.version > query.version]
        return WatchStart(max(query.version, self._newest), later)


def too_old(version: int, known: int) -> ApiStatusError:
    """Return the error of a watch that begins before the history, with a possible first version."""
    return ApiStatusError(410, f"too old resource version: {version} ({known})")
