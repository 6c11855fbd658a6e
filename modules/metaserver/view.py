"""What the node knows, as the API tells it: all objects at one revision, and the changes that led there.

Kubernetes' clients list, and watch on from the revision of the list. The revisions here are our own, because what is
told comes from two sides: from the store, whose objects have the cloud's resourceVersions, and from edged, whose
statuses have none. They begin above what a cloud counts to, and anew at each start, so that one from elsewhere or from
before is known as such; whoever comes with it is told to list again (410), as by an API server that has forgotten.

The memory that this takes is that of the store's objects of the kinds served, once, and of the history, which is
bounded. Written by metamanager's thread and edged's, read by the server's; nobody holds the lock for longer than it
takes to copy a list.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from modules.metaserver.compose import Live, compose

HISTORY_CHANGES: Final = 1000
HISTORY_BYTES: Final = 8 * 1024 * 1024
"""How much of the past a watch may begin in."""


class Key(NamedTuple):
    """Whose object it is."""

    token: str
    """The store's name of the kind."""
    namespace: str
    """Empty for what belongs to the cluster."""
    name: str


class Change(NamedTuple):
    """An object that has become another one."""

    revision: int
    key: Key
    before: bytes | None
    after: bytes | None


class TooOldError(Exception):
    """The history does not reach back to that revision."""


class View:
    """See the module's docstring.

    Args:
        first_revision: above all that were handed out before.
        history: changes that are kept.
        history_bytes: of them, as many as fit.
    """

    def __init__(self, first_revision: int, history: int = HISTORY_CHANGES, history_bytes: int = HISTORY_BYTES) -> None:
        self._lock = threading.Lock()
        self._revision = first_revision
        self._forgotten = first_revision
        self._rows: dict[Key, bytes] = {}
        self._lives: dict[str, Mapping[Key, tuple[Live, ...]]] = {}
        self._objects: dict[Key, bytes] = {}
        self._history: deque[Change] = deque()
        self._limits = (history, history_bytes)
        self._size = 0
        self._listeners: set[int] = set()
        self.loaded = False
        """Whether the store has said what it has."""

    @property
    def revision(self) -> int:
        """The present one."""
        with self._lock:
            return self._revision

    def load(self, rows: Mapping[Key, bytes]) -> None:
        """This is all that the store has."""
        with self._lock:
            gone = self._rows.keys() - rows.keys()
            self._rows = dict(rows)
            self._renew([*gone, *rows])
            self.loaded = True

    def store_changed(self, changes: Iterable[tuple[Key, bytes | None]]) -> None:
        """Rows of the store have been put, or (None) deleted."""
        with self._lock:
            keys = []
            for key, row in changes:
                keys.append(key)
                if row is None:
                    self._rows.pop(key, None)
                else:
                    self._rows[key] = row
            self._renew(keys)

    def live_is(self, token: str, lives: Mapping[Key, tuple[Live, ...]]) -> None:
        """This is all that edged knows of a kind."""
        with self._lock:
            known = self._lives.get(token, {})
            self._lives[token] = lives
            self._renew([key for key in {**known, **lives} if known.get(key) != lives.get(key)])

    def get(self, key: Key) -> bytes | None:
        """The object's JSON text."""
        with self._lock:
            return self._objects.get(key)

    def objects(self, token: str, namespace: str = "") -> tuple[int, list[tuple[Key, bytes]]]:
        """The revision, and the objects of a kind in one namespace or (empty) in all, in the order of their keys."""
        with self._lock:
            revision = self._revision
            found = [
                (key, text)
                for key, text in self._objects.items()
                if key.token == token and namespace in ("", key.namespace)
            ]
        return revision, sorted(found)

    def since(self, revision: int, token: str) -> tuple[int, list[Change]]:
        """The present revision, and the changes of a kind after another one.

        Raises:
            TooOldError: not all of them are known.
        """
        with self._lock:
            if not self._forgotten <= revision <= self._revision:
                raise TooOldError
            return self._revision, [one for one in self._history if one.revision > revision and one.key.token == token]

    def knows(self, revision: int) -> bool:
        """Whether all changes after a revision are known."""
        with self._lock:
            return self._forgotten <= revision <= self._revision

    @contextlib.contextmanager
    def listening(self) -> Iterator[int]:
        """A file descriptor that can be read from whenever something has changed; see `heard`."""
        descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        with self._lock:
            self._listeners.add(descriptor)
        try:
            yield descriptor
        finally:
            with self._lock:
                self._listeners.discard(descriptor)
            os.close(descriptor)

    def _renew(self, keys: Iterable[Key]) -> None:
        was = self._revision
        for key in keys:
            before = self._objects.get(key)
            after = compose(self._rows.get(key), self._lives.get(key.token, {}).get(key, ()))
            if after != before:
                self._note(key, before, after)
        if self._revision != was:
            for descriptor in self._listeners:
                os.eventfd_write(descriptor, 1)

    def _note(self, key: Key, before: bytes | None, after: bytes | None) -> None:
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        self._revision += 1
        change = Change(self._revision, key, before, after)
        self._history.append(change)
        self._size += _size(change)
        most, most_bytes = self._limits
        while len(self._history) > most or self._size > most_bytes:
            oldest = self._history.popleft()
            self._size -= _size(oldest)
            self._forgotten = oldest.revision


def heard(descriptor: int) -> None:
    """Have a descriptor of `View.listening` wait for the next change."""
    with contextlib.suppress(BlockingIOError):
        os.eventfd_read(descriptor)


def _size(change: Change) -> int:
    return len(change.before or b"") + len(change.after or b"")
