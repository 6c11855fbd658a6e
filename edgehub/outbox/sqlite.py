"""The outbox in an SQLite file: write-ahead log with `synchronous=FULL`, so that a change is one append and one fsync.

The file is its owner's alone (mode 0600): what devices upload is nobody else's business. One that is no database any
more is put aside, never deleted, and a new one begun: the link must not wait for somebody to repair it.
"""

import logging
import os
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.damaged import make_way
from edgehub.errors import OutboxError
from edgehub.outbox import _sql as sql
from edgehub.outbox.store import Kept

_log = logging.getLogger(__name__)

BUSY_MILLISECONDS: Final = 2000
"""How long a statement waits for another process that holds the file."""

PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA auto_vacuum=INCREMENTAL",
    "PRAGMA cache_size=-256",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA trusted_schema=OFF",
    f"PRAGMA journal_size_limit={1024 * 1024}",
)

SUFFIXES: Final = ("", "-wal", "-shm")
"""Of the files that SQLite makes of one."""

_BAD: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FREED_PAGES: Final = 256
"""Pages that are given back to the file system at an opening."""


class SqliteOutbox:
    """See `edgehub.outbox.store.OutboxStore` and the module's docstring.

    Opened on one thread and then used on another, which SQLite allows as long as it is one after the other.

    Raises:
        OutboxError: the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            path.chmod(0o600)
            self._connection = _connect(path)
        except (OSError, sqlite3.Error) as error:
            raise self._error("open the outbox", error) from error

    def load(self) -> list[Kept]:
        """See `OutboxStore`."""
        try:
            return [Kept(*row) for row in self._connection.execute(sql.LOAD)]
        except sqlite3.Error as error:
            raise self._error("read the outbox", error) from error

    def change(self, put: Iterable[Kept], gone: Iterable[int]) -> None:
        """See `OutboxStore`."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            rows = [{"serial": one.serial, "accepted": one.accepted, "frame": one.frame} for one in put]
            connection.executemany(sql.PUT, rows)
            connection.executemany(sql.REMOVE, [{"serial": serial} for serial in gone])
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.rollback()
            raise self._error("write the outbox", error) from error

    def close(self) -> None:
        """See `OutboxStore`."""
        with suppress(sqlite3.Error):
            self._connection.close()

    def _error(self, attempt: str, error: OSError | sqlite3.Error) -> OutboxError:
        corrupt = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BAD
        text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        hint = "" if corrupt else "; see the disk's room and the owner of the file and its directory"
        return OutboxError(attempt, str(self._path), f"{text}{hint}", corrupt=corrupt)


def open_outbox(path: Path, now: float) -> SqliteOutbox:
    """Open the file, or begin a new one in the place of a bad one.

    Args:
        path: of it.
        now: Unix time, for the name of the bad one.

    Raises:
        OutboxError: neither is possible.
    """
    make_way(path, path.parent, links=True)
    try:
        return _sound(path)
    except OutboxError as error:
        if not error.corrupt:
            raise
        aside = path.with_name(f"{path.name}.bad-{int(now)}")
        _log.error("%s; it is kept as %s, and what was in it will not reach the cloud", error, aside)
        try:
            for suffix in SUFFIXES:
                with suppress(FileNotFoundError):
                    path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
        except OSError as failure:
            raise OutboxError("put the bad outbox aside", str(path), str(failure.strerror)) from failure
    return _sound(path)


def _sound(path: Path) -> SqliteOutbox:
    """Open it and read all of it once: what is broken in it is found now and not later."""
    store = SqliteOutbox(path)
    try:
        store.load()
    except OutboxError:
        store.close()
        raise
    return store


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=8, check_same_thread=False)
    try:
        for pragma in PRAGMAS:
            connection.execute(pragma)
        connection.execute(sql.CREATE)
        connection.execute(f"PRAGMA incremental_vacuum({_FREED_PAGES})").fetchall()
    except sqlite3.Error:
        connection.close()
        raise
    return connection
