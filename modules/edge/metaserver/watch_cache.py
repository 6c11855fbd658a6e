"""The cache behind the API's lists and watches, like an API server's watchCache."""

import contextlib
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from beehive.wakeup import Wakeup
from modules.edge.metaserver.compose import LiveStatus, compose

HISTORY_CHANGES: Final = 1000
HISTORY_BYTES: Final = 8 * 1024 * 1024
"""Bounds of the history, and so of the oldest revision of a watch's begin."""


class CacheKey(NamedTuple):
    """Identity of an object in the cache."""

    token: str
    """The store's type token of the kind."""
    namespace: str
    """Empty for cluster-scoped kinds."""
    name: str


class CacheChange(NamedTuple):
    """A change of one object, with its texts before and after; None where it did not exist."""

    revision: int
    key: CacheKey
    before: bytes | None
    after: bytes | None


class TooOldError(Exception):
    """The history begins after the requested revision."""


class WatchCache:
    """All objects of the node at one revision, and the latest changes.

    Clients list, then watch from the list's revision. The revisions are the cache's own, because it combines the store,
    whose objects have the cloud's resourceVersions, with edged, whose statuses have none. They begin above the cloud's
    and again at each start of the process; a client with a revision from elsewhere or from before must list again
    (410).

    It takes the memory of the served kinds' objects, once, and of the bounded history. metamanager's and edged's
    threads write it and the server's threads read it; the lock is held for as long as copying a list takes.

    Args:
        first_revision: greater than all earlier revisions.
        history: number of changes that are kept.
        history_bytes: bytes of changes that are kept.
    """

    def __init__(self, first_revision: int, history: int = HISTORY_CHANGES, history_bytes: int = HISTORY_BYTES) -> None:
        self._lock = threading.Lock()
        self._revision = first_revision
        self._forgotten = first_revision
        self._rows: dict[CacheKey, bytes] = {}
        self._statuses: dict[str, Mapping[CacheKey, tuple[LiveStatus, ...]]] = {}
        self._objects: dict[CacheKey, bytes] = {}
        self._history: deque[CacheChange] = deque()
        self._limits = (history, history_bytes)
        self._size = 0
        self._listeners: set[Wakeup] = set()
        self.loaded = False
        """Whether the store has been read."""

    @property
    def revision(self) -> int:
        """The current revision."""
        with self._lock:
            return self._revision

    def load(self, rows: Mapping[CacheKey, bytes]) -> None:
        """Replace all rows of the store."""
        with self._lock:
            gone = self._rows.keys() - rows.keys()
            self._rows = dict(rows)
            self._renew([*gone, *rows])
            self.loaded = True

    def apply_store_changes(self, changes: Iterable[tuple[CacheKey, bytes | None]]) -> None:
        """Apply rows that were put into the store, or deleted (None)."""
        with self._lock:
            keys = []
            for key, row in changes:
                keys.append(key)
                if row is None:
                    self._rows.pop(key, None)
                else:
                    self._rows[key] = row
            self._renew(keys)

    def set_live_statuses(self, token: str, statuses: Mapping[CacheKey, tuple[LiveStatus, ...]]) -> None:
        """Replace all statuses that edged has of a kind."""
        with self._lock:
            known = self._statuses.get(token, {})
            self._statuses[token] = statuses
            self._renew([key for key in {**known, **statuses} if known.get(key) != statuses.get(key)])

    def get(self, key: CacheKey) -> bytes | None:
        """Return an object's JSON text, None without one."""
        with self._lock:
            return self._objects.get(key)

    def objects(self, token: str, namespace: str = "") -> tuple[int, list[tuple[CacheKey, bytes]]]:
        """Return the revision, and a kind's objects in one namespace or (empty) in all, in the order of their keys."""
        with self._lock:
            revision = self._revision
            found = [
                (key, text)
                for key, text in self._objects.items()
                if key.token == token and namespace in ("", key.namespace)
            ]
        return revision, sorted(found)

    def since(self, revision: int, token: str) -> tuple[int, list[CacheChange]]:
        """Return the current revision, and the changes of a kind after `revision`.

        Raises:
            TooOldError: the history does not have all of them.
        """
        with self._lock:
            if not self._forgotten <= revision <= self._revision:
                raise TooOldError
            return self._revision, [one for one in self._history if one.revision > revision and one.key.token == token]

    def knows(self, revision: int) -> bool:
        """Return whether the history has all changes after a revision."""
        with self._lock:
            return self._forgotten <= revision <= self._revision

    @contextlib.contextmanager
    def listening(self) -> Iterator[Wakeup]:
        """Yield a wakeup that is set after each change."""
        with contextlib.closing(Wakeup()) as wakeup:
            with self._lock:
                self._listeners.add(wakeup)
            try:
                yield wakeup
            finally:
                with self._lock:
                    self._listeners.discard(wakeup)

    def _renew(self, keys: Iterable[CacheKey]) -> None:
        was = self._revision
        for key in keys:
            before = self._objects.get(key)
            after = compose(self._rows.get(key), self._statuses.get(key.token, {}).get(key, ()))
            if after != before:
                self._record(key, before, after)
        if self._revision != was:
            for wakeup in self._listeners:
                wakeup.wake()

    def _record(self, key: CacheKey, before: bytes | None, after: bytes | None) -> None:
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        self._revision += 1
        change = CacheChange(self._revision, key, before, after)
        self._history.append(change)
        self._size += _size(change)
        most, most_bytes = self._limits
        while len(self._history) > most or self._size > most_bytes:
            oldest = self._history.popleft()
            self._size -= _size(oldest)
            self._forgotten = oldest.revision


def _size(change: CacheChange) -> int:
    return len(change.before or b"") + len(change.after or b"")
