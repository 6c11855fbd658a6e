"""Files and names that are on the disk when a call returns."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def replace_durably(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Replace a file durably, with mode 0600, or with the owner and mode of another one. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        if like is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Put a file on the disk. Raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
