"""Directories that appear complete, because one that is there is taken as it is."""

import os
from pathlib import Path

from beehive.files.durable import make_directories
from beehive.files.removal import remove_tree
from beehive.node_namespaces import give_to_pods
from edged.errors import VolumeError

_PARENTS = 0o750


def make_directory(path: Path, mode: int, group: int | None = None) -> None:
    """Make the directory with exactly this mode, despite the umask, and group. An existing one keeps its users' changes
    (kubelet: it is ready); so it must appear complete. Raises VolumeError and OSError.
    """
    if path.is_dir():
        return
    make_directories(path.parent, _PARENTS)
    making = path.with_name(f"..{path.name}.new")
    remove_tree(making)
    making.mkdir()
    give_to_pods(making)
    if group is not None:
        give_to_group(making, group)
    making.chmod(mode)
    making.rename(path)


def give_to_group(path: Path, group: int, within: int | None = None) -> None:
    """Give a file, or a link itself, to a group. Raises VolumeError without the right to do so.

    Args:
        path: name of the file.
        group: its group.
        within: descriptor of the directory of a relative path.
    """
    try:
        os.chown(path, -1, group, dir_fd=within, follow_symlinks=False)
    except PermissionError as error:
        raise VolumeError("cannot give the volume to the group", f"{path}: {group}", "fsGroup needs root") from error
