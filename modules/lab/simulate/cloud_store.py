"""The cloud's object store as the simulation observes it."""

from collections.abc import Callable

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.storage.object_storage import EventType, Storage

Changed = Callable[[JsonObject, JsonObject], None]
"""Called with the old and the new state of a pod."""
Stored = Callable[[EventType, JsonObject, JsonObject | None], None]
"""Called with a change of any object, when it is stored: the object after and before it."""


class ObservedStore(Storage):
    """The cloud's objects; every change of a pod is reported immediately.

    Args:
        clock: as for `ObjectStore`.
        first_version: as for `ObjectStore`.
        pod_changed: called before each change of a pod.
        stored: called after each change.
    """

    def __init__(self, clock: Clock, first_version: int, pod_changed: Changed, stored: Stored | None = None) -> None:
        super().__init__(clock, first_version)
        self._pod_changed = pod_changed
        self._stored = stored

    def _store(self, change: EventType, key: ObjectKey, new: JsonObject, old: JsonObject | None) -> JsonObject:
        if change is EventType.MODIFIED and key.kind == "Pod" and old is not None:
            self._pod_changed(old, new)
        result = super()._store(change, key, new, old)
        if self._stored is not None:
            self._stored(change, result, old)
        return result
