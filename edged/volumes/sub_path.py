"""Paths within a volume that a container mounts instead of the whole volume, without a way out of it.

A container that already has the volume may replace the path by a link between the check and the runtime's mount. So the
path is opened one component after the other, following no link, and the opened file is bound to a place of the pod's
own, which containers cannot reach; the runtime gets that place (kubelet's subpath package, made for CVE-2017-1002101).
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from zlib import crc32

from beehive.files.durable import make_directories
from beehive.node_namespaces import give_to_pods
from edged.errors import VolumeError
from edged.volumes.mounting import Mounts, is_mounted

_MODE = 0o750
_TOO_MANY_LINKS = "too many links lead to it"
_MADE_BY_ANOTHER = (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)
_OPEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve_sub_path(volume: Path, sub_path: str) -> Path:
    """Return the path on the node of a path within a volume, links followed; it may not leave the volume.

    A missing path becomes a directory with the volume's own mode, so that all users with write permission for the
    volume have it there too (kubelet's SafeMakeDir). Raises VolumeError.
    """
    with _opened(volume, sub_path) as (_, path):
        return path


def bind_sub_path(mounts: Mounts, volume: Path, sub_path: str, place: Path) -> Path:
    """Bind a path within a volume to `place`, and return the source for the container's mount.

    An unchanged earlier binding is kept. Without the right to mount (an agent that is not root) the path itself is
    returned, which is as safe as the containers are harmless. Raises VolumeError.
    """
    with _opened(volume, sub_path) as (handle, path):
        found = os.fstat(handle)
        if is_mounted(mounts, place):
            if _is_same(place, found):
                return place
            mounts.unmount(place)
        _make_place(place, directory=stat.S_ISDIR(found.st_mode))
        try:
            mounts.bind(Path(f"/proc/self/fd/{handle}"), place)
        except VolumeError as error:
            if isinstance(error.__cause__, PermissionError):
                return path
            raise
        return place


@contextmanager
def _opened(volume: Path, sub_path: str) -> Iterator[tuple[int, Path]]:
    """Open the path; yield the descriptor, and its name with links resolved, which may name another file by the time it
    is used.
    """
    parts = PurePosixPath(sub_path).parts
    if not parts or sub_path.startswith("/") or ".." in parts:
        raise VolumeError("cannot mount the subPath", repr(sub_path), "a relative path without .. is wanted")
    try:
        root = os.path.realpath(volume)
        _check_links(Path(root, sub_path), sub_path)
        target = os.path.realpath(Path(root, sub_path))
    except RecursionError:  # links were added since; from Python 3.13 on the path is followed without recursion
        raise VolumeError("cannot mount the subPath", repr(sub_path), _TOO_MANY_LINKS) from None
    if os.path.commonpath((root, target)) != root:
        raise VolumeError("cannot mount the subPath", repr(sub_path), "a symbolic link in it leads out of the volume")
    handle = os.open(root, _OPEN)
    mode = stat.S_IMODE(os.fstat(handle).st_mode)
    try:
        for part in Path(target).relative_to(root).parts:
            following = _step(handle, part, sub_path, mode)
            os.close(handle)
            handle = following
        yield handle, Path(target)
    finally:
        os.close(handle)


def _check_links(path: Path, sub_path: str) -> None:
    """Check that the kernel would follow the links of a path, which may be missing: a container can make millions."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise VolumeError("cannot mount the subPath", repr(sub_path), _TOO_MANY_LINKS) from None


def _step(handle: int, part: str, sub_path: str, mode: int) -> int:
    """Open the next component, made when it is missing."""
    try:
        opened = _open_or_make(handle, part, mode)
    except OSError as error:
        raise VolumeError(
            "cannot mount the subPath", repr(sub_path), f"{part}: {error.strerror}", retryable=True
        ) from error
    if stat.S_ISLNK(os.fstat(opened).st_mode):
        os.close(opened)
        raise VolumeError(
            "cannot mount the subPath", repr(sub_path), "a symbolic link has replaced a part of it", retryable=True
        )
    return opened


def _open_or_make(handle: int, part: str, mode: int) -> int:
    """Open a component. A new one has its mode before its name, because one that is there is taken as it is. The mode
    is set through the descriptor, because the umask affects mkdir's; the volume's set-group-id bit passes the group on.
    """
    try:
        return os.open(part, _OPEN, dir_fd=handle)
    except FileNotFoundError:
        making = f".{crc32(os.fsencode(part)):08x}.new"
    with suppress(FileExistsError):  # an edgecore that was killed has left it, or another pod's worker makes it
        os.mkdir(making, _MODE, dir_fd=handle)
    try:
        made = os.open(making, _OPEN, dir_fd=handle)
    except FileNotFoundError:
        return os.open(part, _OPEN, dir_fd=handle)
    try:
        if stat.S_ISDIR(os.fstat(made).st_mode):
            Path(f"/proc/self/fd/{made}").chmod(mode)
            give_to_pods(made)
        os.rename(making, part, src_dir_fd=handle, dst_dir_fd=handle)
    except OSError as error:
        with suppress(OSError):
            os.rmdir(making, dir_fd=handle)
        if error.errno not in _MADE_BY_ANOTHER:
            raise
    finally:
        os.close(made)
    return os.open(part, _OPEN, dir_fd=handle)


def _is_same(place: Path, found: os.stat_result) -> bool:
    """Return whether a place shows that file. A server or driver that has gone leaves a mount without any."""
    try:
        there = place.stat()
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino)


def _make_place(place: Path, *, directory: bool) -> None:
    """Make an empty directory or file, as the bound file requires."""
    make_directories(place.parent, _MODE)
    if place.is_dir() != directory and place.exists():
        place.rmdir() if place.is_dir() else place.unlink()
    if directory:
        place.mkdir(mode=_MODE, exist_ok=True)
    else:
        place.touch(mode=0o640)
