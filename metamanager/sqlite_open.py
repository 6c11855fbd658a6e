"""Opens an SQLite file: sets its mode and settings, checks it and migrates its schema.

Each start checks the whole file (`PRAGMA quick_check`): a page damaged by a dying flash or a lost write would otherwise
show when a pod needs it. The check reads the file once: 84 MB took 0.2 s from memory; stores of nodes have a few
megabytes. Files over `LARGEST_CHECKED` are not checked, so that no start takes minutes; their damage shows when it is
read, with the same result (`metamanager.damage`).
"""

import logging
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from beehive.files.private import make_private
from beehive.on_failure import on_failure
from metamanager.errors import StoreDamagedError, StoreError, StoreOpenError
from metamanager.sqlite_migrations import migrate

_log = logging.getLogger(__name__)

BUSY_MILLISECONDS: Final = 5000
"""Time that a statement waits for another process with a lock on the database."""

LARGEST_CHECKED: Final = 256 * 1024 * 1024
"""Bytes of the largest file that is checked when it is opened, and rewritten so that it can shrink."""

CACHE_KIB: Final = 512
"""Page cache, instead of SQLite's 2 MiB: the kernel caches pages too."""

PRAGMAS: Final = (
    f"PRAGMA busy_timeout={BUSY_MILLISECONDS}",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA temp_store=MEMORY",
    f"PRAGMA cache_size=-{CACHE_KIB}",
    "PRAGMA trusted_schema=OFF",
    "PRAGMA secure_delete=ON",
    f"PRAGMA journal_size_limit={8 * 1024 * 1024}",
)

_SHRINKS = "PRAGMA auto_vacuum=INCREMENTAL"
"""Takes effect before the first page is written, or before `VACUUM`. It writes to the file: for new files only."""
_INCREMENTAL = 2
_DAMAGED = ("file is not a database", "malformed", "unsupported file format", "Could not decode to UTF-8")
NOT_TEXT = _DAMAGED[-1]


def open_file(path: Path) -> sqlite3.Connection:
    """Connect to the file with the newest schema; make the file if it does not exist.

    Raises:
        StoreOpenError: the file cannot be opened; the hint names the remedy.
        StoreDamagedError: the file is damaged, or no database.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_private(path)
    except OSError as error:
        hint = f"{error.strerror}; the agent needs a directory of its own on a local disk, dataBase.dataSource names it"
        raise StoreOpenError("open the database", str(path), hint) from error
    try:
        return _connect(path, PRAGMAS)
    except sqlite3.OperationalError as error:
        if is_damage(error) or "locked" in str(error):
            raise _open_error(path, error) from error
        return _connect_without_room(path, error)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _open_error(path, error) from error


def is_damage(error: Exception) -> bool:
    """Return whether an error means that the file is damaged; SQLite may quote a damaged schema that is no UTF-8."""
    return isinstance(error, UnicodeDecodeError) or any(words in str(error) for words in _DAMAGED)


def reason_of(error: Exception) -> str:
    """Return SQLite's text, with the remedy if it is known."""
    text = str(error)
    if text.startswith(NOT_TEXT) or isinstance(error, UnicodeDecodeError):
        text = "a value stored as text is not text"  # Python quotes all of it: perhaps a secret
    if is_damage(error):
        return f"{text}; move the file away: the cloud sends again what belongs to this node"
    if "locked" in text:
        return f"{text}; another process holds it, is a second edgecore running?"
    if "full" in text:
        return f"{text}; free some disk space"
    if "readonly" in text:
        return f"{text}; see the owner and the mode of the file and its directory"
    return text


def _connect_without_room(path: Path, reason: sqlite3.Error) -> sqlite3.Connection:
    """Connect in exclusive mode: a full disk has no room for the shared index of the write-ahead log.

    The rows can be read then, and changes succeed once there is room.
    """
    try:
        connection = _connect(path, ("PRAGMA locking_mode=EXCLUSIVE", *PRAGMAS))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _open_error(path, reason) from error
    text = (
        "database %s: %s; it was opened for this process alone, and `edgecore store` has to wait until the next start"
    )
    _log.warning(text, path, reason)
    return connection


def _connect(path: Path, pragmas: Iterable[str]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, cached_statements=32)
    with on_failure(connection.close):
        _set_up(connection, path, pragmas)
    return connection


def _open_error(path: Path, error: Exception) -> StoreError:
    kind = StoreDamagedError if is_damage(error) else StoreOpenError
    return kind("open the database", str(path), reason_of(error))


def _set_up(connection: sqlite3.Connection, path: Path, pragmas: Iterable[str]) -> None:
    if not path.stat().st_size:
        connection.execute(_SHRINKS)
    for pragma in pragmas:
        connection.execute(pragma)
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        _log.warning("database %s: no write-ahead log on this file system (journal mode %s); writes are slower", path,
                     mode)  # fmt: skip
    if path.stat().st_size <= LARGEST_CHECKED:
        _check(connection, path)
        _let_shrink(connection, path)
    migrate(connection, str(path))


def _check(connection: sqlite3.Connection, path: Path) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreDamagedError("open the database", str(path), f"it is damaged: {found}")


def _let_shrink(connection: sqlite3.Connection, path: Path) -> None:
    """Rewrite a file that was made without `auto_vacuum`; only then can it give free pages back."""
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    if mode == _INCREMENTAL:
        return
    try:
        connection.execute(_SHRINKS)
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        text = "database %s cannot shrink, because it could not be rewritten (%s); the next start tries again"
        _log.warning(text, path, error)
