"""One edgecore for each root directory.

Two agents on one directory would each take the other's pods for its own: both start containers, and each removes what
the other made. The lock is the kernel's and goes with the process, however it ends, so there is nothing to clean up
after a crash. Processes that edgecore starts do not inherit it.
"""

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path

from beehive.files.damaged import make_way, make_way_for_directory
from edged.errors import EdgedError

LOCK_FILE = "edgecore.lock"
"""Beside the pods; holds the process id of whoever has the lock, for people to read."""

_MODE = 0o750
_DIRECTORIES = ("device-plugins", "embedded", "plugins", "plugins_registry", "pod-resources", "pods", "traces")
"""That the parts of an edgecore make below its root directory."""


class RootDirectoryError(EdgedError):
    """The root directory cannot be made or written to."""


class RootDirectoryTakenError(EdgedError):
    """Another edgecore runs on the root directory."""


def take(root: Path, stack: ExitStack) -> None:
    """Make the directory and keep it for this process until the stack unwinds.

    Raises:
        RootDirectoryError: it cannot be made or written to.
        RootDirectoryTakenError: another process has it.
    """
    try:
        root.mkdir(mode=_MODE, parents=True, exist_ok=True)
        _make_way(root)
        lock = os.open(root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    except OSError as error:
        hint = f"{error.strerror}; modules.edged.rootDirectory, or --root, names another"
        raise RootDirectoryError("cannot use the root directory", str(root), hint) from error
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        hint = f"process {owner or 'unknown'} has it; stop that one first, or give this one another directory"
        raise RootDirectoryTakenError("another edgecore runs on the root directory", str(root), hint) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _make_way(root: Path) -> None:
    """What is in the place of the lock or of a directory, and is none, would end every start."""
    make_way(root / LOCK_FILE, root)
    for name in _DIRECTORIES:
        make_way_for_directory(root / name, root)
