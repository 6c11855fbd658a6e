"""Which errors of a database's driver mean that there is no room."""

import os
import sqlite3
from pathlib import Path

import pytest

from modules.cloud.storage.database.room import Room

_IOERR_WRITE = sqlite3.SQLITE_IOERR | 3 << 8


class DriverError(Exception):
    """An error as a driver raises it.

    Args:
        sqlite: SQLite's extended code.
        sqlstate: PostgreSQL's code.
    """

    def __init__(self, sqlite: int | None = None, sqlstate: str | None = None) -> None:
        super().__init__()
        self.sqlite_errorcode, self.sqlstate = sqlite, sqlstate


def test_a_shortage_ends_once(tmp_path: Path) -> None:
    room = Room(tmp_path / "cloud.db")
    seen = [room.fill(), room.give(), room.is_short, room.fill(), room.fill(), room.is_short]
    assert seen == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("error", "free", "is_full"),
    [
        (DriverError(sqlite3.SQLITE_FULL), 1 << 20, True),
        (DriverError(_IOERR_WRITE), 0, True),
        (DriverError(_IOERR_WRITE), 1 << 20, False),
        (DriverError(sqlite3.SQLITE_CANTOPEN), 0, True),
        (DriverError(sqlite3.SQLITE_BUSY), 0, False),
        (DriverError(sqlite3.SQLITE_CORRUPT), 0, False),
        (DriverError(sqlstate="53100"), 1 << 20, True),
        (DriverError(sqlstate="53200"), 0, False),
        (ValueError(), 0, False),
    ],
)
def test_a_full_disk_is_told_from_other_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, free: int, *, is_full: bool
) -> None:
    """A locked or damaged database on a full disk is not answered with "no room", which would hide the damage."""
    room = Room(tmp_path / "cloud.db")
    disk = os.statvfs(tmp_path)
    lines = (disk.f_bsize, disk.f_frsize, disk.f_blocks, disk.f_bfree, free // disk.f_frsize, *disk[5:])
    monkeypatch.setattr(os, "statvfs", lambda _path: os.statvfs_result(lines))

    assert room.is_full(error) is is_full
