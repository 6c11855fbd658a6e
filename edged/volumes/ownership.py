"""Whose a volume is: a pod's fsGroup gets it, with everything in it (kubelet's SetVolumeOwnership)."""

import os
import stat
from pathlib import Path

from msgspec import Struct

from beehive.files.walking import Walk
from edged.api import Pod
from edged.volumes.errors import VolumeError

_ON_ROOT_MISMATCH = "OnRootMismatch"
_READ, _WRITE, _ENTER = 0o440, 0o660, 0o110


class Owner(Struct, frozen=True, gc=False):
    """The group that volumes of a pod are given to."""

    group: int
    on_mismatch_only: bool = False
    """Only if the volume's own directory is not the group's yet (fsGroupChangePolicy OnRootMismatch): a large volume
    is not gone through at each start."""


def owner_of(pod: Pod) -> Owner | None:
    """Whose the pod's volumes are to be; None for nobody's in particular."""
    security = pod.spec.security_context
    if security is None or security.fs_group is None:
        return None
    return Owner(security.fs_group, security.fs_group_change_policy == _ON_ROOT_MISMATCH)


def give_away(directory: Path, owner: Owner, *, read_only: bool = False) -> None:
    """Give a directory and all below it to the group, which may read and (unless `read_only`) write it; what is made in
    it later is the group's too. Links are given, and never followed. Raises VolumeError.
    """
    if owner.on_mismatch_only and _is_given(directory, owner.group, read_only=read_only):
        return
    for found in Walk(directory):
        _give(found.entry.name, owner.group, read_only=read_only, within=found.within)
    # the directory itself last: an interrupted run does not pass for a complete one
    _give(str(directory), owner.group, read_only=read_only)


def _give(path: str, group: int, *, read_only: bool, within: int | None = None) -> None:
    """Through a descriptor that opens nothing: the path may be a device's, or be exchanged for a link meanwhile by a
    container that has the volume.
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
            Path(itself).chmod(stat.S_IMODE(mode) | _wanted(mode, read_only=read_only))
    except PermissionError as error:
        raise VolumeError("cannot give the volume to the group", f"{path}: {group}", "fsGroup needs root") from error
    finally:
        os.close(handle)


def _wanted(mode: int, *, read_only: bool) -> int:
    bits = _READ if read_only else _WRITE
    return bits | stat.S_ISGID | _ENTER if stat.S_ISDIR(mode) else bits


def _is_given(directory: Path, group: int, *, read_only: bool) -> bool:
    found = directory.stat()
    wanted = _wanted(found.st_mode, read_only=read_only)
    return found.st_gid == group and found.st_mode & wanted == wanted
