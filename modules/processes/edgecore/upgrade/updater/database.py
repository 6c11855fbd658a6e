"""The node's database, and its copy of the time before the upgrade."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from .files import sync_directory

_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal")
"""In the order of their removal: without its log, a database may look as if it had not changed."""


def backup_of(database: Path) -> Path:
    """Return the place of a database's copy: in the same directory, so that a rename is enough to restore it."""
    return database.with_name(f".{database.name}.before-upgrade")


def put_back(database: Path) -> None:
    """Replace a database, which nobody uses, by its copy, durably. Needs no room on the disk. Raises OSError."""
    for end in _DATABASE_FILES:
        database.with_name(database.name + end).unlink(missing_ok=True)
    backup_of(database).replace(database)
    sync_directory(database.parent)


def inode_of(file: Path) -> int:
    """Return the inode of a file; 0 without one."""
    try:
        return file.stat().st_ino
    except OSError:
        return 0


def schema_of(database: Path) -> int | None:
    """Return the version of a database's schema; None if it is damaged or cannot be read."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return None
    return int(version) if check == "ok" else None
