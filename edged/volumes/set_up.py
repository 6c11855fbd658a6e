"""Carries out a planned volume: directories, files, checks of the node's own paths."""

import logging
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from beehive.files.durable import make_directories
from beehive.files.walking import Walk
from beehive.node_namespaces import give_to_pods
from edged.errors import VolumeError
from edged.volumes.atomic_writer import DATA, AtomicWriter
from edged.volumes.directories import give_to_group, make_directory
from edged.volumes.mounting import KernelMounts, Mounts, is_mounted
from edged.volumes.plan import EmptyDirectory, Files, HostPath, MemoryDirectory, VolumePlan
from modules.apimachinery.types import Nanoseconds

_log = logging.getLogger(__name__)

_GROUP_READS = 0o440
_OPEN = 0o777
_OPEN_TO_GROUP = 0o2777
_STICKY = 0o1000
"""In a kubelet's memory volumes, as in the kernel's default for tmpfs: only the owner of a file removes it."""
_READABLE = 0o755
_PRIVATE = 0o700

_CHECKS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "Directory": ("a directory", stat.S_ISDIR),
    "DirectoryOrCreate": ("a directory", stat.S_ISDIR),
    "File": ("a file", stat.S_ISREG),
    "FileOrCreate": ("a file", stat.S_ISREG),
    "Socket": ("a socket", stat.S_ISSOCK),
    "CharDevice": ("a character device", stat.S_ISCHR),
    "BlockDevice": ("a block device", stat.S_ISBLK),
}


def set_up(plan: VolumePlan, now: Nanoseconds, group: int | None = None, mounts: Mounts | None = None) -> Path:
    """Make the volume as planned and return its path on the node; may be repeated.

    Args:
        plan: of the volume.
        now: names the version of a volume of files.
        group: the pod's fsGroup, which owns the volume if it is the pod's own.
        mounts: the machine's by default.

    Raises VolumeError, and OSError as the file system does.
    """
    match plan:
        case MemoryDirectory():
            _mount_memory(plan, group, mounts or KernelMounts())
        case HostPath():
            _check_host_path(plan)
        case EmptyDirectory():
            make_directory(plan.path, _OPEN if group is None else _OPEN_TO_GROUP, group)
        case Files():
            make_directory(plan.path, _READABLE if os.geteuid() == 0 or plan.memory is None else _PRIVATE)
            if plan.memory is not None:
                _keep_in_memory(plan.path, plan.memory, mounts or KernelMounts())
            payload, prepare = plan.payload, None
            if group is not None:
                payload = {path: replace(file, mode=file.mode | _GROUP_READS) for path, file in payload.items()}
                prepare = partial(_give_all_to_group, group=group)
            AtomicWriter(plan.path, prepare, plan.mount_points).write(payload, now)
    return plan.path


def _mount_memory(plan: MemoryDirectory, group: int | None, mounts: Mounts) -> None:
    """Mount a memory volume once: its content stays as long as the pod, also over a restart of the agent. A restart of
    the machine deletes it with everything else of the pod.
    """
    make_directory(plan.path, _OPEN)
    if not is_mounted(mounts, plan.path):
        mode = _OPEN if group is None else _OPEN_TO_GROUP
        mounts.tmpfs(plan.path, plan.size, mode=_STICKY | mode, group=group or 0)
    give_to_pods(plan.path)


def _keep_in_memory(path: Path, size: int, mounts: Mounts) -> None:
    """Mount memory for the files, so that no secret gets to the disk. A directory that an earlier agent has made on the
    disk stays as long as the pod, because its containers use it. Without the right to mount (an agent that is not root)
    the files are on the disk too, in a directory of the agent's own.
    """
    if is_mounted(mounts, path) or os.path.lexists(path / DATA):
        return
    try:
        mounts.tmpfs(path, size, mode=_READABLE)
        give_to_pods(path)
    except VolumeError as error:
        if not isinstance(error.__cause__, PermissionError):
            raise
        _log.debug("a secret volume is on the disk: %s", error)


def _check_host_path(plan: HostPath) -> None:
    if not plan.type:
        return
    if plan.type not in _CHECKS:
        raise VolumeError("cannot use the host path", str(plan.path), f"type {plan.type!r} is unknown")
    what, fits = _CHECKS[plan.type]
    if plan.type == "DirectoryOrCreate" and not plan.path.exists():
        make_directories(plan.path, 0o755)
        give_to_pods(plan.path)
    if plan.type == "FileOrCreate" and not plan.path.exists():
        plan.path.touch(mode=0o644, exist_ok=True)
        give_to_pods(plan.path)
    try:
        found = plan.path.stat()
    except FileNotFoundError as error:
        raise VolumeError(
            "hostPath type check failed", str(plan.path), f"{what} is expected, and nothing is there", retryable=True
        ) from error
    if not fits(found.st_mode):
        raise VolumeError("hostPath type check failed", str(plan.path), f"it is not {what}", retryable=True)


def _give_all_to_group(directory: Path, group: int) -> None:
    give_to_group(directory, group)
    for found in Walk(directory):
        give_to_group(Path(found.entry.name), group, within=found.within)
