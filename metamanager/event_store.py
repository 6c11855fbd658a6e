"""The newest events of this node, within a limit."""

from collections import OrderedDict
from typing import Final, Protocol

from metamanager.rows import Row, head_of, order_of_event

EVENTS_KEPT: Final = 500
"""Events in the store, some 400 kB. An API server deletes them after an hour."""


class Rows(Protocol):
    """The part of `metamanager.store.Store` that is used here."""

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        """Return the values of a type."""

    def put(self, row: Row) -> bool:
        """Insert or replace a row."""

    def delete(self, key: str, uid: str = "") -> bool:
        """Delete a row."""


class EventStore:
    """A store of the newest objects of a type: a new one deletes the oldest beyond the limit, in the same transaction.

    A lost transaction may leave one object too many until the next start.

    Args:
        store: the database.
        kind: type of the objects.
        room: number of objects to keep.

    Raises:
        StoreError: the store cannot be read.
    """

    def __init__(self, store: Rows, kind: str, room: int) -> None:
        self._store = store
        self._room = room
        self._keys: OrderedDict[str, None] = OrderedDict()
        for value in sorted(store.get_all(kind), key=order_of_event):
            head = head_of(value.encode())
            self._keys[f"{head.namespace}/{kind}/{head.name}"] = None

    def put(self, row: Row) -> bool:
        """Store an object and delete the oldest beyond the limit. Raises StoreWriteError."""
        stored = self._store.put(row)
        self._keys[row.key] = None
        self._keys.move_to_end(row.key)
        while len(self._keys) > self._room:
            oldest, _ = self._keys.popitem(last=False)
            self._store.delete(oldest)
        return stored
