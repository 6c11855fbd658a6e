"""The times of a layer's directories, kept until all its files are made: each new file changes its directory's time.

They are in a file, because a layer may have millions of directories, and the process little memory.
"""

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

_RECORD: Final = struct.Struct("<?qI")
_BUFFER: Final = 64 * 1024
_NAME: Final = "times"
_LATEST: Final = (1 << 63) - 1
_NONE: Final = -1
"""For a time that no file system has."""


class DirectoryTimes:
    """Paths and times, in the order of setting them.

    Args:
        within: descriptor of the directory in which the file is made; it has no name there.
    """

    def __init__(self, within: int) -> None:
        self._within = within
        self._file: BinaryIO | None = None

    def add(self, path: tuple[bytes, ...], mtime_ns: int, *, is_copied: bool = False) -> None:
        """Keep the time of a directory; one from the tar counts more than one copied from a lower layer.

        Raises OSError.
        """
        if self._file is None:
            self._file = _unnamed_file(self._within)
        name = b"/".join(path)
        time = mtime_ns if 0 <= mtime_ns <= _LATEST else _NONE
        self._file.write(_RECORD.pack(is_copied, time, len(name)) + name)

    def __iter__(self) -> Iterator[tuple[tuple[bytes, ...], int]]:
        """Yield paths and times; of several times of one path the last counts. Raises OSError."""
        for copied in (True, False):
            yield from self._records(copied)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def _records(self, copied: bool) -> Iterator[tuple[tuple[bytes, ...], int]]:
        if self._file is None:
            return
        self._file.seek(0)
        while head := self._file.read(_RECORD.size):
            is_copied, time, length = _RECORD.unpack(head)
            name = self._file.read(length)
            if is_copied == copied:
                yield tuple(name.split(b"/")), time


def _unnamed_file(within: int) -> BinaryIO:
    descriptor = os.open(_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=within)
    os.unlink(_NAME, dir_fd=within)
    return os.fdopen(descriptor, "w+b", _BUFFER)
