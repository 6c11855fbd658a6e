"""Reads a file that may have become a directory, a pipe, or far too long, and lists a directory that may be missing."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd

_PIECE: Final = 8 * 1024
"""Bytes read at a time: a read of the whole limit would map that much memory, and unmap it again, for a small file."""


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file; never blocks on a pipe.

    Raises OSError: also if it is not a regular file (EINVAL), or has more than `most` bytes (EFBIG).
    """
    with OwnedFd(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        content = read_to_end(descriptor, most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def list_directory(path: Path) -> list[Path]:
    """Return the sorted entries of a directory; none if it is missing, or is another file.

    Raises OSError: of other errors `Path.glob` makes an empty directory since Python 3.13.
    """
    try:
        return sorted(path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_to_end(descriptor: int, most: int) -> bytes:
    """Return the rest of a file, at most `most` bytes. Reads twice as much each time, as long as there is more."""
    pieces: list[bytes] = []
    wanted, left = _PIECE, most
    while left > 0 and (piece := os.read(descriptor, min(wanted, left))):
        pieces.append(piece)
        left -= len(piece)
        if len(piece) == wanted:
            wanted *= 2
    return b"".join(pieces)
