"""Room on the disk that is kept free for deletions.

On a disk without room nothing can be committed, not even that something is gone, so nothing would ever free room. A
file beside the database holds some: when a deletion finds none, the file is removed, the deletion committed, and the
file made again when there is room for it and more.
"""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.damaged import make_way

_log = logging.getLogger(__name__)

SUFFIX: Final = "-reserve"
"""Of the file's name, behind the database's."""

LARGEST: Final = 256 * 1024
"""Bytes of the file: a deletion appends some 40 kB to the write-ahead log."""

SMALLEST: Final = 64 * 1024
"""On a small disk."""

_SHARE: Final = 32
"""Of a small disk one part in so many."""

_AMPLE: Final = 4
"""Reserves that must be free before one is taken: who fills the disk again must not meet this file first."""


class Reserve:
    """See the module's docstring. Nothing here raises: without a reserve all goes on as without room.

    Args:
        database: beside which the file is.
    """

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(database.name + SUFFIX)
        self.there = False
        """Whether room is kept free."""

    def fill(self) -> None:
        """Keep room free, if it is not kept already and there is enough."""
        if self.there:
            return
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            size = min(LARGEST, max(SMALLEST, disk.f_blocks * disk.f_frsize // _SHARE))
            self.there = self._has(size) or (disk.f_bavail * disk.f_frsize >= _AMPLE * size and self._write(size))

    def release(self) -> bool:
        """Give up the room; whether there was some."""
        had, self.there = self.there, False
        with suppress(FileNotFoundError):
            try:
                self._path.unlink()
            except OSError as error:
                _log.warning("the reserve %s cannot be given up: %s", self._path, error.strerror)
        return had

    def _has(self, size: int) -> bool:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size >= size

    def _write(self, size: int) -> bool:
        """Bytes that no file system compresses or leaves out. A pipe or a directory in the file's place gives way."""
        make_way(self._path, self._path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(self._path, flags, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(os.urandom(size))
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            self.release()
            raise
        return True
