"""The ownership of a volume: a pod's fsGroup gets it, with all its content (kubelet's SetVolumeOwnership)."""

import errno
import logging
import os
import stat
from pathlib import Path

from msgspec import Struct

from beehive.files.walking import Walk
from beehive.node_namespaces import POD_IDS, namespaces_id, pod_id
from edged.errors import VolumeError
from modules.apimachinery.types import Pod

_log = logging.getLogger(__name__)

_ON_ROOT_MISMATCH = "OnRootMismatch"
_REFUSALS = (errno.EPERM, errno.EACCES, errno.EROFS, errno.EOPNOTSUPP)
"""Errors of a file system without owners (FAT), of a server that knows no root, of a file that cannot be changed."""
_USE, _ENTER = 0o660, 0o110


class VolumeOwner(Struct, frozen=True, gc=False):
    """The group that gets the volumes of a pod."""

    group: int
    """As this process has it."""
    on_mismatch_only: bool = False
    """Only if the volume's own directory is not the group's yet (fsGroupChangePolicy OnRootMismatch), so that a large
    volume is not walked at each start.
    """


def owner_of(pod: Pod) -> VolumeOwner | None:
    """Return the owner of the pod's volumes; None without an fsGroup. Raises VolumeError for one that needs root."""
    security = pod.spec.security_context
    if security is None or security.fs_group is None:
        return None
    if namespaces_id() and security.fs_group >= POD_IDS:
        reason = f"without root pods have those up to {POD_IDS - 1}"
        raise VolumeError("cannot give volumes to the group", str(security.fs_group), reason)
    return VolumeOwner(pod_id(security.fs_group), security.fs_group_change_policy == _ON_ROOT_MISMATCH)


def set_volume_ownership(directory: Path, owner: VolumeOwner) -> None:
    """Give a directory and all below it to the group, which may read and write it; new files in it belong to the group
    too. Links are given, and never followed. What a file system refuses to give stays as it is, and the pod starts (as
    under a kubelet). Raises VolumeError for an agent without the right, and OSError.
    """
    if owner.on_mismatch_only and _is_given(directory, owner.group):
        return
    refusal: OSError | None = None
    for found in Walk(directory):
        refusal = _give(found.entry.name, owner.group, found.within) or refusal
    # the directory itself last: an interrupted run does not pass for a complete one
    refusal = _give(str(directory), owner.group) or refusal
    if refusal is not None:
        _log.warning("the volume %s cannot be given to the group %d as a whole: %s", directory, owner.group, refusal)


def _give(path: str, group: int, within: int | None = None) -> OSError | None:
    """Change one entry, through a descriptor that opens no file: the path may be a device, or a container with the
    volume may replace it by a link meanwhile. Return the file system's refusal.
    """
    try:
        handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    except FileNotFoundError:
        return None
    itself = f"/proc/self/fd/{handle}"
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            os.chown(path, -1, group, dir_fd=within, follow_symlinks=False)
            return None
        os.chown(itself, -1, group)
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            Path(itself).chmod(stat.S_IMODE(mode) | _wanted(mode))
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
        if os.geteuid() != 0:
            raise VolumeError(
                "cannot give the volume to the group", f"{path}: {group}", "fsGroup needs root"
            ) from error
        return error
    finally:
        os.close(handle)
    return None


def _wanted(mode: int) -> int:
    return _USE | stat.S_ISGID | _ENTER if stat.S_ISDIR(mode) else _USE


def _is_given(directory: Path, group: int) -> bool:
    found = directory.stat()
    wanted = _wanted(found.st_mode)
    return found.st_gid == group and found.st_mode & wanted == wanted
