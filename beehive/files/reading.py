"""Reading a file that may be anything by now: a directory or a pipe in its place, far too long, or gone."""

import errno
import os
import stat
from pathlib import Path


def read_file(path: Path, most: int) -> bytes:
    """The content of an ordinary file. A pipe in its place is not waited for.

    Raises OSError: also for what is no ordinary file, and for one of more than `most` bytes (EFBIG).
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file", str(path))
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content
