"""Owner, mode, times and extended attributes of files in a layer."""

import errno
import os
import stat
from collections.abc import Mapping

from beehive.node_namespaces import namespaces_id, pod_id

_LATEST = (1 << 63) - 1
_KEPT = ("user.", "system.posix_acl_")
WITHOUT_ROOT = bool(namespaces_id())
"""Whether root of the machine is nobody here: then nobody makes devices."""
_ROOT = pod_id(0)
"""The owner of the layers' files that are root's in an image: they are stored for pods, who have no mapped mounts."""
MARKS = "user.overlay." if WITHOUT_ROOT else "trusted.overlay."
"""Attributes of overlayfs; in a user namespace it has others (mount option `userxattr`)."""
_FORGED = "user.overlay."
_CAPABILITY = "security.capability"
_UNSUPPORTED = (errno.ENOTSUP, errno.EPERM)


def owner_for_pods(user: int, group: int) -> tuple[int, int]:
    """Return the owner, in this process's namespace, of a file whose owner in pods is known."""
    return _ROOT + user, _ROOT + group


def set_attributes(
    at: bytes | int, mode: int, owner: tuple[int, int], xattrs: Mapping[str, bytes], *, is_link: bool = False
) -> None:
    """Set a file's attributes, in an order that the kernel keeps: chown clears modes and capabilities.

    Args:
        at: name in the current directory, or descriptor.
        mode: permissions with the set-user-id, set-group-id and sticky bits.
        owner: user and group.
        xattrs: the kinds that an image may set are set; `trusted` and `user.overlay` would forge marks of overlayfs.
        is_link: it is a symbolic link, which has no mode.
    """
    if isinstance(at, int):
        os.fchown(at, *owner)
    else:
        os.lchown(at, *owner)
    for key, value in xattrs.items():
        if key == _CAPABILITY or (key.startswith(_KEPT) and not key.startswith(_FORGED)):
            _set_xattr(at, key, value)
    if not is_link:
        os.chmod(at, mode)  # noqa: PTH101 - a descriptor, or a name in the current directory


def set_time(at: bytes | int, mtime_ns: int) -> None:
    """Set the time of modification; an impossible one becomes 1970, as in containerd."""
    time = mtime_ns if 0 <= mtime_ns <= _LATEST else 0
    if isinstance(at, int):
        os.utime(at, ns=(time, time))
    else:
        os.utime(at, ns=(time, time), follow_symlinks=False)


def copy_attributes(source: int, target: bytes) -> int:
    """Give a new directory the attributes of a lower layer's; return its time of modification in ns."""
    status = os.fstat(source)
    xattrs = {name: os.getxattr(source, name) for name in os.listxattr(source)}
    set_attributes(target, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), xattrs)
    return status.st_mtime_ns


def mark_opaque(directory: bytes) -> None:
    """Let overlayfs show nothing of lower layers in a directory."""
    os.setxattr(directory, f"{MARKS}opaque", b"y", follow_symlinks=False)


def is_opaque(directory: int) -> bool:
    """Return whether `mark_opaque` has marked a directory."""
    return f"{MARKS}opaque" in os.listxattr(directory)


def _set_xattr(at: bytes | int, key: str, value: bytes) -> None:
    try:
        if isinstance(at, int):
            os.setxattr(at, key, value)
        else:
            os.setxattr(at, key, value, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
