"""The log file of a container. conmon opens it by its path, also through a link that a container with a hostPath has
put there; so edgecore makes the file, through no link, and looks whether it is the one that conmon has open.

For a new file beside a rotated one conmon opens `<path>.tmp`, and renames it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.files.descriptors import OwnedFd
from beehive.files.linkless import open_without_links

_MAKE: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT

FileId = tuple[int, int]
"""Device and inode."""


def make_log(path: Path) -> FileId:
    """Make a log, unless it is there, with the directory of its container. Raises OSError where a link is in its place,
    or in that of the directory of its container or pod.
    """
    try:
        return _opened(path, _MAKE)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _opened(path, _MAKE)


def log_at(path: Path) -> FileId | None:
    """Return the log at a path; None where there is none, or a link is in its place."""
    try:
        return _opened(path, os.O_RDONLY)
    except OSError:
        return None


def clear_way(path: Path) -> None:
    """Remove a file in the place of conmon's beside a log. Raises OSError."""
    path.with_name(f"{path.name}.tmp").unlink(missing_ok=True)


def has_open(pid: int, file: FileId) -> bool:
    """Return whether a process has a file open."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
        return any(_id_of(each.path) == file for each in descriptors)
    return False


def writes_in(pid: int, directory: Path) -> bool:
    """Return whether a process has a file of a directory open, whatever its name."""
    place = os.path.realpath(directory)
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as descriptors:
        return any(os.path.dirname(_target(each.path)) == place for each in descriptors)  # noqa: PTH120 - as below
    return False


def _target(path: str) -> str:
    with suppress(OSError):
        return os.readlink(path)  # noqa: PTH115 - as below
    return ""


def _opened(path: Path, flags: int) -> FileId:
    with OwnedFd(open_without_links(path, flags)) as descriptor:
        status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _id_of(path: str) -> FileId | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path for each descriptor costs more than the call
    except OSError:
        return None
    return status.st_dev, status.st_ino
