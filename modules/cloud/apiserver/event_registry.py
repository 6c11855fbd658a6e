"""EventRegistry: the stored Kubernetes Events, whose count is limited."""

from collections import Counter
from typing import Final

from modules.apimachinery.kinds import JsonObject, key_of, kind_named, reporter_of
from modules.cloud.storage.object_storage import Storage

_EVENT: Final = kind_named("Event")
_KEPT: Final = 1000


class EventRegistry:
    """Stores Events. Above a thousand, the oldest of the node that has reported the most is removed.

    Args:
        storage: has the objects.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, event: JsonObject) -> None:
        """Store an Event, or a new state of one, whatever its resourceVersion.

        Raises:
            ApiError: it is not an Event.
        """
        if self._storage.find(key_of(event)) is None:
            self._storage.create(event)
        else:
            self._storage.replace(_without_version(event))
        self.remove_surplus()

    def remove_surplus(self) -> None:
        """Remove one Event if there are too many."""
        kept = self._storage.list(_EVENT)
        if len(kept) > _KEPT:
            self._storage.remove(key_of(_oldest_of_the_most(kept)))


def _oldest_of_the_most(events: list[JsonObject]) -> JsonObject:
    reported = Counter(reporter_of(event) for event in events)
    most = max(reported, key=reported.__getitem__)
    of_most = (event for event in events if reporter_of(event) == most)
    return min(of_most, key=lambda event: int(event["metadata"]["resourceVersion"]))


def _without_version(obj: JsonObject) -> JsonObject:
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}
