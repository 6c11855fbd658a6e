"""EventRegistry: the stored Kubernetes Events, whose count is limited."""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final

from modules.apimachinery.kinds import (
    JsonObject,
    key_of,
    kind_named,
    metadata_of,
    reporter_of,
    uid_of,
    version_of,
)
from modules.cloud.storage.object_storage import Storage

_EVENT: Final = kind_named("Event")
_KEPT: Final = 1000
_SURPLUS: Final = 50
"""Events above that number after which they are removed, all together: to choose them is to go through all."""


def event_about(obj: JsonObject, what: tuple[str, str, str], component: str, now: str) -> JsonObject:
    """Return an Event about a state of an object.

    Args:
        obj: the stored object.
        what: its type, reason and message.
        component: who has seen it.
        now: the present time as Kubernetes writes it.
    """
    metadata = obj["metadata"]
    about = {
        "kind": obj["kind"],
        "apiVersion": obj["apiVersion"],
        **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
        "name": metadata["name"],
        "uid": uid_of(obj),
        "resourceVersion": version_of(obj),
    }
    name = f"{metadata['name'][:230]}.{uid_of(obj)[:8]}{version_of(obj)}"
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": metadata.get("namespace") or "default"},
        "involvedObject": about,
        "reason": what[1],
        "message": what[2],
        "type": what[0],
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


class EventRegistry:
    """The storage of Events, some thousand. Of more, the oldest are removed of who has reported the most in the
    namespace with the most.

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
        """Remove Events if there are too many."""
        if self._storage.count(_EVENT) <= _KEPT + _SURPLUS:
            return
        kept = self._storage.list(_EVENT)
        for event in _surplus(kept, len(kept) - _KEPT):
            self._storage.remove(key_of(event))


def _surplus(events: Sequence[JsonObject], number: int) -> Iterator[JsonObject]:
    """Yield as many Events as are to be removed.

    A user can make up reporters, but writes in some namespaces only. A node can leave the reporter out, but writes
    about itself and its pods only.
    """
    oldest_first = sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))
    spaces: defaultdict[str, defaultdict[str, deque[JsonObject]]] = defaultdict(lambda: defaultdict(deque))
    sizes: defaultdict[str, int] = defaultdict(int)
    for event in oldest_first:
        namespace = str(metadata_of(event).get("namespace") or "")
        spaces[namespace][reporter_of(event) or _subject_of(event)].append(event)
        sizes[namespace] += 1
    for _ in range(number):
        namespace = max(sizes, key=sizes.__getitem__)
        sizes[namespace] -= 1
        yield max(spaces[namespace].values(), key=len).popleft()


def _subject_of(event: JsonObject) -> str:
    about = event.get("involvedObject") or {}
    return f"{about.get('kind')}/{about.get('name')}"


def _without_version(obj: JsonObject) -> JsonObject:
    meta = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": meta}
