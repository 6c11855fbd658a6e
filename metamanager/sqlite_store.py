"""The store on an SQLite file: `sqlite3` with the statements of `metamanager._sqlite_sql`.

Write-ahead log with `synchronous=FULL`: a commit is one append and one fsync, and readers (KubeEdge's tools, `sqlite3`
on the node) are never in the way. The file holds secrets and is the owner's alone (mode 0600), as are the two files
that SQLite puts beside it, which take their mode from it.
"""

import logging
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from metamanager import _sqlite_sql as sql
from metamanager.errors import StoreError, StoreOpenError, StoreWriteError
from metamanager.rows import Row
from metamanager.sqlite_migrations import migrate

_log = logging.getLogger(__name__)

BUSY_MILLISECONDS = 5000
"""How long a statement waits for another process that holds the database."""

PRAGMAS = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA trusted_schema=OFF",
    f"PRAGMA journal_size_limit={8 * 1024 * 1024}",
)

_NOT_A_DATABASE = "file is not a database"


class SqliteStore:
    """See `metamanager.store.Store`.

    Raises:
        StoreOpenError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = _open(path)
        self._execute = self._connection.execute

    def get(self, key: str) -> str | None:
        row = self._read(sql.GET, {"key": key}).fetchone()
        return None if row is None else row[0]

    def get_all(self, kind: str, namespace: str | None = None) -> list[str]:
        if namespace is None:
            rows = self._read(sql.LIST, {"type": kind})
        else:
            rows = self._read(sql.LIST_IN, {"type": kind, "namespace": namespace})
        return [row[0] for row in rows]

    def put(self, row: Row) -> bool:
        parameters: dict[str, str | int] = {
            "key": row.key,
            "type": row.type,
            "value": row.value,
            "uid": row.uid,
            "resource_version": row.resource_version,
            "namespace": row.namespace,
            "name": row.name,
            "updated": row.updated,
        }
        return self._write(sql.PUT, parameters, "store an object", row.key) > 0

    def delete(self, key: str, uid: str = "") -> bool:
        statement = sql.DELETE_OF_UID if uid else sql.DELETE
        return self._write(statement, {"key": key, "uid": uid} if uid else {"key": key}, "delete an object", key) > 0

    def delete_owned(self, kind: str, uid: str) -> int:
        return self._write(sql.DELETE_OWNED, {"type": kind, "uid": uid}, "delete the objects of an owner", uid)

    def commit(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self.rollback()
            raise _write_error("commit", str(self.path), error, batch_lost=True) from error

    def rollback(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.rollback()

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()

    def _read(self, statement: str, parameters: dict[str, str]) -> sqlite3.Cursor:
        try:
            return self._execute(statement, parameters)
        except sqlite3.Error as error:
            raise StoreError("read the database", str(self.path), _reason(error), retryable=True) from error

    def _write(self, statement: str, parameters: dict[str, str | int], attempt: str, on: str) -> int:
        connection = self._connection
        began_before = connection.in_transaction
        try:
            if not began_before:
                self._execute("BEGIN IMMEDIATE")
            return self._execute(statement, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            lost = began_before and not connection.in_transaction
            raise _write_error(attempt, on, error, batch_lost=lost) from error


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(path)
    except OSError as error:
        hint = f"{error.strerror}; the agent needs a directory of its own on a local disk, dataBase.dataSource names it"
        raise StoreOpenError("open the database", str(path), hint) from error
    connection = None
    try:
        connection = sqlite3.connect(path, isolation_level=None, cached_statements=32)
        for pragma in PRAGMAS:
            connection.execute(pragma)
        _check_journal(connection, path)
        migrate(connection, str(path))
    except (sqlite3.Error, StoreOpenError) as error:
        if connection is not None:
            connection.close()
        if isinstance(error, StoreOpenError):
            raise
        raise StoreOpenError("open the database", str(path), _reason(error)) from error
    return connection


def _make_private(path: Path) -> None:
    """Create the file, and take from others what they may have been allowed to do with it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _check_journal(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        _log.warning("database %s: no write-ahead log on this file system (journal mode %s); writes are slower", path,
                     mode)  # fmt: skip


def _write_error(attempt: str, on: str, error: Exception, *, batch_lost: bool) -> StoreWriteError:
    return StoreWriteError(attempt, on, _reason(error), batch_lost=batch_lost)


def _reason(error: Exception) -> str:
    """SQLite's words, and what to do where that is known."""
    text = str(error)
    if _NOT_A_DATABASE in text or "malformed" in text:
        return f"{text}; move the file away: the cloud sends again what belongs to this node"
    if "locked" in text:
        return f"{text}; another process holds it, is a second edgecore running?"
    if "full" in text:
        return f"{text}; free some disk space"
    if "readonly" in text:
        return f"{text}; see the owner and the mode of the file and its directory"
    return text
