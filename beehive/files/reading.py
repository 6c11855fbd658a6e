"""Reads a file that may have become a directory, a pipe, or far too long."""

import errno
import os
import stat
from pathlib import Path


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a regular file; never blocks on a pipe.

    Raises OSError: also if it is not a regular file (EINVAL), or has more than `most` bytes (EFBIG).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content
