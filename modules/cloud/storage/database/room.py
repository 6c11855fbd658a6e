"""Room for the database on its disk, and the errors of a full one."""

import os
import sqlite3
import threading
from pathlib import Path
from typing import Final

from beehive.files.reserve import Reserve

_RESERVE: Final = 8 * 1024 * 1024
"""Bytes of the reserve: SQLite's log grows to 4 MiB before it starts over."""
_DISK_FULL: Final = "53100"
"""PostgreSQL's SQLSTATE."""
_NO_ROOM: Final = 64 * 1024
"""Bytes of free room below which SQLite's other errors of files mean a full disk."""
_OF_FILES: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class Room:
    """The reserve of a database, for all its users in this process. Thread-safe.

    A full disk admits no commit. The reserve is given up for the first commit that fails, and what must be written then
    finds room: leases, statuses, deletions, and what nodes have received. Other writes are refused until there is
    room for the reserve again.

    Args:
        path: the SQLite file; None: another database, which has no reserve.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._path = path
        self._reserve = Reserve(path, _RESERVE) if path is not None else None
        self.is_short = False
        """Whether the reserve has been given up, and not made again."""

    def give(self) -> bool:
        """Give up the reserve; return whether that has freed room."""
        with self._lock:
            if self._reserve is None or not self._reserve.release():
                return False
            self.is_short = True
            return True

    def fill(self) -> bool:
        """Make the reserve if there is room for it; return whether a shortage has ended."""
        with self._lock:
            if self._reserve is None:
                return False
            self._reserve.fill()
            has_ended = self.is_short and self._reserve.there
            self.is_short = self.is_short and not has_ended
            return has_ended

    def is_full(self, error: Exception) -> bool:
        """Return whether an error of the database's driver means that there is no room."""
        reason = getattr(error, "orig", None) or error
        if getattr(reason, "sqlstate", None) == _DISK_FULL:
            return True
        code = (getattr(reason, "sqlite_errorcode", None) or 0) & 0xFF
        return code == sqlite3.SQLITE_FULL or (code in _OF_FILES and self._is_disk_full())

    def _is_disk_full(self) -> bool:
        if self._path is None:
            return False
        disk = os.statvfs(self._path.parent)
        return disk.f_bavail * disk.f_frsize < _NO_ROOM
