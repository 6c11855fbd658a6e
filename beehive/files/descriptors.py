"""Directories by descriptor: opened without following a link, and asked which mount they are of."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class MountOf(NamedTuple):
    """The mount that a file is of. Bind mounts of one file system have one device, and their own number each."""

    device: int
    number: int


def open_directory(name: str | Path, within: int | None = None) -> int:
    """Open a directory, below another one if that is given; the caller closes the descriptor.

    Raises OSError: NotADirectoryError for what is no directory, a link to one among it.
    """
    return os.open(name, _OPEN, dir_fd=within)


def open_without_rights(name: str, within: int) -> int:
    """The same for a directory of this user's own that nobody may read: its mode is set to 0700 first, through a
    descriptor that needs no right. Raises OSError.
    """
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 (no path: a descriptor's name)
    finally:
        os.close(handle)
    return open_directory(name, within)


def mount_of(descriptor: int) -> MountOf:
    """The mount that an open file is of; where /proc does not tell the number, it is -1 for all.

    Raises OSError when there is no descriptor left to read it by.
    """
    return MountOf(os.fstat(descriptor).st_dev, _number(descriptor))


def _number(descriptor: int) -> int:
    try:
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_bytes()
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return -1
    _, _, rest = text.partition(b"mnt_id:")
    first = rest.split(None, 1)[:1]
    return int(first[0]) if first else -1
