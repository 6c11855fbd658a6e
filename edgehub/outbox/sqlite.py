"""The outbox in an SQLite file."""

import logging
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.damaged import set_aside_unless_file
from beehive.files.numbered import next_number
from beehive.files.private import make_private
from beehive.on_failure import on_failure
from edgehub.errors import OutboxError
from edgehub.outbox.store import StoredMessage

_log = logging.getLogger(__name__)

BUSY_MILLISECONDS: Final = 2000
"""Time that a statement waits for another process with a lock on the file."""

PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA auto_vacuum=INCREMENTAL",  # before the next one, which writes the first page of a new file
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA cache_size=-256",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={1024 * 1024}",
)

_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS outbox "
    "( serial INTEGER NOT NULL, accepted BIGINT NOT NULL, frame BLOB NOT NULL, PRIMARY KEY (serial) )"
)
_LOAD: Final = (
    "SELECT serial, CAST(coalesce(accepted, 0) AS INTEGER), CAST(coalesce(frame, '') AS BLOB) FROM outbox "
    "ORDER BY serial"
)
"""A damaged row may have values of other types."""
_PUT: Final = "INSERT OR REPLACE INTO outbox (serial, accepted, frame) VALUES "
_TOGETHER: Final = (64, 16, 4, 2, 1)
"""Rows that one statement writes. Each statement lets go of the interpreter's lock and waits for it again, which costs
more than a row.
"""
_PUTS: Final = {number: _PUT + ", ".join(["(?, ?, ?)"] * number) for number in _TOGETHER}
_REMOVE: Final = "DELETE FROM outbox WHERE serial BETWEEN ? AND ?"

SUFFIXES: Final = ("", "-wal", "-shm")
"""Suffixes of the files of one SQLite database."""

_BAD: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_INCREMENTAL: Final = 2
_FREED_PAGES: Final = 256
"""Free pages given back to the file system when the file is opened."""


class SqliteOutbox:
    """An `OutboxStore` in an SQLite file.

    Write-ahead log with `synchronous=FULL`: a change is one append and one fsync. The file has mode 0600, because the
    data of devices is confidential. It is opened on one thread and then used on another.

    Raises:
        OutboxError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(path)
            self._connection = _connect(path)
        except (OSError, sqlite3.Error) as error:
            raise self._error("open the outbox", error) from error

    def load(self) -> list[StoredMessage]:
        """See `OutboxStore`."""
        try:
            return [StoredMessage(*row) for row in self._connection.execute(_LOAD)]
        except sqlite3.Error as error:
            raise self._error("read the outbox", error) from error

    def change(self, put: Iterable[StoredMessage], gone: Iterable[int]) -> None:
        """See `OutboxStore`."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._put(list(put))
            connection.executemany(_REMOVE, _runs(gone))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise self._error("write the outbox", error) from error
        except BaseException:
            connection.rollback()
            raise

    def _put(self, rows: list[StoredMessage]) -> None:
        at = 0
        for number, statement in _PUTS.items():
            while len(rows) - at >= number:
                values = [value for one in rows[at : at + number] for value in (one.serial, one.accepted, one.frame)]
                self._connection.execute(statement, values)
                at += number

    def close(self) -> None:
        """See `OutboxStore`."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _error(self, attempt: str, error: OSError | sqlite3.Error) -> OutboxError:
        corrupt = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BAD
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        hint = "" if corrupt else "; see the disk's room and the owner of the file and its directory"
        return OutboxError(attempt, str(self._path), f"{text}{hint}", corrupt=corrupt)


def _runs(serials: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of serials that follow each other."""
    runs: list[tuple[int, int]] = []
    for serial in sorted(serials):
        if runs and serial <= runs[-1][1] + 1:
            runs[-1] = runs[-1][0], serial
        else:
            runs.append((serial, serial))
    return runs


def open_outbox(path: Path, now: float) -> SqliteOutbox:
    """Open the outbox. A corrupt file is renamed, not deleted, and replaced by a new one, so that the link can go on.

    Args:
        path: of the file.
        now: Unix time in seconds, for the name of a corrupt file.

    Raises:
        OutboxError: the file can neither be opened nor replaced.
    """
    set_aside_unless_file(path, path.parent, links=True)
    try:
        return _open_sound(path)
    except OutboxError as error:
        if not error.corrupt:
            raise
        number = next_number(each.name for each in path.parent.glob(f"{path.name}.bad-*"))
        aside = path.with_name(f"{path.name}.bad-{int(now)}.{number}")
        _log.error("%s; it is kept as %s, and what was in it will not reach the cloud", error, aside)
        try:
            for suffix in SUFFIXES:
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        except OSError as failure:
            raise OutboxError("put the bad outbox aside", str(path), str(failure.strerror)) from failure
    return _open_sound(path)


def _open_sound(path: Path) -> SqliteOutbox:
    """Open the file and read all rows, so that damage shows now."""
    store = SqliteOutbox(path)
    with on_failure(store.close):
        store.load()
    return store


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=16, check_same_thread=False)
    with on_failure(connection.close):
        for pragma in PRAGMAS:
            connection.execute(pragma)
        connection.execute(_CREATE)
        if connection.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
            with suppress(sqlite3.OperationalError):  # an earlier version has made it; the next start tries again
                connection.execute("VACUUM")
        connection.executescript(f"PRAGMA incremental_vacuum({_FREED_PAGES})")  # `execute` would free one page
    return connection
