"""Sets a damaged database aside and salvages its rows.

Nothing is deleted: the file, its write-ahead log and its index are renamed to `edgecore.db.bad-TIME.NN`, with the time
of the last write and a number that keeps their order if the clock is set back. The new database has no note of
completeness, so edged asks the cloud for running pods before it ends them (`edged.sync.store`). The salvaged rows
matter nevertheless: without a connection there is no other source, and a KubeEdge cloud never repeats acknowledged
objects. Only whole objects are salvaged: valid JSON whose name matches the key. The cloud's next message replaces an
old state.

A kill at any moment loses none of them: the database is marked first, the new one gets its name when it has the rows,
and the mark is removed last.
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from time import gmtime, strftime
from typing import Final

import msgspec

from beehive import ResourceType
from beehive.decoding import decode_json
from beehive.files import durable as files
from beehive.files.durable import beside
from beehive.files.numbered import next_number, number_of
from metamanager.errors import StoreOpenError
from metamanager.rows import Row, head_of, row_of
from metamanager.sqlite_open import reason_of

_log = logging.getLogger(__name__)

KEPT: Final = 3
"""Number of damaged databases to keep; they contain secrets, and take room."""

_SIDES: Final = ("-wal", "-shm", "")
_MARK: Final = ".damaged"
_FORWARD: Final = "SELECT key, value FROM meta ORDER BY rowid"
_BACKWARD: Final = "SELECT key, value FROM meta ORDER BY rowid DESC"
_HEADER: Final = b"SQLite format 3\0"


def mark(path: Path) -> None:
    """Mark a database that was found damaged in use: the next open sets it aside, even if it looks sound."""
    with suppress(OSError):
        _with_suffix(path, _MARK).touch(0o600)


def is_marked(path: Path) -> bool:
    """Return whether a database is marked as damaged."""
    return _with_suffix(path, _MARK).exists()


def set_aside(path: Path) -> Path | None:
    """Rename a database, and mark it until `put_in_place`; return its new path. Where it is missing, an earlier start
    has done that: return the path that it got, or None.

    Raises:
        StoreOpenError: the file is another kind of file, or cannot be renamed.
    """
    try:
        if path.exists():
            if not _was_ours(path):
                hint = (
                    "it is another kind of file and is left alone; set dataBase.dataSource to the path of the database"
                )
                raise StoreOpenError("set a damaged database aside", str(path), hint)
            mark(path)
            bad = _free_name(path)
        elif earlier := all_set_aside(path):
            bad = earlier[-1]
        else:
            return None
        for side in _SIDES:
            with suppress(FileNotFoundError):
                _with_suffix(path, side).rename(_with_suffix(bad, side))
        for old in all_set_aside(path)[:-KEPT]:
            for side in _SIDES:
                _with_suffix(old, side).unlink(missing_ok=True)
    except OSError as error:
        raise StoreOpenError("set a damaged database aside", str(path), str(error.strerror)) from error
    _log.error("database %s is damaged; it was set aside as %s, and a new one is made", path, bad.name)
    return bad


def new_path(path: Path) -> Path:
    """Return the path of the new database until it has the rows; what an earlier start has left there is removed.

    Raises:
        StoreOpenError: it cannot be removed.
    """
    new = beside(path)
    try:
        for side in _SIDES:
            _with_suffix(new, side).unlink(missing_ok=True)
    except OSError as error:
        raise StoreOpenError("make a new database", str(new), str(error.strerror)) from error
    return new


def put_in_place(path: Path) -> None:
    """Give the new database, which is closed, its name, and remove the mark.

    Raises:
        StoreOpenError: it is not complete, or cannot be renamed.
    """
    new = beside(path)
    if _with_suffix(new, "-wal").exists():  # SQLite removes it unless the disk has no room for its pages
        raise StoreOpenError("make a new database", str(path), "free some disk space")
    try:
        files.put_in_place(new, path)
        _with_suffix(path, _MARK).unlink(missing_ok=True)
    except OSError as error:
        raise StoreOpenError("make a new database", str(path), str(error.strerror)) from error


def all_set_aside(path: Path) -> list[Path]:
    """Return the damaged databases beside a database, oldest first."""
    found = (each for each in path.parent.glob(f"{path.name}.bad-*") if not each.name.endswith(_SIDES[:2]))
    return sorted(found, key=lambda each: (number_of(each.name), each.name))


def readable_rows(bad: Path) -> list[Row]:
    """Return the readable rows: from the first object on, and from the last one back."""
    rows: dict[str, Row] = {}
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{bad.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        connection.text_factory = bytes
        for question in (_FORWARD, _BACKWARD):
            try:
                for row in _sound_rows(connection.execute(question)):
                    rows.setdefault(row.key, row)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                _log.warning("database %s: the rest cannot be read: %s", bad.name, reason_of(error))
    return list(rows.values())


def _sound_rows(cursor: sqlite3.Cursor) -> Iterator[Row]:
    for key, value in cursor:
        with suppress(UnicodeError, msgspec.DecodeError):
            if not isinstance(key, bytes) or not isinstance(value, bytes):
                continue
            decode_json(value)
            row = row_of(key.decode(), value, 0)
            named = head_of(value).name
            if row.type not in ("", ResourceType.STORE) and named in (None, row.name):
                yield row


def _was_ours(path: Path) -> bool:
    """Return whether a file is a database, by its header or name: a configuration may name any file."""
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER or path.suffix == ".db"


def _free_name(path: Path) -> Path:
    name = f"{path.name}.bad-{strftime('%Y%m%dT%H%M%SZ', gmtime(path.stat().st_mtime))}"
    return path.with_name(f"{name}.{next_number(each.name for each in all_set_aside(path)):02d}")


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
