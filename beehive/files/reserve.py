"""A file that reserves room on the disk for what must be written when the disk is full."""

import logging
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.damaged import set_aside_unless_file
from beehive.files.opening import opener_with
from beehive.on_failure import on_failure

_log = logging.getLogger(__name__)

SUFFIX: Final = "-reserve"
"""Appended to the database's file name."""

LARGEST: Final = 256 * 1024
"""Bytes of the file by default: a deletion appends some 40 kB to the write-ahead log."""

SMALLEST: Final = 64 * 1024
"""Bytes of the file on a small disk."""

_SHARE: Final = 32
"""On a small disk the file takes one part in 32."""

_AMPLE: Final = 4
"""The disk must have free room for this many reserves before one is made, so that it does not fill the disk again."""


class Reserve:
    """Room on the disk for what must be written, such as deletions, in a file beside the database.

    A full disk admits no commit, not even of a deletion, so nothing would ever free room. If a deletion fails, this
    file is removed, the deletion committed, and the file made again once there is ample room. Nothing here raises:
    without a reserve, a deletion fails like any change.

    Args:
        database: path of the database.
        largest: bytes of the file.
    """

    def __init__(self, database: Path, largest: int = LARGEST) -> None:
        self._largest = largest
        self._path = database.with_name(database.name + SUFFIX)
        self.there = False
        """Whether the file exists."""

    def fill(self) -> None:
        """Make the file, unless it exists or the disk has not enough room."""
        if self.there:
            return
        with suppress(OSError):
            disk = os.statvfs(self._path.parent)
            size = min(self._largest, max(SMALLEST, disk.f_blocks * disk.f_frsize // _SHARE))
            self.there = self._has(size) or (disk.f_bavail * disk.f_frsize >= _AMPLE * size and self._write(size))

    def release(self) -> bool:
        """Remove the file; return whether it existed."""
        had, self.there = self.there, False
        try:
            self._path.unlink(missing_ok=True)
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
        """Write random bytes, which no file system compresses. Sets aside a pipe or directory in the file's place."""
        set_aside_unless_file(self._path, self._path.parent)
        opener = opener_with(flags=os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(self._path, "wb", opener=opener) as file, on_failure(self.release):
            file.write(os.urandom(size))
            file.flush()
            os.fsync(file.fileno())
        return True
