"""The common parts of `backup` and `restore`, edgecore's and cloudcore's."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import gmtime, strftime

from beehive import RealClock
from modules.processes.common.backup.archive import FORMAT, BackupManifest
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.version import VERSION


def scratch_for_a_backup(file: Path) -> AbstractContextManager[Path]:
    """Return a directory for this user alone beside a new file, whose own directory must exist: a mistyped path makes
    none.

    Raises:
        BackupError: there is no such directory.
    """
    if not file.parent.is_dir():
        raise BackupError("cannot write the backup", str(file), f"there is no directory {file.parent}")
    return scratch_beside(file)


@contextmanager
def scratch_beside(file: Path) -> Iterator[Path]:
    """Yield a directory for this user alone, beside a file."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=file.parent) as directory:
        yield Path(directory)


def head_of(program: str, name: str) -> BackupManifest:
    """Return a manifest without members."""
    return BackupManifest(FORMAT, program, VERSION, name, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(RealClock().now())))


def files_of(manifest: BackupManifest) -> str:
    """Return how many files a backup has, in words."""
    return f"{len(manifest.parts)} file{'' if len(manifest.parts) == 1 else 's'}"
