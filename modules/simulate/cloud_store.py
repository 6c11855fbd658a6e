"""The cloud's objects, of which the simulation sees every change at the moment it is made."""

from collections.abc import Callable

from beehive.clock import Clock
from modules.edgecontroller.kinds import JsonObject, ObjectKey
from modules.edgecontroller.store import Change, ObjectStore

Changed = Callable[[JsonObject, JsonObject], None]
"""Takes the old and the new state of a pod."""


class WatchedStore(ObjectStore):
    """See the module's docstring.

    Args:
        clock: as `ObjectStore`.
        first_version: likewise.
        pod_changed: told of each change of a pod.
    """

    def __init__(self, clock: Clock, first_version: int, pod_changed: Changed) -> None:
        super().__init__(clock, first_version)
        self._pod_changed = pod_changed

    def _store(self, change: Change, key: ObjectKey, new: JsonObject, old: JsonObject | None) -> JsonObject:
        if change is Change.MODIFIED and key.kind == "Pod" and old is not None:
            self._pod_changed(old, new)
        return super()._store(change, key, new, old)
