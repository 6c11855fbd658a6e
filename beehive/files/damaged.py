"""Sets damaged files and directories aside, so that the program goes on without them.

They are renamed into `damaged` below the program's root directory, whose entries `edgecore doctor` and the metrics
show. The newest of them are kept for a later analysis.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path

from beehive.files.durable import put_in_place
from beehive.files.numbered import next_number, number_of
from beehive.files.removal import remove_tree

_log = logging.getLogger(__name__)

DIRECTORY = "damaged"
"""Name of the directory, below the root directory."""

KEPT = 16
"""Entries that are kept."""


def set_aside(path: Path, root: Path, why: str) -> bool:
    """Rename a file or directory into `root / DIRECTORY`, log it, and return whether that succeeded. Never raises."""
    quarantine = root / DIRECTORY
    try:
        quarantine.mkdir(mode=0o700, exist_ok=True)
        number = next_number(os.listdir(quarantine))  # noqa: PTH208 - names alone
        put_in_place(path, target := quarantine / f"{path.name}.{number}")
    except OSError as error:
        _log.error("%s is damaged (%s) and cannot be set aside: %s", path, why, error)
        return False
    _log.error("%s is damaged (%s); it was set aside as %s", path, why, target)
    with suppress(OSError):
        for old in all_set_aside(root)[:-KEPT]:
            remove_tree(old)
    return True


def set_aside_unless_file(path: Path, root: Path, *, links: bool = False) -> None:
    """Set `path` aside unless it is a regular file (or, with `links`, a link to one) or missing. Never raises."""
    is_file = path.is_file() and (links or not path.is_symlink())
    if not is_file and os.path.lexists(path):
        set_aside(path, root, "an ordinary file is wanted there")


def set_aside_unless_directory(path: Path, root: Path) -> None:
    """Set `path` aside unless it is a directory or missing. Never raises."""
    if not path.is_dir() and os.path.lexists(path):
        set_aside(path, root, "a directory is wanted there")


def all_set_aside(root: Path) -> list[Path]:
    """Return the entries that were set aside, oldest first: by number, and by time those of earlier versions, which
    have numbers for each name.
    """
    try:
        with os.scandir(root / DIRECTORY) as entries:
            found = [
                (number_of(entry.name), entry.stat(follow_symlinks=False).st_ctime_ns, entry.path) for entry in entries
            ]
    except OSError:
        return []
    return [Path(path) for *_, path in sorted(found)]
