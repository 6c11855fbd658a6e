"""The last changes of each object, with when and why: for people who ask what happened (`edgecore store history|diff`).

A change is noted in the transaction that makes it, as the whole text of the new state: a difference would have to be
computed while the cloud waits for its acknowledgement. Bounded for each object and in sum, oldest first out. Of secrets
nothing is kept but marks that say whether two values are the same; tokens are not kept at all.

What nobody asks about is not noted: events (they are a history themselves), and the store's own rows.
"""

import sqlite3
from functools import lru_cache
from typing import Final, NamedTuple

from beehive import ResourceType
from beehive.trace.redact import Redactor
from metamanager import _sqlite_sql as sql
from metamanager.rows import UNNOTED, Cause, Row

KEPT: Final = 10
"""Changes of each object."""

BUDGET: Final = 8 * 1024 * 1024
"""Characters of all changes together, each with `OVERHEAD`."""

LARGEST: Final = 64 * 1024
"""Characters of a state that is kept; of a larger one only the size. What is large would be written twice, and a few
would fill the budget."""

OVERHEAD: Final = 200
"""About what a change takes besides its text."""

TRIM_EVERY: Final = 256
"""Changes after which the objects that have changed are trimmed: until then one may have so many more."""

MARK_KEY: Final = b"edgecore history"

_UNTOLD: Final = (ResourceType.EVENT, ResourceType.STORE)
_DROPPED_AT_ONCE: Final = 500
_MOST_ROWS: Final = 64
_PLACES: Final = "(?, ?, ?, ?, ?, ?, ?, ?)"


class _Note(NamedTuple):
    """A row; the columns of `sql.NOTE` in their order."""

    key: str
    at: int
    cause: str
    message: str
    uid: str
    resource_version: int | None
    size: int | None
    value: str | None


class History:
    """See the module's docstring. Everything raises `sqlite3.Error`.

    Args:
        connection: the store's; changes are noted in its transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._notes: list[_Note] = []
        self._touched: set[str] = set()
        self._since_trim = 0
        self._weight = self._weighed()

    def stored(self, row: Row) -> None:
        """An object has a new state."""
        cause = row.cause
        if cause is UNNOTED or row.type in _UNTOLD:
            return
        size = len(row.value)
        value = _kept(row)
        self._note(_Note(row.key, row.updated, cause.text, cause.message, row.uid, row.resource_version, size, value))

    def deleted(self, key: str, at: int, cause: Cause, uid: str) -> None:
        """An object is gone."""
        if cause is not UNNOTED:
            self._note(_Note(key, at, cause.text, cause.message, uid, None, None, None))

    def flush(self) -> None:
        """Write what was noted since the last time, before the transaction is committed.

        Many rows by one statement: each statement lets other threads run, and they give the interpreter back late.
        """
        notes, self._notes = self._notes, []
        while notes:
            number = min(_MOST_ROWS, 1 << (len(notes).bit_length() - 1))
            self._execute(_insert(number), [value for note in notes[:number] for value in note])
            del notes[:number]
        if self._since_trim >= TRIM_EVERY or self._weight > BUDGET:
            self._trim()

    def forget(self) -> None:
        """The transaction was rolled back."""
        self._notes.clear()

    def _note(self, note: _Note) -> None:
        self._notes.append(note)
        self._touched.add(note.key)
        self._since_trim += 1
        self._weight += OVERHEAD + (len(note.value) if note.value is not None else 0)

    def _trim(self) -> None:
        """Back to what is allowed; below it when the sum was too much, so that not every change has to make room.

        What trimming frees is not counted each time: the sum is an upper bound, and made anew when it is too much.
        """
        self._executemany(sql.TRIM, [{"key": key, "kept": KEPT} for key in sorted(self._touched)])
        self._touched.clear()
        self._since_trim = 0
        if self._weight > BUDGET:
            self._weight = self._weighed()
        while self._weight > BUDGET:
            self._drop_oldest(self._weight - BUDGET * 9 // 10)

    def _weighed(self) -> int:
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
    """The statement for so many rows."""
    head, _, _ = sql.NOTE.partition("VALUES")
    return f"{head}VALUES {', '.join([_PLACES] * number)}"


def _kept(row: Row) -> str | None:
    if len(row.value) > LARGEST or row.type == ResourceType.SERVICE_ACCOUNT_TOKEN:
        return None
    if row.type == ResourceType.SECRET:
        return Redactor(key=MARK_KEY).secret(row.value.encode()).decode()
    return row.value
