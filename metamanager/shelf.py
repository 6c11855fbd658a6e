"""The newest few objects of a kind: what is kept for people to read must not fill the disk.

A node records events for as long as it lives. The store keeps so many of them as the newest; the oldest make room, by
their keys, in the transaction that brings a new one.
"""

from collections import OrderedDict
from typing import Final, Protocol

from metamanager.rows import Row, head_of, last_time_of

EVENTS_KEPT: Final = 500
"""Events in the store: some 400 kB. An API server forgets them after an hour."""


class Rows(Protocol):
    """What of a store is needed."""

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        """See `metamanager.store.Store`."""

    def put(self, row: Row) -> bool:
        """See `metamanager.store.Store`."""

    def delete(self, key: str, uid: str = "") -> bool:
        """See `metamanager.store.Store`."""


class Shelf:
    """See the module's docstring. A batch that is lost may leave one more in the store until the next start.

    Args:
        store: that keeps.
        kind: of objects.
        room: how many are kept.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Rows, kind: str, room: int) -> None:
        self._store = store
        self._room = room
        self._keys: OrderedDict[str, None] = OrderedDict()
        for value in sorted(store.get_all(kind), key=last_time_of):
            head = head_of(value.encode())
            self._keys[f"{head.namespace}/{kind}/{head.name}"] = None

    def put(self, row: Row) -> bool:
        """Store an object; the oldest may go for it. Raises StoreWriteError."""
        stored = self._store.put(row)
        self._keys[row.key] = None
        self._keys.move_to_end(row.key)
        while len(self._keys) > self._room:
            oldest, _ = self._keys.popitem(last=False)
            self._store.delete(oldest)
        return stored
