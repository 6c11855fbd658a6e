"""Opens files below a directory that an untrusted image fills, without ever leaving it.

A link such as `etc/passwd -> /etc/shadow` is followed inside the directory (openat2 with RESOLVE_IN_ROOT, Linux 5.6);
on older kernels a path with links is refused.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.files.reading import read_to_end

_OPENAT2: Final = 437
"""The system call's number, the same on every architecture but Alpha."""
_NO_MAGICLINKS: Final = 0x02
_IN_ROOT: Final = 0x10
_TRIES: Final = 8
"""openat2 answers EAGAIN when something on the way is renamed meanwhile."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def read_inside(root: Path, path: str, limit: int) -> bytes | None:
    """Return the content of a regular file below `root`; None if it is missing or no regular file.

    Raises:
        OSError: it cannot be read (EFBIG: it has more than `limit` bytes; ELOOP: too many links).
    """
    try:
        with _opened(root, path) as handle:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            with OwnedFd(os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
                content = read_to_end(descriptor, limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if len(content) > limit:
        raise OSError(errno.EFBIG, f"more than {limit} bytes", path)
    return content


def real_path_inside(root: Path, path: str) -> Path:
    """Return where `path` leads below `root`, as a path of the machine, with all links followed inside `root`.

    Raises:
        OSError: it does not exist or cannot be looked up.
    """
    with _opened(root, path) as handle:
        return Path(os.readlink(f"/proc/self/fd/{handle}"))  # noqa: PTH115 - no path but a descriptor


@contextmanager
def _opened(root: Path, path: str) -> Iterator[int]:
    """Open without touching the file itself: to open a device can do things."""
    with OwnedFd(os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as top:
        handle = _open_below(top, path)
    with OwnedFd(handle):
        yield handle


def _open_below(top: int, path: str) -> int:
    how = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGICLINKS)
    for _ in range(_TRIES):
        handle = _syscall()(
            _OPENAT2, ctypes.c_int(top), os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if handle >= 0:
            return int(handle)
        error = ctypes.get_errno()
        if error == errno.ENOSYS:
            return open_by_steps(top, path)
        if error != errno.EAGAIN:
            break
    raise OSError(error, os.strerror(error), path)


def open_by_steps(top: int, path: str) -> int:
    """Open without openat2: name by name, links refused. Raises OSError."""
    here = os.dup(top)
    for name in PurePosixPath(path).parts:
        if name == "/":
            continue
        try:
            if name == "..":
                raise OSError(errno.EXDEV, "it leaves the root", path)
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)
        here = below
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    return here


@cache
def _syscall() -> "ctypes._FuncPointer":
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function
