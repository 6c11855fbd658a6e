"""Root file systems without overlayfs: a copy of an image's layers for each container.

A file system that can (btrfs, xfs) shares the blocks of the copies until they are written (FICLONE). Files of the store
are never linked: a container that writes into one would change it for all.

The store's trees have the form of overlayfs: a character device 0:0 removes a name of the layers below, and an opaque
directory all of their names. Only edgecore writes there, and the copy has no other user until it has its name, so that
paths below both directories cannot be turned elsewhere; the last component is never followed.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from beehive.files.descriptors import OwnedFd
from beehive.files.removal import remove_tree
from modules.runtimes.oci.images.worker.attributes import MARKS, set_attributes
from modules.runtimes.oci.images.worker.inside import is_whiteout

_NEW: Final = ".new"
_OPAQUE: Final = f"{MARKS}opaque"
_FICLONE: Final = 0x40049409
_CHUNK: Final = 1 << 30
_SECTOR: Final = 512
_ROOT_MODE: Final = 0o755
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def copy_layers(layers: Sequence[Path], target: Path) -> None:
    """Copy the merged files of layers, the uppermost first, to `target`, a missing or empty directory.

    The copy appears as a whole. An incomplete copy of a killed edgecore is removed first. Raises OSError.
    """
    new = target.with_name(f"{target.name}{_NEW}")
    remove_tree(new)
    try:
        new.mkdir()
        new.chmod(_ROOT_MODE)
        with _open(new, _DIRECTORY) as root:
            for layer in reversed(layers):
                with _open(layer, _DIRECTORY) as source:
                    _Layer(source, root, new).copy()
        new.rename(target)
    except BaseException:
        with suppress(OSError):
            remove_tree(new)
        raise


class CopyBudget:
    """The remaining budget of a copy: entries and bytes.

    Args:
        entries: files, directories and links.
        size: bytes on the disk.
    """

    def __init__(self, entries: int, size: int) -> None:
        self._entries = entries
        self._size = size

    def charge(self, status: os.stat_result) -> None:
        """Count an entry. Raises OSError when it is too much."""
        self._entries -= 1
        self._size -= status.st_blocks * _SECTOR
        if self._entries < 0 or self._size < 0:
            raise OSError(errno.EFBIG, "there are too many files, or too large ones, to copy")


def copy_tree(source: int, target: Path, budget: CopyBudget) -> None:
    """Copy an open directory, which must not change meanwhile, to a missing one. Raises OSError; then a part may be
    there.
    """
    target.mkdir()
    with _open(target, _DIRECTORY) as directory:
        _Layer(source, directory, target, budget).copy()
        _set_attributes(source, directory, os.fstat(source))


class _Place(msgspec.Struct, frozen=True):
    """A path, whose beginning all entries of a directory share: an image may have very many very long paths."""

    parent: str
    name: str

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.name}" if self.parent else self.name


class _Layer:
    """One layer that is copied over those below. Paths are relative to the layer, and to the copy."""

    def __init__(self, source: int, target: int, directory: Path, budget: CopyBudget | None = None) -> None:
        self._budget = budget
        self._source = source
        self._target = target
        self._directory = directory
        self._linked: dict[tuple[int, int], _Place] = {}
        self._waiting = [_Place("", "")]

    def copy(self) -> None:
        while self._waiting:
            self._copy_directory(self._waiting.pop().path)

    def _copy_directory(self, path: str) -> None:
        """Copy the entries of a directory, and its attributes. Its subdirectories are made, and are copied later.

        The root has the copy's attributes, as an overlay's root has the writable layer's.
        """
        with _open(path or ".", _DIRECTORY, self._source) as source, os.scandir(source) as entries:
            for entry in entries:
                self._copy_entry(_Place(path, entry.name), entry.stat(follow_symlinks=False))
            if path:
                with _open(path, _DIRECTORY, self._target) as target:
                    _set_attributes(source, target, os.fstat(source))

    def _copy_entry(self, place: _Place, status: os.stat_result) -> None:
        if self._budget is not None:
            self._budget.charge(status)
        below = self._status(place.path)
        is_directory = stat.S_ISDIR(status.st_mode)
        is_merged = is_directory and below is not None and stat.S_ISDIR(below.st_mode)
        if below is not None and not (is_merged and not self._is_opaque(place.path)):
            self._remove(place.path, below)
            is_merged = False
        if is_directory:
            if not is_merged:
                os.mkdir(place.path, dir_fd=self._target)
            self._waiting.append(place)
        elif not is_whiteout(status):
            self._make(place, status)

    def _is_opaque(self, path: str) -> bool:
        with _open(path, _DIRECTORY, self._source) as directory:
            return _attributes(directory).get(_OPAQUE) == b"y"

    def _make(self, place: _Place, status: os.stat_result) -> None:
        path = place.path
        if (known := self._linked.get((status.st_dev, status.st_ino))) is not None:
            os.link(known.path, path, src_dir_fd=self._target, dst_dir_fd=self._target, follow_symlinks=False)
            return
        if status.st_nlink > 1:
            self._linked[status.st_dev, status.st_ino] = place
        if stat.S_ISREG(status.st_mode):
            self._copy_file(path, status)
            return
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(path, dir_fd=self._source), path, dir_fd=self._target)
        else:
            os.mknod(path, status.st_mode, status.st_rdev, dir_fd=self._target)
        os.chown(path, status.st_uid, status.st_gid, dir_fd=self._target, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(path, stat.S_IMODE(status.st_mode), dir_fd=self._target)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(path, ns=times, dir_fd=self._target, follow_symlinks=False)

    def _copy_file(self, path: str, status: os.stat_result) -> None:
        with _open(path, _READ, self._source) as source, _open(path, _CREATE, self._target) as target:
            _copy_content(source, target, status.st_size)
            _set_attributes(source, target, status)

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return os.stat(path, dir_fd=self._target, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _remove(self, path: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            remove_tree(self._directory / path)
        else:
            os.unlink(path, dir_fd=self._target)


def _open(path: str | Path, flags: int, within: int | None = None) -> OwnedFd:
    return OwnedFd(os.open(path, flags, 0o600, dir_fd=within))


def _attributes(source: int) -> dict[str, bytes]:
    try:
        return {name: os.getxattr(source, name) for name in os.listxattr(source)}
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return {}
        raise


def _set_attributes(source: int, target: int, status: os.stat_result) -> None:
    set_attributes(target, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), _attributes(source))
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_content(source: int, target: int, size: int) -> None:
    """Share a file's blocks, or copy them without its holes."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:  # another file system, or a file system that cannot
        os.ftruncate(target, size)
        for begin, end in _parts(source, size):
            _copy_part(source, target, begin, end)


def _parts(source: int, size: int) -> Iterator[tuple[int, int]]:
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # a hole up to the end
                return
            raise
        end = os.lseek(source, begin, os.SEEK_HOLE)
        yield begin, end


def _copy_part(source: int, target: int, begin: int, end: int) -> None:
    os.lseek(source, begin, os.SEEK_SET)
    os.lseek(target, begin, os.SEEK_SET)
    while begin < end:
        count = os.sendfile(target, source, None, min(_CHUNK, end - begin))
        if count == 0:
            return
        begin += count
