"""The last changes of each object, with when and why: for people who ask what happened (`edgecore store history|diff`).

A change is noted in the transaction that makes it, as the whole text of the new state: a difference would have to be
computed while the cloud waits for its acknowledgement. Bounded for each object and in sum, oldest first out. Of secrets
nothing is kept but marks that say whether two values are the same; tokens are not kept at all.

What nobody asks about is not noted: events (they are a history themselves), and the store's own rows.
"""

import sqlite3
from typing import Final

from beehive import ResourceType
from beehive.trace.redact import Redactor
from metamanager import _sqlite_sql as sql
from metamanager.rows import UNNOTED, Cause, Row

KEPT: Final = 10
"""Changes of each object."""

BUDGET: Final = 8 * 1024 * 1024
"""Characters of all changes together, each with `OVERHEAD`."""

LARGEST: Final = 256 * 1024
"""Characters of a state that is kept; of a larger one only the size."""

OVERHEAD: Final = 200
"""About what a change takes besides its text."""

TRIM_EVERY: Final = 256
"""Changes after which the objects that have changed are trimmed: until then one may have so many more."""

MARK_KEY: Final = b"edgecore history"

_UNTOLD: Final = (ResourceType.EVENT, ResourceType.STORE)
_DROPPED_AT_ONCE: Final = 500


class History:
    """See the module's docstring. Everything raises `sqlite3.Error`.

    Args:
        connection: the store's; changes are noted in its transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
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
        self._note(row.key, row.updated, cause, row.uid, row.resource_version, size, value)

    def deleted(self, key: str, at: int, cause: Cause, uid: str) -> None:
        """An object is gone."""
        if cause is not UNNOTED:
            self._note(key, at, cause, uid, None, None, None)

    def _note(
        self, key: str, at: int, cause: Cause, uid: str, version: int | None, size: int | None, value: str | None
    ) -> None:
        self._execute(
            sql.NOTE,
            {
                "key": key,
                "at": at,
                "cause": cause.text,
                "message": cause.message,
                "uid": uid,
                "resource_version": version,
                "size": size,
                "value": value,
            },
        )
        self._touched.add(key)
        self._since_trim += 1
        self._weight += OVERHEAD + (len(value) if value is not None else 0)
        if self._since_trim >= TRIM_EVERY or self._weight > BUDGET:
            self._trim()

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


def _kept(row: Row) -> str | None:
    if len(row.value) > LARGEST or row.type == ResourceType.SERVICE_ACCOUNT_TOKEN:
        return None
    if row.type == ResourceType.SECRET:
        return Redactor(key=MARK_KEY).secret(row.value.encode()).decode()
    return row.value
