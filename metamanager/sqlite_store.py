"""The store on an SQLite file: `sqlite3` with the statements of `metamanager._sqlite_sql`.

Write-ahead log with `synchronous=FULL`: a commit is one append and one fsync, and readers (KubeEdge's tools, `sqlite3`
on the node) are never in the way. The file holds secrets and is the owner's alone (mode 0600), as are the two files
that SQLite puts beside it, which take their mode from it.
"""

import logging
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from metamanager import _sqlite_sql as sql
from metamanager import damage
from metamanager.errors import StoreDamagedError, StoreError, StoreWriteError
from metamanager.history import History
from metamanager.rows import UNNOTED, Cause, Row
from metamanager.sqlite_open import is_damage, open_file, reason_of

_log = logging.getLogger(__name__)

COMMITS_BETWEEN_LOOKS: Final = 256
"""Commits after which is seen whether the file has pages to give back."""

SPARE_PAGES: Final = 256
"""Free pages (of 4 KiB) that stay in the file, for what comes next."""


class SqliteStore:
    """See `metamanager.store.Store`.

    Raises:
        StoreOpenError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = _open(path)
        self._execute = self._connection.execute
        self._commits = 0
        self._history = History(self._connection)

    def get(self, key: str) -> str | None:
        rows = self._read(sql.GET, {"key": key})
        return rows[0] if rows else None

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        if namespace is None:
            return self._read(sql.LIST, {"type": kind})
        return self._read(sql.LIST_IN, {"type": kind, "namespace": namespace})

    def put(self, row: Row) -> bool:
        if self._write(sql.PUT, _parameters(row), "store an object", row.key):
            self._history.stored(row)
            return True
        stored = self._state(row.key)
        return stored is not None and row.equals(*stored)

    def delete(self, key: str, uid: str = "", cause: Cause = UNNOTED, now_ms: int = 0) -> bool:
        statement = sql.DELETE_OF_UID if uid else sql.DELETE
        if not self._write(statement, {"key": key, "uid": uid} if uid else {"key": key}, "delete an object", key):
            return False
        self._history.deleted(key, now_ms, cause, uid)
        return True

    def delete_owned(self, kind: str, uid: str) -> int:
        return self._write(sql.DELETE_OWNED, {"type": kind, "uid": uid}, "delete the objects of an owner", uid)

    def commit(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._history.flush()
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self.rollback()
            self._raise_if_damaged("commit", error)
            raise _write_error("commit", str(self.path), error, batch_lost=True) from error
        self._commits += 1
        if self._commits % COMMITS_BETWEEN_LOOKS == 0:
            self._shrink()

    def rollback(self) -> None:
        self._history.forget()
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _read(self, statement: str, parameters: dict[str, str]) -> list[str]:
        try:
            return [row[0] for row in self._execute(statement, parameters)]
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._raise_if_damaged("read the database", error)
            raise StoreError("read the database", str(self.path), reason_of(error), retryable=True) from error

    def _write(self, statement: str, parameters: dict[str, str | int], attempt: str, on: str) -> int:
        connection = self._connection
        began_before = connection.in_transaction
        try:
            if not began_before:
                self._execute("BEGIN IMMEDIATE")
            return self._execute(statement, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            self._raise_if_damaged(attempt, error)
            lost = began_before and not connection.in_transaction
            raise _write_error(attempt, on, error, batch_lost=lost) from error

    def _state(self, key: str) -> tuple[str | None, int | None] | None:
        try:
            return self._execute(sql.STATE, {"key": key}).fetchone()  # type: ignore[no-any-return]
        except sqlite3.Error as error:
            self._raise_if_damaged("read the database", error)
            raise StoreError("read the database", str(self.path), reason_of(error), retryable=True) from error

    def _shrink(self) -> None:
        """Give free pages back to the disk. A failure waits for the next time: nothing is lost by it."""
        with suppress(sqlite3.Error):
            (free,) = self._execute("PRAGMA freelist_count").fetchone()
            if free > 2 * SPARE_PAGES:
                self._connection.executescript(f"PRAGMA incremental_vacuum({free - SPARE_PAGES})")

    def _raise_if_damaged(self, attempt: str, error: Exception) -> None:
        if is_damage(error):
            damage.mark(self.path)
            hint = "it is damaged, and set aside when it is opened again"
            raise StoreDamagedError(attempt, str(self.path), hint) from error


def _open(path: Path) -> sqlite3.Connection:
    """A connection to the file, or to a new one with what can be read of it when it is damaged."""
    if not damage.is_marked(path):
        try:
            return open_file(path)
        except StoreDamagedError as error:
            _log.error("%s", error)
    bad = damage.set_aside(path)
    connection = open_file(path)
    rows = damage.readable_rows(bad)
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(sql.PUT, [_parameters(row) for row in rows])
    connection.execute("COMMIT")
    _log.error("database %s: %d objects could be read out of the damaged one", path, len(rows))
    return connection


def _parameters(row: Row) -> dict[str, str | int]:
    return {
        "key": row.key,
        "type": row.type,
        "value": row.value,
        "uid": row.uid,
        "resource_version": row.resource_version,
        "namespace": row.namespace,
        "name": row.name,
        "updated": row.updated,
    }


def _write_error(attempt: str, on: str, error: Exception, *, batch_lost: bool) -> StoreWriteError:
    return StoreWriteError(attempt, on, reason_of(error), batch_lost=batch_lost)
