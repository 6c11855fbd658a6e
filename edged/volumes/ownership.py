"""The ownership of a volume: a pod's fsGroup gets it, with all its content (kubelet's SetVolumeOwnership)."""

import os
import stat
from pathlib import Path

from msgspec import Struct

from beehive.files.walking import Walk
from edged.api import Pod
from edged.errors import VolumeError

_ON_ROOT_MISMATCH = "OnRootMismatch"
_USE, _ENTER = 0o660, 0o110


class VolumeOwner(Struct, frozen=True, gc=False):
    """The group that gets the volumes of a pod."""

    group: int
    on_mismatch_only: bool = False
    """Only if the volume's own directory is not the group's yet (fsGroupChangePolicy OnRootMismatch), so that a large
    volume is not walked at each start.
    """


def owner_of(pod: Pod) -> VolumeOwner | None:
    """Return the owner of the pod's volumes; None without an fsGroup."""
    security = pod.spec.security_context
    if security is None or security.fs_group is None:
        return None
    return VolumeOwner(security.fs_group, security.fs_group_change_policy == _ON_ROOT_MISMATCH)


def set_volume_ownership(directory: Path, owner: VolumeOwner) -> None:
    """Give a directory and all below it to the group, which may read and write it; new files in it belong to the group
    too. Links are given, and never followed. Raises VolumeError.
    """
    if owner.on_mismatch_only and _is_given(directory, owner.group):
        return
    for found in Walk(directory):
        _give(found.entry.name, owner.group, within=found.within)
    # the directory itself last: an interrupted run does not pass for a complete one
    _give(str(directory), owner.group)


def _give(path: str, group: int, *, within: int | None = None) -> None:
    """Change one entry, through a descriptor that opens no file: the path may be a device, or a container with the
    volume may replace it by a link meanwhile.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    except FileNotFoundError:
        return
    itself = f"/proc/self/fd/{handle}"
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            os.chown(path, -1, group, dir_fd=within, follow_symlinks=False)
            return
        os.chown(itself, -1, group)
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            Path(itself).chmod(stat.S_IMODE(mode) | _wanted(mode))
    except PermissionError as error:
        raise VolumeError("cannot give the volume to the group", f"{path}: {group}", "fsGroup needs root") from error
    finally:
        os.close(handle)


def _wanted(mode: int) -> int:
    return _USE | stat.S_ISGID | _ENTER if stat.S_ISDIR(mode) else _USE


def _is_given(directory: Path, group: int) -> bool:
    found = directory.stat()
    wanted = _wanted(found.st_mode)
    return found.st_gid == group and found.st_mode & wanted == wanted
