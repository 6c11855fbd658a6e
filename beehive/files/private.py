"""Files of the owner alone, made and restricted without opening them."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_OTHERS: Final = 0o077


def make_private(path: Path) -> None:
    """Make a file, unless it is there, and take the permissions of group and others away, without opening it.

    A process that closes any descriptor of a file loses all its POSIX locks on it, with those of SQLite's connections:
    the next program that closes the database then takes itself for the last one, and deletes the write-ahead log that
    is in use (https://sqlite.org/howtocorrupt.html, section 2.2).

    Raises:
        OSError: it cannot be made, or is no regular file.
    """
    with suppress(FileExistsError):
        os.mknod(os.path.realpath(path), stat.S_IFREG | _OWNER_ONLY)  # follows links, as `open`
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(number, os.strerror(number), str(path))
    if mode & _OTHERS:
        path.chmod(_OWNER_ONLY)
