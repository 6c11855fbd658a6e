"""Id-mapped mounts (Linux 5.12; below overlays 5.19): files of the machine's root become files of a pod's root.

For pods with a user namespace of their own. Nothing on the disk changes: each layer is mounted again, for the
moment when an overlay of it is made, with its owners as the namespace sees them.
"""

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from beehive.files.descriptors import OwnedFd
from modules.runtimes.shim import kernel

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, the same on all architectures."""
_AT_FDCWD: Final = -100
_AT_EMPTY_PATH: Final = 0x1000
_OPEN_TREE_CLONE: Final = 0x1
_MOVE_MOUNT_F_EMPTY_PATH: Final = 0x4
_MOUNT_ATTR_IDMAP: Final = 0x0010_0000

_PREFIX: Final = "mapped-"

_libc = ctypes.CDLL(None, use_errno=True)


class MappedRoot(msgspec.Struct, frozen=True):
    """The owner of a container's files.

    Args:
        namespace: file of the user namespace; None if the files of images have these owners already.
        uid: the machine's user that is root in it.
        gid: the machine's group that is root's in it.
    """

    namespace: Path | None
    uid: int
    gid: int


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@contextmanager
def id_mapped(paths: Sequence[Path], namespace: Path, directory: Path) -> Iterator[list[Path]]:
    """Mount directories again, with owners as a user namespace has them, below `directory`; undo it at the end.

    An overlay that was made of them meanwhile keeps them. Raises OSError: EINVAL where the file system or the kernel
    cannot.
    """
    with ExitStack() as undone:
        users = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
        undone.callback(os.close, users)
        found = []
        for number, path in enumerate(paths):
            target = directory / f"{_PREFIX}{number}"
            target.mkdir(exist_ok=True)
            undone.callback(_discard, target)
            _mount_mapped(path, users, target)
            found.append(target)
        yield found


def unmount_mapped(directory: Path) -> None:
    """Undo what `id_mapped` has made below a directory, after an edgecore was killed in it."""
    with suppress(FileNotFoundError):
        for name in os.listdir(directory):  # noqa: PTH208 - strings: nearly always there is none
            if name.startswith(_PREFIX):
                _discard(directory / name)


def _mount_mapped(path: Path, users: int, target: Path) -> None:
    with OwnedFd(_call(_OPEN_TREE, path, _AT_FDCWD, os.fsencode(path), _OPEN_TREE_CLONE | os.O_CLOEXEC)) as mapped:
        attributes = _MountAttributes(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=users)
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        _call(_MOUNT_SETATTR, path, mapped, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size)
        _call(_MOVE_MOUNT, target, mapped, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)


def _call(number: int, subject: Path, *arguments: object) -> int:
    result = _libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(subject))
    return int(result)


def _discard(target: Path) -> None:
    with suppress(OSError):  # it was not mounted
        kernel.unmount(str(target), kernel.MNT_DETACH)
    with suppress(OSError):
        target.rmdir()
