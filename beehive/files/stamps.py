"""Stamps of files, which tell that a file has changed without reading it."""

import os
from typing import Final, NamedTuple

SETTLED_SECONDS: Final = 2.0
"""The coarsest time of a change that a file system has (FAT's)."""


class FileStamp(NamedTuple):
    """Stamp that differs between two states of a file. It differs once more when a change is `SETTLED_SECONDS` ago, so
    that the file is read again then: a change before the reading and one after it may have the same time.
    """

    inode: int = 0
    size: int = 0
    """Bytes."""
    changed: int = 0
    """Time of the last change of the content, in nanoseconds since 1970."""
    is_settled: bool = False

    def is_of_state(self, other: "FileStamp") -> bool:
        """Return whether the other stamp is of this state of the file, as far as stamps tell."""
        return self[:3] == other[:3]


def stamp_of(status: os.stat_result, now: float) -> FileStamp:
    """Return the stamp of a file.

    Args:
        status: of the file.
        now: seconds since 1970, by the clock of this machine.
    """
    is_settled = abs(now - status.st_mtime) >= SETTLED_SECONDS
    return FileStamp(status.st_ino, status.st_size, status.st_mtime_ns, is_settled)
