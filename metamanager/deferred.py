"""The changes of the store that wait for the commit of another one."""

from collections.abc import Callable
from typing import Final

from beehive import ResourceType
from metamanager.errors import StoreError
from metamanager.event_store import EventStore
from metamanager.rows import Row
from metamanager.store import Store

DEFERRED_SECONDS: Final = 5.0
"""Longest wait of a row, after which Linux, too, writes what nobody has flushed."""

DEFERRED_ROWS: Final = 64
"""Rows that wait at most."""


class DeferredRows:
    """The rows that are written with the next change: patches on their way to the cloud, and Events. With commits of
    their own, each status would flush the disk twice, and each Event once. A power cut may take those that wait.

    Args:
        store: the database.
        events: keeps the Events within their limit.
    """

    def __init__(self, store: Store, events: EventStore) -> None:
        self._store = store
        self._events = events
        self._rows: list[Row] = []
        self._kinds: set[str] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        self._kinds.add(row.type)

    def clear(self) -> None:
        """Drop all rows."""
        self._rows.clear()
        self._kinds.clear()

    def has(self, kind: str) -> bool:
        """Return whether a row of a type may wait."""
        return kind in self._kinds

    def write(self, failed: Callable[[StoreError], None]) -> None:
        """Write the rows without a commit; `failed` is called with the error of each that cannot be written."""
        rows, self._rows, self._kinds = self._rows, [], set()
        for row in rows:
            try:
                if row.type == ResourceType.EVENT:
                    self._events.put(row)
                else:
                    self._store.put(row)
            except StoreError as error:
                failed(error)
