"""What is done with a database that is spoilt: it is set aside, and what can be read of it goes into a new one.

Nothing is deleted: the file, its write-ahead log and its index are renamed to `edgecore.db.bad-TIME`, TIME being when
it was last written. The new database does not say that it is complete, so what runs is asked of the cloud before it
ends (`edged.inquiry`). What is read out of the spoilt one matters all the same: without a connection it is all there
is, and a KubeEdge cloud does not send again what had been acknowledged. Only whole objects are taken over, each of
which is JSON and says the name that it is stored under; an old state gives way to what the cloud sends next.
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
from metamanager.errors import StoreOpenError
from metamanager.rows import Row, head_of, row_of
from metamanager.sqlite_open import reason_of

_log = logging.getLogger(__name__)

KEPT: Final = 3
"""Spoilt databases that are kept; they hold secrets, and room."""

_SIDES: Final = ("", "-wal", "-shm")
_MARK: Final = ".damaged"
_FORWARD: Final = "SELECT key, value FROM meta ORDER BY rowid"
_BACKWARD: Final = "SELECT key, value FROM meta ORDER BY rowid DESC"
_HEADER: Final = b"SQLite format 3\0"


def mark(path: Path) -> None:
    """The file was found spoilt while it was in use: the next to open it sets it aside, even if it looks sound."""
    with suppress(OSError):
        _beside(path, _MARK).touch(0o600)


def is_marked(path: Path) -> bool:
    """Whether it was."""
    return _beside(path, _MARK).exists()


def set_aside(path: Path) -> Path:
    """Rename a database; what it is called now.

    Raises:
        StoreOpenError: it never was a database, so that it is somebody else's file; or it cannot be renamed.
    """
    try:
        if not _was_ours(path):
            hint = "it is another kind of file and is left alone; set dataBase.dataSource to the path of the database"
            raise StoreOpenError("set a damaged database aside", str(path), hint)
        bad = _free_name(path)
        for side in _SIDES:
            with suppress(FileNotFoundError):
                _beside(path, side).rename(_beside(bad, side))
        _beside(path, _MARK).unlink(missing_ok=True)
        for old in all_set_aside(path)[:-KEPT]:
            for side in _SIDES:
                _beside(old, side).unlink(missing_ok=True)
    except OSError as error:
        raise StoreOpenError("set a damaged database aside", str(path), str(error.strerror)) from error
    _log.error("database %s is damaged; it was set aside as %s, and a new one is made", path, bad.name)
    return bad


def all_set_aside(path: Path) -> list[Path]:
    """The spoilt databases beside one, oldest first."""
    return sorted(each for each in path.parent.glob(f"{path.name}.bad-*") if not each.name.endswith(_SIDES[1:]))


def readable_rows(bad: Path) -> list[Row]:
    """What can be read of it: from the first object on, and from the last one back."""
    rows: dict[str, Row] = {}
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{bad.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        connection.text_factory = bytes
        for question in (_FORWARD, _BACKWARD):
            try:
                for row in _sound(connection.execute(question)):
                    rows.setdefault(row.key, row)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                _log.warning("database %s: the rest cannot be read: %s", bad.name, reason_of(error))
    return list(rows.values())


def _sound(cursor: sqlite3.Cursor) -> Iterator[Row]:
    for key, value in cursor:
        with suppress(UnicodeError, msgspec.DecodeError, RecursionError):
            msgspec.json.decode(value)
            row = row_of(key.decode(), value, 0)
            named = head_of(value).name
            if row.type not in ("", ResourceType.STORE) and named in (None, row.name):
                yield row


def _was_ours(path: Path) -> bool:
    """A configuration may name any file; one that neither is a database nor is called one is not moved."""
    with path.open("rb") as file:
        return file.read(len(_HEADER)) == _HEADER or path.suffix == ".db"


def _free_name(path: Path) -> Path:
    name = f"{path.name}.bad-{strftime('%Y%m%dT%H%M%SZ', gmtime(path.stat().st_mtime))}"
    number = 0
    while path.with_name(f"{name}.{number:02d}").exists():
        number += 1
    return path.with_name(f"{name}.{number:02d}")


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
