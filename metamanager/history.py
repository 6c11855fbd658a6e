"""The history of each object: its last changes with time and cause (`edgecore store history|diff`)."""

import sqlite3
from functools import lru_cache
from typing import Final, NamedTuple

from beehive import ResourceType
from beehive.trace.redact import Redactor
from metamanager import statements as sql
from metamanager.rows import UNNOTED, Cause, Row

KEPT: Final = 10
"""Changes kept of each object."""

BUDGET: Final = 8 * 1024 * 1024
"""Characters of all changes together, each with `OVERHEAD`."""

LARGEST: Final = 64 * 1024
"""Largest kept state in characters; of larger ones only the size is noted. They would be written twice, and a few would
fill the budget."""

OVERHEAD: Final = 200
"""Characters that count for a change besides its text."""

TRIM_EVERY: Final = 256
"""Changes between two trims; until then an object may have this many more than `KEPT`."""

MARK_KEY: Final = b"edgecore history"

_UNTOLD: Final = (ResourceType.EVENT, ResourceType.STORE, ResourceType.DEVICE_TWIN)
_DROPPED_AT_ONCE: Final = 500
_MOST_ROWS: Final = 64
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?, ?)"


class _Note(NamedTuple):
    """A row of table `edgecore_history`, with the columns of `sql.NOTE` in their order."""

    key: str
    at: int
    cause: str
    message: str
    uid: str
    resource_version: int | None
    size: int | None
    value: str | None


class History:
    """The changes, each noted in the transaction that makes it. All methods raise `sqlite3.Error`.

    A note has the whole new state, because to compute a difference would delay the cloud's acknowledgement. The number
    of notes is limited for each object and in sum; the oldest are deleted. In place of secrets they contain marks that
    only show whether two values are equal. They contain no tokens. Events are not noted, for they are a history
    themselves, nor are the store's own rows and the values of devices.

    Args:
        connection: of the store.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._notes: list[_Note] = []
        self._touched: set[str] = set()
        self._since_trim = 0
        self._weight = self._measured()

    def record_stored(self, row: Row) -> None:
        """Note a new state of an object."""
        cause = row.cause
        if cause is UNNOTED or row.type in _UNTOLD:
            return
        size = len(row.value)
        value = _kept(row)
        self._append(_Note(row.key, row.updated, cause.text, cause.message, row.uid, row.resource_version, size, value))

    def record_deletion(self, key: str, at: int, cause: Cause, uid: str) -> None:
        """Note the deletion of an object."""
        if cause is not UNNOTED:
            self._append(_Note(key, at, cause.text, cause.message, uid, None, None, None))

    def flush(self) -> None:
        """Write the notes, before the commit.

        One statement writes many rows: each statement releases the interpreter to other threads, which return it late.
        """
        notes, self._notes = self._notes, []
        while notes:
            number = min(_MOST_ROWS, 1 << (len(notes).bit_length() - 1))
            self._execute(_insert(number), [value for note in notes[:number] for value in note])
            del notes[:number]
        if self._since_trim >= TRIM_EVERY or self._weight > BUDGET:
            self._trim()

    def forget(self) -> None:
        """Drop the notes of a transaction that was rolled back."""
        self._notes.clear()

    def _append(self, note: _Note) -> None:
        self._notes.append(note)
        self._touched.add(note.key)
        self._since_trim += 1
        self._weight += OVERHEAD + (len(note.value) if note.value is not None else 0)

    def _trim(self) -> None:
        """Delete notes beyond the limits; beyond the sum a tenth more, so that not every change has to make room.

        The sum is an upper bound that ignores trimmed notes; it is recomputed when it exceeds the limit.
        """
        self._executemany(sql.TRIM, [{"key": key, "kept": KEPT} for key in sorted(self._touched)])
        self._touched.clear()
        self._since_trim = 0
        if self._weight > BUDGET:
            self._weight = self._measured()
        while self._weight > BUDGET:
            self._drop_oldest(self._weight - BUDGET * 9 // 10)

    def _measured(self) -> int:
        number, text = self._execute(sql.WEIGHT).fetchone()
        return int(number * OVERHEAD + (text or 0))

    def _drop_oldest(self, weight: int) -> None:
        last = 0
        for number, length in self._execute(sql.WEIGHTS, {"number": _DROPPED_AT_ONCE}).fetchall():
            last = number
            weight -= OVERHEAD + (length or 0)
            self._weight -= OVERHEAD + (length or 0)
            if weight <= 0:
                break
        self._execute(sql.DROP, {"id": last})


@lru_cache(maxsize=8)
def _insert(number: int) -> str:
    """Return the INSERT of `number` rows."""
    return sql.NOTE.format(rows=", ".join([_ROW] * number))


def _kept(row: Row) -> str | None:
    if len(row.value) > LARGEST or row.type == ResourceType.SERVICE_ACCOUNT_TOKEN:
        return None
    if row.type == ResourceType.SECRET:
        return Redactor(key=MARK_KEY).secret(row.value.encode()).decode()
    return row.value
