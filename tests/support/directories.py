"""Directories of one run of the tests, whose paths are short enough for sockets in them: those have 107 bytes.

Their names have the run's mark. So have the cgroups, bridges and rules that tests name after them, and the environment
of each process of the run: `tests/support/remains.py` finds by it what a run has left on the machine.
"""

import atexit
import fcntl
import os
import secrets
import stat
import string
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from beehive.files.removal import remove_tree

VARIABLE: Final = "EDGECORE_TESTS"
"""Environment variable with the run's mark: processes that tests start inherit it."""
SHORT: Final = Path("/tmp")
MEMORY: Final = Path("/dev/shm")
_LONGEST_PARENT: Final = 24
"""Bytes of the directory for temporary files, so that a socket three directories below a test's own can be made."""
_CHARACTERS: Final = string.ascii_lowercase + string.digits
_NOT_HEXADECIMAL: Final = "ghijklmnopqrstuvwxyz"
_TRIES: Final = 1000
_LOCK: Final = "lock"
AT_END: Final = ExitStack()
"""What a process of the tests undoes at its end: `tests/conftest.py` closes it after the last test."""
atexit.register(AT_END.close)
_KEPT: Final = 3


def begin_run() -> None:
    """Give this process and its children a mark that is in no name of what an earlier run may have left."""
    present = [path.name for parent in {SHORT, memory_parent(), temporary_parent()} for path in parent.iterdir()]
    drawn = ("".join(map(secrets.choice, 2 * (_NOT_HEXADECIMAL, string.digits))) for _ in range(_TRIES))
    os.environ[VARIABLE] = next(each for each in drawn if not any(each in name for name in present))


def mark() -> str:
    """Return the run's mark: four letters and digits that are in no word and in no UID."""
    if VARIABLE not in os.environ:
        begin_run()
    return os.environ[VARIABLE]


def temporary_parent() -> Path:
    """Return the directory for temporary files, or /tmp if its path is too long, or if root's tests would keep
    processes of other users, as PostgreSQL's, out of it.
    """
    parent = Path(tempfile.gettempdir())
    return parent if len(os.fsencode(parent)) <= _LONGEST_PARENT and _may_be_entered(parent) else SHORT


def _may_be_entered(parent: Path) -> bool:
    return os.geteuid() != 0 or all(path.stat().st_mode & stat.S_IXOTH for path in (parent, *parent.parents))


def memory_parent() -> Path:
    """Return the directory for files in memory, or for temporary files on a machine without it."""
    return MEMORY if os.access(MEMORY, os.W_OK) else temporary_parent()


def new_directory(prefix: str, parent: Path = SHORT, mode: int = 0o700) -> Path:
    """Make a directory with the run's mark in its name, eight characters after the prefix, whatever the umask."""
    for _ in range(_TRIES):
        path = parent / f"{prefix}{mark()}{_random()}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        path.chmod(mode)
        return path
    raise FileExistsError(f"{parent} has no free name that begins with {prefix}")


def run_directory(parent: Path) -> tuple[Path, int]:
    """Make the directory of a whole run and return it with the descriptor of its lock.

    A run that has failed leaves its directory for people to look into; the last three runs' are kept.
    """
    for directory in _runs(parent)[_KEPT:]:
        with suppress(OSError):  # it has no lock yet, its run still goes on, or something in it resists
            os.close(_locked(directory / _LOCK, os.O_RDWR))
            remove_tree(directory)
    directory = new_directory("t-", parent, mode=0o711)
    return directory, _locked(directory / _LOCK, os.O_RDWR | os.O_CREAT)


def _runs(parent: Path) -> list[Path]:
    """Return the directories of this user's runs, the newest first."""
    found = []
    for path in parent.glob("t-????????"):
        with suppress(FileNotFoundError):  # another run has just removed it
            status = path.stat()
            if status.st_uid == os.geteuid():
                found.append((status.st_mtime, path))
    return [path for _, path in sorted(found, reverse=True)]


def _locked(path: Path, flags: int) -> int:
    """Return a descriptor that holds the lock of a file. Raises OSError if another process holds it."""
    opened = os.open(path, flags, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        raise
    return opened


@contextmanager
def short_directory(prefix: str, parent: Path = SHORT, mode: int = 0o700) -> Iterator[Path]:
    """A directory as of `new_directory`, which is removed in the end with all that is in it."""
    path = new_directory(prefix, parent, mode)
    try:
        yield path
    finally:
        remove_tree(path)


def _random() -> str:
    return "".join(secrets.choice(_CHARACTERS) for _ in range(4))
