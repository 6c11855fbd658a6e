"""The locks: who starts the node, who runs it, and who carries an upgrade out."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from .processes import LOOK_AGAIN_SECONDS, number_in

_START_SECONDS: Final = 300.0
"""Seconds that a start waits for another one, or for an updater that stops the node and puts its database back."""


class StartError(Exception):
    """A start of the node that has to wait too long for another one, or runs a version that is not current."""


class StartLock:
    """The right to start the node, or to change what it is started with: the link, the database, the configuration.

    A record lock of POSIX belongs to a process: it outlives an exec, as a launcher becomes the node; no child of the
    node has it, though that may have the descriptor; the kernel says which process has it; and it ends with the
    process, or when that closes any descriptor of the file, so a process opens it once.

    Args:
        file: that is locked; it is made if there is none.

    Raises:
        OSError: it cannot be opened for writing.
    """

    _RECORD: Final = struct.Struct("hhqqi")
    """`struct flock`: type, whence, start, length, process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def acquire(self) -> int:
        """Take it, unless another process has it; return that process, else 0.

        Raises:
            OSError: a process of another PID namespace has it.
        """
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if process := self.holder():
                    return process
            else:
                return 0

    def holder(self) -> int:
        """Return the other process that has it; 0 if none has. Raises OSError, as `acquire`."""
        found = fcntl.fcntl(self._file, fcntl.F_GETLK, self._RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, process = self._RECORD.unpack(found)
        if kind == fcntl.F_UNLCK:
            return 0
        if process <= 0:
            raise OSError(errno.EBUSY, "a process of another PID namespace starts the node")
        return int(process)

    def wait(self, is_running: Callable[[int], bool] = lambda _: False) -> bool:
        """Take it within some minutes, and return True; False if a process that runs the node has it and keeps it.

        Args:
            is_running: whether a process is the node, with its lock.

        Raises:
            StartError: another process has it for too long.
            OSError: as `acquire`.
        """
        deadline = time.monotonic() + _START_SECONDS
        while process := self.acquire():
            if is_running(process):
                return False
            if time.monotonic() > deadline:
                raise StartError(f"process {process} starts or stops it")
            time.sleep(LOOK_AGAIN_SECONDS)
        return True

    def pass_on(self) -> None:
        """Let the program that takes the place of this process have it."""
        os.set_inheritable(self._file, True)  # noqa: FBT003 - the function's form

    def leave(self) -> None:
        """Release it, and close all descriptors of the file that this process has: the one that was passed on, too."""
        try:
            status = os.fstat(self._file)
            for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
                with suppress(OSError):
                    if descriptor != self._file and os.path.samestat(os.fstat(descriptor), status):
                        os.close(descriptor)
        finally:
            os.close(self._file)


def owner_of(lock: Path) -> int:
    """Return the process that runs the node; 0 if none does, or if it has just taken the lock."""
    return _owner(lock) or 0


def is_held(lock: Path) -> bool:
    """Return whether a process runs the node."""
    return _owner(lock) is not None


def _owner(lock: Path) -> int | None:
    """Return the process in a lock file that is held, 0 if that does not say it yet; None if nobody holds it."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if try_lock(descriptor, fcntl.LOCK_SH):
            return None
        return number_in(os.pread(descriptor, 20, 0).decode("ascii", "replace"))
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take the lock on a file if it is free, and return whether it was."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
