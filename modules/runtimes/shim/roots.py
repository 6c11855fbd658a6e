"""A container's own mounts, built step by step in a private mount namespace.

The host's directories must not change, so a missing mount point cannot simply be made. Its directory is *scaffolded*
instead: replaced, in this namespace only, by an empty in-memory one, where every entry of the original is bound and new
names can be made freely. edgecore plans the steps (`modules.runtimes.process.mount_plan`); the container's process
carries them out before it becomes the command. When it ends, the kernel drops all of it.

Steps: `scaffold SOURCE TARGET`, `bind SOURCE TARGET`, `directory TARGET`, `file TARGET`, `readonly TARGET`, `enter
ROOT`.
"""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from stat import S_IMODE

from modules.runtimes.shim import kernel
from modules.runtimes.shim.protocol import Namespacing, Step

_SCAFFOLD_LIMIT = "64m"
"""Memory for the files that a container puts into one scaffolded directory."""


def leave_host_mounts(namespacing: Namespacing) -> None:
    """Give the calling process mounts of its own; new mounts of the host still arrive, none goes back."""
    if namespacing == "user":
        _enter_user_namespace(os.geteuid(), os.getegid())
    else:
        kernel.unshare(kernel.NEW_MOUNT_NAMESPACE)
    kernel.mount("none", "/", "none", kernel.MS_REC | kernel.MS_SLAVE)


def _enter_user_namespace(uid: int, gid: int) -> None:
    """Enter a user namespace, the only way to mount without root. User and group stay the same; no other is known
    inside.
    """
    kernel.unshare(kernel.NEW_USER_NAMESPACE | kernel.NEW_MOUNT_NAMESPACE)
    process = Path("/proc/self")
    (process / "setgroups").write_text("deny")
    (process / "uid_map").write_text(f"{uid} {uid} 1")
    (process / "gid_map").write_text(f"{gid} {gid} 1")


def join(pid: int, namespacing: Namespacing) -> None:
    """Enter the mounts of a running container, whose main process is `pid`."""
    if namespacing == "user":
        kernel.join_namespace(f"/proc/{pid}/ns/user", kernel.NEW_USER_NAMESPACE)
    if namespacing:
        kernel.join_namespace(f"/proc/{pid}/ns/mnt", kernel.NEW_MOUNT_NAMESPACE)


def build(steps: list[Step]) -> None:
    """Carry out the steps. Raises OSError with the path that failed."""
    for action, *paths in steps:
        _ACTIONS[action](*paths)


def _scaffold(source: str, target: str) -> None:
    original = Path(source).stat()
    options = f"mode={S_IMODE(original.st_mode):o},size={_SCAFFOLD_LIMIT}"
    kernel.mount("tmpfs", target, "tmpfs", 0, options)
    with contextlib.suppress(OSError):  # a user namespace knows of one owner only
        os.chown(target, original.st_uid, original.st_gid)
    with os.scandir(source) as entries:
        for entry in entries:
            try:
                _mirror(entry, os.path.join(target, entry.name))  # noqa: PTH118 (hundreds of entries)
            except (FileNotFoundError, PermissionError):
                continue


def _mirror(entry: os.DirEntry[str], target: str) -> None:
    """Show one entry of a scaffolded directory at `target`."""
    if entry.is_symlink():
        Path(target).symlink_to(Path(entry.path).readlink())
        return
    if entry.is_dir(follow_symlinks=False):
        _directory(target)
    else:
        _file(target)
    _bind(entry.path, target)


def _bind(source: str, target: str) -> None:
    kernel.mount(source, target, "none", kernel.MS_BIND | kernel.MS_REC)


def _directory(target: str) -> None:
    Path(target).mkdir(exist_ok=True)


def _file(target: str) -> None:
    Path(target).touch()


def _readonly(target: str) -> None:
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY
    kernel.mount("none", target, "none", flags | kernel.mount_flags(target))


def _enter(root: str) -> None:
    """Make `root` the root of this mount namespace.

    `root` is moved over the old root, not exchanged with it: pivot_root has no C function, and fails on an initramfs.
    """
    os.chdir(root)
    kernel.mount(".", "/", "none", kernel.MS_MOVE)
    os.chroot(".")
    os.chdir("/")


_ACTIONS: dict[str, Callable[..., None]] = {
    "scaffold": _scaffold,
    "bind": _bind,
    "directory": _directory,
    "file": _file,
    "readonly": _readonly,
    "enter": _enter,
}
