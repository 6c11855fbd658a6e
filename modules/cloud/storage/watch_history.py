"""The latest changes of each kind, so that a watch can begin at an earlier resourceVersion."""

from collections import defaultdict, deque
from typing import Final

import msgspec

from modules.apimachinery.errors import ApiStatusError
from modules.apimachinery.kinds import JsonObject, key_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent, Storage

CHANGES: Final = 1000
BYTES: Final = 2 * 1024 * 1024
"""Bounds of the history of one kind."""


class ObjectChanged(msgspec.Struct, frozen=True):
    """A change of an object, for watches."""

    change: str
    """ADDED, MODIFIED or DELETED."""
    object: JsonObject
    """The object after the change; its last state when it was deleted."""
    old: JsonObject | None = None
    """The object before the change."""

    @property
    def kind(self) -> str:
        """The kind as in keys of objects."""
        return key_of(self.object).kind

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
    """The events with which a watch begins; those of later versions follow."""

    version: int = 0
    changes: list[ObjectChanged] = []
    refusal: JsonObject | None = None
    """The metav1.Status of an error."""


class WatchHistory:
    """The latest changes of each kind; each kind's own, because leases change more often than all others together.

    Args:
        storage: the present objects.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._began = storage.version
        self._changes: defaultdict[str, deque[tuple[ObjectChanged, int]]] = defaultdict(deque)
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._forgotten: dict[str, int] = {}
        self._newest = storage.version

    def note(self, event: ObjectEvent) -> ObjectChanged:
        """Adds a committed change, and returns it for the running watches."""
        changed = ObjectChanged(event.type, event.new, event.old)
        kind, size = event.key.kind, event.size
        self._changes[kind].append((changed, size))
        self._bytes[kind] += size
        self._newest = max(self._newest, changed.version)
        while len(self._changes[kind]) > CHANGES or self._bytes[kind] > BYTES:
            oldest, its_size = self._changes[kind].popleft()
            self._bytes[kind] -= its_size
            self._forgotten[kind] = max(self._forgotten.get(kind, 0), oldest.version)
        return changed

    def start(self, query: WatchQuery) -> WatchStart:
        """Returns the beginning of a watch; a refusal with 410 when the history begins after its version."""
        if query.version is None:
            objects = self._storage.list(self._storage.kinds.named(query.kind))
            changes = [ObjectChanged(EventType.ADDED, obj) for obj in objects]
            return WatchStart(self._storage.version, changes)
        if not self._forgotten.get(query.kind, self._began) <= query.version <= self._storage.version:
            return WatchStart(refusal=too_old(query.version, self._newest).status())
        later = [one for one, _ in self._changes[query.kind] if one.version > query.version]
        return WatchStart(max(query.version, self._newest), later)


def too_old(version: int, known: int) -> ApiStatusError:
    """Return the error of a watch that begins before the history, with a version at which one may begin."""
    return ApiStatusError(410, f"too old resource version: {version} ({known})")
