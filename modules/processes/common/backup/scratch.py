"""Directories of `backup` and `restore` for what is not complete yet."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from modules.processes.common.backup.errors import BackupError

_SCRATCH: Final = ".edgecore-backup-in-work-"
"""Begins the names of directories; no person gives one such a name."""


def scratch_for_a_backup(file: Path, what: str = "backup") -> AbstractContextManager[Path]:
    """Return a directory for this user alone beside a new file, whose own directory must exist: a mistyped path makes
    none.

    Raises:
        BackupError: there is no such directory.
    """
    if not file.parent.is_dir():
        raise BackupError(f"cannot write the {what}", str(file), f"there is no directory {file.parent}")
    return scratch_beside(file)


@contextmanager
def scratch_beside(file: Path) -> Iterator[Path]:
    """Yield a directory for this user alone, beside a file. Those of commands that were killed are removed: they may
    have a copy of the database, with its secrets.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in file.parent.glob(f"{_SCRATCH}*"):
        with _held(each) as is_left:
            if is_left:
                shutil.rmtree(each, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=file.parent) as directory, _held(Path(directory)):
        yield Path(directory)


@contextmanager
def _held(directory: Path) -> Iterator[bool]:
    """Lock a directory, and yield whether that is possible: another process may have it, or it is on NFS."""
    with ExitStack() as stack:
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            is_held = False
        else:
            is_held = True
        yield is_held
