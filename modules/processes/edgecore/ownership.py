"""Ensures that each root directory has only one edgecore.

Two agents on one directory would each consider the other's pods their own: both would start containers, and each would
remove the other's. The lock is the kernel's and ends with the process in any case, so a crash leaves nothing to clean
up. Child processes do not inherit it.
"""

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from beehive.files.advice import advice
from beehive.files.damaged import set_aside_unless_directory, set_aside_unless_file
from edged.errors import EdgedError

LOCK_FILE = "edgecore.lock"
"""Lock file in the root directory; holds the owner's process id for people to read."""

_MODE = 0o750
_DIRECTORIES = ("device-plugins", "embedded", "plugins", "plugins_registry", "pod-resources", "pods", "traces")
"""Directories that edgecore makes in its root directory."""


class RootDirectoryError(EdgedError):
    """The root directory cannot be made or written to."""


class RootDirectoryInUseError(EdgedError):
    """Another edgecore runs on the root directory."""


def lock_root_directory(root: Path, stack: ExitStack) -> None:
    """Make and lock the directory until the stack ends.

    Raises:
        RootDirectoryError: the directory cannot be made or written to.
        RootDirectoryInUseError: another process holds the lock.
    """
    try:
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        _make_way(root)
        lock = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    except OSError as error:
        hint = f"{advice(error)}; modules.edged.rootDirectory, or --root, names another"
        raise RootDirectoryError("cannot use the root directory", str(root), hint) from error
    stack.callback(os.close, lock)
    try:
        _acquire(lock)
    except OSError as error:
        owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        hint = f"process {owner or 'unknown'} has it; stop that one first, or give this one another directory"
        raise RootDirectoryInUseError("another edgecore runs on the root directory", str(root), hint) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _acquire(lock: int) -> None:
    """Lock a file, also while others look whether it is locked, which holds a shared lock for a moment.

    Raises:
        BlockingIOError: another process has locked it.
    """
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.sched_yield()
        else:
            return


def _make_way(root: Path) -> None:
    """Set aside a wrong kind of file in the place of the lock or a directory; it would make every start fail."""
    set_aside_unless_file(root / LOCK_FILE, root)
    for name in _DIRECTORIES:
        set_aside_unless_directory(root / name, root)
