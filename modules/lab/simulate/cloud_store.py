"""The cloud's object store as the simulation observes it."""

from collections.abc import Callable

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, ObjectKey
from modules.cloud.storage.object_storage import EventType, Storage

Changed = Callable[[JsonObject, JsonObject], None]
"""Called with the old and the new state of a pod."""


class ObservedStore(Storage):
    """The cloud's objects; every change of a pod is reported immediately.

    Args:
        clock: as for `ObjectStore`.
        first_version: as for `ObjectStore`.
        pod_changed: called for each change of a pod.
    """

    def __init__(self, clock: Clock, first_version: int, pod_changed: Changed) -> None:
        super().__init__(clock, first_version)
        self._pod_changed = pod_changed

    def _store(self, change: EventType, key: ObjectKey, new: JsonObject, old: JsonObject | None) -> JsonObject:
        if change is EventType.MODIFIED and key.kind == "Pod" and old is not None:
            self._pod_changed(old, new)
        return super()._store(change, key, new, old)
