"""The cloud's object store as the simulation observes it."""

from collections.abc import Callable
from typing import Any

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
        self._is_adopting = False

    def adopt(self, *args: Any, **kwargs: Any) -> None:
        """Apply the changes of other cloudcores, whose stores have reported them."""
        self._is_adopting = True
        super().adopt(*args, **kwargs)
        self._is_adopting = False

    def _record(
        self, change: EventType, key: ObjectKey, new: JsonObject, old: JsonObject | None, *args: Any, **kwargs: Any
    ) -> None:
        if change is EventType.MODIFIED and key.kind == "Pod" and old is not None and not self._is_adopting:
            self._pod_changed(old, new)
        super()._record(change, key, new, old, *args, **kwargs)
        if self._stored is not None and not self._is_adopting:
            self._stored(change, new, old)
