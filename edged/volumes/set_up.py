"""Makes a planned volume real: directories, files, checks of the node's own paths."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from beehive.files.durable import make_directories
from beehive.files.walking import Walk
from edged.api import Nanoseconds
from edged.volumes.atomic_writer import AtomicWriter
from edged.volumes.errors import VolumeError
from edged.volumes.mounting import KernelMounts, Mounts, is_mounted
from edged.volumes.plan import EmptyDirectory, Files, HostPath, MemoryDirectory, VolumePlan

_GROUP_READS = 0o040
_OPEN_TO_GROUP = 0o2777

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
    """Make the volume as planned, again and again if need be, and return its path on the node.

    `group` is the pod's fsGroup: it owns the volume, as far as the volume is the pod's own. `mounts` are the machine's
    unless given. Raises VolumeError, and OSError as the file system does.
    """
    match plan:
        case MemoryDirectory():
            _mount_memory(plan, mounts or KernelMounts())
            _open_to_group(plan.path, group)
        case HostPath():
            _check_host_path(plan)
        case EmptyDirectory():
            _make_directory(plan.path, 0o777)
            _open_to_group(plan.path, group)
        case Files():
            _make_directory(plan.path, 0o755)
            _write_files(plan, now, group)
    return plan.path


def _mount_memory(plan: MemoryDirectory, mounts: Mounts) -> None:
    """Once: what was written stays while the pod lives, also when the agent begins again. It is gone with the machine's
    restart, and so is everything else of the pod.
    """
    _make_directory(plan.path, 0o777)
    if not is_mounted(mounts, plan.path):
        mounts.tmpfs(plan.path, plan.size)


def _open_to_group(path: Path, group: int | None) -> None:
    if group is not None:
        _give_to_group(path, group)
        path.chmod(_OPEN_TO_GROUP)


def _make_directory(path: Path, mode: int) -> None:
    """The directory with exactly this mode, whatever the umask; one that stands keeps what its users made of
    it.
    """
    if path.is_dir():
        return
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.mkdir()
    path.chmod(mode)


def _check_host_path(plan: HostPath) -> None:
    if not plan.type:
        return
    if plan.type not in _CHECKS:
        raise VolumeError("cannot use the host path", str(plan.path), f"type {plan.type!r} is unknown")
    what, fits = _CHECKS[plan.type]
    if plan.type == "DirectoryOrCreate" and not plan.path.exists():
        make_directories(plan.path, 0o755)
    if plan.type == "FileOrCreate" and not plan.path.exists():
        plan.path.touch(mode=0o644, exist_ok=True)
    try:
        found = plan.path.stat()
    except FileNotFoundError as error:
        raise VolumeError(
            "hostPath type check failed", str(plan.path), f"{what} is wanted and nothing is there", retryable=True
        ) from error
    if not fits(found.st_mode):
        raise VolumeError("hostPath type check failed", str(plan.path), f"it is not {what}", retryable=True)


def _write_files(plan: Files, now: Nanoseconds, group: int | None) -> None:
    if group is None:
        AtomicWriter(plan.path).write(plan.payload, now)
        return
    readable = {path: replace(file, mode=file.mode | _GROUP_READS) for path, file in plan.payload.items()}
    AtomicWriter(plan.path, lambda version: _give_all_to_group(version, group)).write(readable, now)


def _give_all_to_group(directory: Path, group: int) -> None:
    _give_to_group(directory, group)
    for found in Walk(directory):
        _give_to_group(Path(found.entry.name), group, within=found.within)


def _give_to_group(path: Path, group: int, within: int | None = None) -> None:
    try:
        os.chown(path, -1, group, dir_fd=within, follow_symlinks=False)
    except PermissionError as error:
        raise VolumeError("cannot give the volume to the group", f"{path}: {group}", "fsGroup needs root") from error
