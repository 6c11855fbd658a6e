"""Descriptors: directories that are opened without following links, the mount of an open file, and waits."""

import errno
import os
import select
from pathlib import Path
from typing import Final, NamedTuple

SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of a process or machine that is short of something: they tell nothing about the file or the peer."""

_PAGE = 4096
"""Bytes read of what /proc says of a directory's descriptor; it has some eighty."""
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class MountOf(NamedTuple):
    """The mount of a file. Bind mounts of the same file system share the device and differ in the number."""

    device: int
    number: int


class OwnedFd(int):
    """The number of an open file that is closed at the end of a `with` statement."""

    def __enter__(self) -> int:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self)


def raise_shortage(error: BaseException) -> None:
    """Raise the error again if it is one of `SHORTAGES`. What could not be read is then neither missing nor damaged."""
    if isinstance(error, OSError) and error.errno in SHORTAGES:
        raise error


def open_directory(name: str | Path, within: int | None = None) -> int:
    """Open a directory, relative to the descriptor `within` if given; the caller closes the descriptor.

    Raises OSError: NotADirectoryError if it is not a directory, or is a link to one.
    """
    return os.open(name, _OPEN, dir_fd=within)


def open_without_rights(name: str, within: int) -> int:
    """Open a directory of this user's own without read permission: its mode is set to 0700 first, through a descriptor
    that needs no permission. Raises OSError.
    """
    with OwnedFd(os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)) as handle:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 (no path: a descriptor's name)
    return open_directory(name, within)


def mount_of(descriptor: int) -> MountOf:
    """Return the mount of an open file; its number is -1 if /proc does not have it.

    Raises OSError if no descriptor is left for reading it.
    """
    return MountOf(os.fstat(descriptor).st_dev, _number(descriptor))


def is_mounted(directory: Path) -> bool:
    """Return whether another file system is mounted at a directory; False without one. A bind mount of the same file
    system is not seen. Raises OSError.
    """
    try:
        name = str(directory)  # strings: this is asked for each container
        return os.stat(name).st_dev != os.stat(os.path.dirname(name) or ".").st_dev  # noqa: PTH116, PTH120
    except FileNotFoundError:
        return False


def open_process(number: int) -> int:
    """Return a pidfd of the process with a number (pidfd_open(2)).

    A number from a file may be a thread's by now, which is no process: that is EINVAL, and ENOENT since Linux 6.15.

    Raises:
        ProcessLookupError: there is no such process.
        OSError: the process or machine is short of something.
    """
    try:
        return os.pidfd_open(number)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH)) from error
        raise


def is_readable(descriptor: int, milliseconds: float) -> bool:
    """Return whether a descriptor can be read within some time: a pidfd can be once its process has ended."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(milliseconds))


def _number(descriptor: int) -> int:
    try:
        with OwnedFd(os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)) as information:
            text = os.read(information, _PAGE)
    except OSError as error:
        raise_shortage(error)
        return -1
    _, _, rest = text.partition(b"mnt_id:")
    first = rest.split(None, 1)[:1]
    return int(first[0]) if first else -1
