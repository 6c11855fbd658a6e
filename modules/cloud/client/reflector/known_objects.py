"""The objects that a reflector has told of, without their contents."""

from collections.abc import Iterator

from modules.cloud.client.reflector.effects import Added, Change, Deleted, Modified
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.client.reflector.request_state import is_lower


class KnownObjects:
    """The last uid and version of each object. Turns observations into changes; versions are compared by equality."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[str, str, int]] = {}
        """By namespace and name: uid, version and the last list that had it."""
        self._list = 0
        self._first_list = 0
        """The first list whose versions can be compared with later ones."""

    def __len__(self) -> int:
        return len(self._known)

    def has_newer(self, observed: ObservedObject) -> bool:
        """Return whether a list had an object in a newer version than the event's.

        The pages of a list may have objects that are newer than the list's version, if the server has no snapshots. A
        watch from that version then reports older states of these objects.
        """
        known = self._known.get((observed.namespace, observed.name))
        return known is not None and is_lower(observed.resource_version, known[1])

    def begin_list(self) -> None:
        """Note that a list begins; the observations until `end_list` are its entries."""
        self._list += 1

    def observe(self, observed: ObservedObject) -> Iterator[Change]:
        """Note that an object exists, and yield the changes; none for a version that is known.

        An object with another uid is another object: the known one is gone.
        """
        key = observed.namespace, observed.name
        known = self._known.get(key)
        self._known[key] = observed.uid, observed.resource_version, self._list
        if known is None:
            yield Added(observed)
        elif known[0] != observed.uid:
            yield _gone(key, known)
            yield Added(observed)
        elif known[1] != observed.resource_version or known[2] < self._first_list:
            yield Modified(observed)

    def forget_versions(self) -> None:
        """Note that the server gives versions a second time: objects that are observed later count as new even with a
        known version.
        """
        self._list += 1
        self._first_list = self._list

    def remove(self, observed: ObservedObject) -> Iterator[Change]:
        """Note that an object is gone, and yield its deletion; nothing if it was not known.

        If the known one has another uid, it is gone as well, since its name was free for this one.
        """
        key = observed.namespace, observed.name
        known = self._known.pop(key, None)
        if known is not None:
            yield Deleted(observed) if known[0] == observed.uid else _gone(key, known)

    def end_list(self) -> Iterator[Change]:
        """Yield the deletions of the known objects that the list did not have."""
        missing = [(key, known) for key, known in self._known.items() if known[2] != self._list]
        for key, known in missing:
            del self._known[key]
            yield _gone(key, known)


def _gone(key: tuple[str, str], known: tuple[str, str, int]) -> Deleted:
    return Deleted(ObservedObject(*key, known[0], known[1]))
