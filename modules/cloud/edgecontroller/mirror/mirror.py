"""The objects of a cluster, with an event for each change."""

import logging
from collections.abc import Callable, Iterable, Mapping

from beehive.decoding import encode_to_keep
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey
from modules.apimachinery.lister import Revision
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.edgecontroller.mirror.mirrored_bodies import (
    HAVE_PARTS,
    Mirrored,
    MirroredBodies,
    compact,
    partial_object,
)
from modules.cloud.storage.object_storage import NOTHING_DELETED, EventType, ObjectEvent, StoredChange

_log = logging.getLogger(__name__)


def _always(_key: ObjectKey, _obj: JsonObject, _size: int) -> bool:
    return True


class Mirror:
    """The objects that an API server has told of, with an event for each change (`ObjectStore`).

    The objects themselves are in `bodies`. Of pods, configmaps and secrets that no node needs here only a part is kept
    (`partial_object`). Only edgecontroller's thread calls this.

    Args:
        keeps: returns whether the body of a pod, configmap or secret, of so many bytes, is kept when the API server
            sends it.
    """

    def __init__(self, keeps: Callable[[ObjectKey, JsonObject, int], bool] = _always) -> None:
        self.bodies = MirroredBodies()
        self._keeps = keeps
        self.version = 1
        """The latest version that was given; the versions of objects are the API server's."""
        self.events: list[ObjectEvent] = []
        self._since: list[tuple[ObjectEvent, Mirrored | None]] = []
        """The changes since the savepoint, in order, each with the earlier object."""
        self._saved_version = self.version

    def next_version(self) -> int:
        """Return a new version for a row of the database."""
        self.version += 1
        return self.version

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return the object, or its kept part, or None. It must not be changed."""
        return self.bodies.find(key)

    def revision_of(self, key: ObjectKey) -> Revision | None:
        """Return the uid and resourceVersion of an object, or None."""
        mirrored = self.bodies.get(key)
        return None if mirrored is None else Revision(mirrored.uid, mirrored.version)

    def observe(self, kind: Kind, observed: ObservedObject) -> None:
        """Take over an object that exists. An equal state is no change. An object that cannot be read is dropped, with
        a line in the log. An object that was here in part, and comes with its body now, is added with the part as its
        earlier state.
        """
        read = compact(kind, observed)
        if read is None:
            return
        obj, body = read
        key = tuple.__new__(ObjectKey, (kind.key_name, observed.namespace, observed.name))  # in C
        known = self.bodies.get(key)
        is_next = bool(observed.status_of) and known is not None and known.version == observed.status_of
        is_kept = is_next and known is not None and known.is_whole  # a status does not change where a pod is needed
        is_whole = is_kept or key.kind not in HAVE_PARTS or self._keeps(key, obj, len(body))
        if not is_whole:
            obj = partial_object(obj)
            body = encode_to_keep(obj)
        is_shared = is_whole and observed.shared is not None
        old = None if known is None else known.kept if isinstance(known.kept, dict) else self.find(key)
        was_partial = known is not None and not known.is_whole
        if known is not None and old is not None and known.uid != observed.uid:
            self._remove(key, old, known, known.version)
            known = old = None
        now = Mirrored(observed.uid, observed.resource_version, obj if is_shared else body, is_whole)
        if is_next and old is not None and is_shared and not was_partial:
            event = ObjectEvent(EventType.MODIFIED, key, obj, old, is_of_status=True)
            self._record(event, known, now, body)
        elif obj != old:
            change = EventType.ADDED if old is None or (was_partial and is_whole) else EventType.MODIFIED
            self._record(ObjectEvent(change, key, obj, old), known, now, body if is_shared else obj)
        elif was_partial:
            self.bodies.put(key, now)

    def remove(self, key: ObjectKey, version: str = "") -> None:
        """Take over that an object was deleted; nothing if it is not here.

        Args:
            key: the object.
            version: the resourceVersion of the deletion; "" leaves the last one.
        """
        known, old = self.bodies.get(key), self.find(key)
        if known is not None and old is not None:
            self._remove(key, old, known, version or known.version)

    def drain_events(self) -> list[ObjectEvent]:
        """Return the changes since the last call, in order."""
        events, self.events = self.events, []
        return events

    def set_savepoint(self) -> None:
        """Set the savepoint of `roll_back`. All events must have been taken."""
        self._since.clear()
        self._saved_version = self.version

    def roll_back(self) -> list[ObjectEvent]:
        """Undo the changes since the savepoint, and return them, newest first."""
        undone = list(reversed(self._since))
        for event, before in undone:
            self.bodies.put(event.key, before)
        self.version = self._saved_version
        self.events.clear()
        self._since.clear()
        return [event for event, _ in undone]

    def adopt(
        self,
        found: Iterable[tuple[ObjectKey, JsonObject | None]],
        version: int,
        *,
        complete: bool,
        changes: Iterable[StoredChange] = (),  # noqa: ARG002 - with the changes of objects
        deleted: Mapping[ObjectKey, int] = NOTHING_DELETED,  # noqa: ARG002 - as those
        has_gap: bool = False,  # noqa: ARG002 - as those
    ) -> None:
        """Go on with a version of other cloudcores. The database has no objects of a cluster."""
        if complete or [*found]:
            _log.error("the database has objects, but they are the cluster's: they are not used")
        self.version = max(self.version, version)
        self.set_savepoint()

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one, ordered by namespace and name."""
        return self.bodies.list(kind, namespace)

    def _remove(self, key: ObjectKey, old: JsonObject, known: Mirrored, version: str) -> None:
        last = {**old["metadata"], "resourceVersion": version}
        self._record(ObjectEvent(EventType.DELETED, key, {**old, "metadata": last}, old), known, None)

    def _record(
        self,
        event: ObjectEvent,
        before: Mirrored | None,
        now: Mirrored | None,
        other: JsonObject | bytes | None = None,
    ) -> None:
        self.events.append(event)
        self._since.append((event, before))
        self.bodies.put(event.key, now, other)
