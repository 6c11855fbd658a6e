"""The tree of one layer, as overlayfs wants it: made entry by entry from a tar, beside the layers below it.

The rules are containerd's (its overlay snapshots are made the same way), except that an entry wins over a whiteout of
its own layer, whatever their order. The process works inside the directory of the entry that it makes, with names of
one component.

The times of directories are set after all files are made, because each new file changes its directory's time. Until
then they are in a file, because a layer may have millions of directories, and the process little memory.
"""
# ruff: noqa: PTH102, PTH108, PTH211 - names in the current directory are bytes

import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO, Final

from beehive.files.descriptors import OwnedFd
from beehive.files.opening import opener_with
from modules.runtimes.oci.images.worker import tar_entries as tar
from modules.runtimes.oci.images.worker.attributes import (
    WITHOUT_ROOT,
    copy_attributes,
    is_opaque,
    mark_opaque,
    owner_for_pods,
    set_attributes,
    set_time,
)
from modules.runtimes.oci.images.worker.errors import LIMIT, ImageWorkError, invalid
from modules.runtimes.oci.images.worker.inside import StepBudget, is_whiteout, open_inside
from modules.runtimes.oci.images.worker.limits import LONGEST_COMPONENT, LONGEST_NAME, STEPS_OF_ENTRY, STEPS_OF_LAYER
from modules.runtimes.oci.images.worker.tar_entries import Entry
from modules.runtimes.oci.images.worker.tar_stream import TarStream

_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CACHED: Final = 16
_BLOCK: Final = 4096

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
_RESERVED = b".wh..wh."
"""Begins names of AUFS' own files, which mean nothing elsewhere."""

_RECORD: Final = struct.Struct("<?qI")
_BUFFER: Final = 64 * 1024
_NAME: Final = "times"
_LATEST: Final = (1 << 63) - 1
_NONE: Final = -1
"""For a time that no file system has."""


def components(name: bytes) -> tuple[bytes, ...]:
    """Return the components of an entry's name; none for the root itself.

    Raises ImageWorkError for a name with "..", NUL, or too many bytes.
    """
    parts = tuple(part for part in name.split(b"/") if part not in (b"", b"."))
    if b".." in parts or b"\0" in name:
        raise invalid(f"an entry's name leaves the layer: {_shown(name)}")
    if len(name) > LONGEST_NAME or any(len(part) > LONGEST_COMPONENT for part in parts):
        raise invalid(f"an entry's name is too long: {_shown(name)}")
    return parts


def is_reserved(parts: tuple[bytes, ...]) -> bool:
    """Return whether an entry is one of AUFS' own.

    Raises ImageWorkError for a whiteout that is a directory of other entries.
    """
    if any(part.startswith(_RESERVED) and part != OPAQUE for part in parts):
        return True
    if any(part.startswith(WHITEOUT) for part in parts[:-1]):
        raise invalid("an entry is inside of a whiteout")
    return False


def hidden_name(name: bytes) -> bytes:
    """Return the name that a whiteout removes. Raises ImageWorkError."""
    hidden = name[len(WHITEOUT) :]
    if hidden in (b"", b".", b".."):
        raise invalid("a whiteout names nothing")
    return hidden


def _shown(name: bytes) -> str:
    return repr(name[:80])


class LayerTree:
    """The maker of the files of a layer.

    Args:
        root: descriptor of the empty directory.
        replaced: descriptor of a directory on the same file system, for directories that a later entry replaces.
        lower: descriptors of the layers below, the uppermost first.
    """

    def __init__(self, root: int, replaced: int, lower: Sequence[int]) -> None:
        self._root = root
        self._replaced = replaced
        self._steps = StepBudget(STEPS_OF_LAYER)
        self._lower = LowerLayers(lower, self._steps)
        self._directories: OrderedDict[tuple[bytes, ...], int] = OrderedDict()
        self._times = DirectoryTimes(replaced)
        self._moved = 0
        self.size = 0
        """Bytes of files, in whole blocks."""
        self.inodes = 1

    def apply(self, entry: Entry, stream: TarStream) -> None:
        """Make the entry. Its body is read. Raises ImageWorkError and OSError."""
        self._steps.add(STEPS_OF_ENTRY)
        parts = components(entry.name)
        if not parts or is_reserved(parts):
            stream.skip(entry.stored)
            return
        os.fchdir(self._directory(parts[:-1], stream))
        name = parts[-1]
        if name.startswith(WHITEOUT):
            stream.skip(entry.stored)
            self._white_out(name, entry)
            return
        self._make(name, entry, stream)
        if entry.kind == tar.DIRECTORY:
            self._times.add(parts, entry.mtime_ns)

    def finish(self) -> None:
        """Set the times of directories, which each new file in them changed."""
        for parts, time in self._times:
            try:
                within = open_inside(self._root, parts[:-1], self._steps)
            except ImageWorkError as error:  # a later entry is in the place of a directory on the way
                _raise_limit(error)
                continue
            if within is None:
                continue
            os.fchdir(within)
            os.close(within)
            if os.path.lexists(parts[-1]) and stat.S_ISDIR(os.lstat(parts[-1]).st_mode):
                set_time(parts[-1], time)
        self._times.close()

    # directories

    def _directory(self, parts: tuple[bytes, ...], stream: TarStream) -> int:
        """Return the descriptor of a directory, which is made if it is missing."""
        known = self._directories.get(parts)
        if known is not None:
            self._directories.move_to_end(parts)
            return known
        opened = open_inside(self._root, parts, self._steps, partial(self._make_missing, stream))
        if opened is None:
            raise invalid("a directory is missing")
        self._directories[parts] = opened
        if len(self._directories) > _CACHED:
            os.close(self._directories.popitem(last=False)[1])
        return opened

    def _forget_directories(self) -> None:
        while self._directories:
            os.close(self._directories.popitem()[1])

    def _make_missing(self, stream: TarStream, within: int, name: bytes, path: tuple[bytes, ...]) -> None:
        """Make a directory that the tar leaves out; owner, mode and time come from the layers below.

        One long name can make two thousand of them, so each counts as a block of the layer.
        """
        stream.count(_BLOCK)
        os.fchdir(within)
        was_whiteout = os.path.lexists(name)
        if was_whiteout:
            os.unlink(name)
        os.mkdir(name, 0o755)
        os.chmod(name, 0o755)  # noqa: PTH101, S103 - bytes; else it has the set-group-ID bit of the directory above
        self.inodes += 1
        if was_whiteout:
            os.lchown(name, *owner_for_pods(0, 0))
            mark_opaque(name)
            return
        below = self._lower.directory(path)
        if below is None:
            os.lchown(name, *owner_for_pods(0, 0))
        else:
            self._times.add(path, copy_attributes(below, name), is_copied=True)
            os.close(below)

    # whiteouts

    def _white_out(self, name: bytes, entry: Entry) -> None:
        if name == OPAQUE:
            mark_opaque(b".")
            return
        hidden = hidden_name(name)
        if not os.path.lexists(hidden):
            os.mknod(hidden, stat.S_IFCHR, os.makedev(0, 0))
            os.lchown(hidden, *owner_for_pods(entry.uid, entry.gid))
            self.inodes += 1
        elif stat.S_ISDIR(os.lstat(hidden).st_mode):
            mark_opaque(hidden)

    # entries

    def _make(self, name: bytes, entry: Entry, stream: TarStream) -> None:
        link = self._link_source(entry) if entry.kind == tar.HARD_LINK else None
        if link is not None and link.is_same(name):
            link.close()
            return
        if WITHOUT_ROOT and entry.kind in (tar.CHARACTER_DEVICE, tar.BLOCK_DEVICE):
            return
        is_new, was_whiteout = self._make_room(name, entry)
        if entry.kind == tar.FILE:
            self._make_file(name, entry, stream)
        elif link is not None:
            with link:
                self.size += link.make(name, stream)
            _finish(name, entry)
        else:
            if is_new:
                _make_special(name, entry)
            if was_whiteout and entry.kind == tar.DIRECTORY:
                mark_opaque(name)
            _finish(name, entry)
        self.inodes += is_new

    def _make_room(self, name: bytes, entry: Entry) -> tuple[bool, bool]:
        """Remove the file that an entry replaces; return whether the entry is new, and replaces a whiteout."""
        try:
            status = os.lstat(name)
        except FileNotFoundError:
            return True, False
        if stat.S_ISDIR(status.st_mode):
            if entry.kind == tar.DIRECTORY:
                return False, False
            self._forget_directories()
            self._moved += 1
            os.rename(name, str(self._moved).encode(), dst_dir_fd=self._replaced)
        else:
            if stat.S_ISLNK(status.st_mode):
                self._forget_directories()
            os.unlink(name)
        return True, is_whiteout(status)

    def _make_file(self, name: bytes, entry: Entry, stream: TarStream) -> None:
        with OwnedFd(os.open(name, _NEW_FILE, 0o600)) as file:
            self.size += -(-_write_body(file, entry, stream) // _BLOCK) * _BLOCK
            set_attributes(file, entry.mode, owner_for_pods(entry.uid, entry.gid), entry.xattrs)
            set_time(file, entry.mtime_ns)

    def _link_source(self, entry: Entry) -> "_LinkSource":
        """Find the target of a hard link in this layer, else copy it from a lower layer."""
        parts = components(entry.target)
        within = open_inside(self._root, parts[:-1], self._steps) if parts else None
        if within is not None:
            source = _LinkSource(within, parts[-1])
            if source.exists():
                return source
            source.close()
        file = self._lower.file(parts)
        if file is None:
            raise invalid(f"a hard link leads to {entry.target[:80]!r}, which does not exist")
        return _LinkSource(file, None)


class _LinkSource:
    """The target of a hard link: a name in a directory, or an open file of a lower layer."""

    def __init__(self, descriptor: int, name: bytes | None) -> None:
        self._descriptor = descriptor
        self._name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._descriptor)

    def exists(self) -> bool:
        """Return whether there is a file that can be linked."""
        try:
            status = self._status()
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(status.st_mode):
            raise invalid("a hard link leads to a directory")
        if is_whiteout(status):
            raise invalid("a hard link leads to a file that the layer removes")
        return True

    def is_same(self, name: bytes) -> bool:
        """Return whether the file `name` in the current directory is the target itself."""
        try:
            mine, status = self._status(), os.lstat(name)
        except FileNotFoundError:
            return False
        return (mine.st_dev, mine.st_ino) == (status.st_dev, status.st_ino)

    def make(self, name: bytes, stream: TarStream) -> int:
        """Make the link, or the copy, in the current directory; return the bytes that it takes.

        A copy counts as if it had been in the tar, whose header of 512 bytes may ask for one of gigabytes.
        """
        if self._name is not None:
            os.link(self._name, name, src_dir_fd=self._descriptor, follow_symlinks=False)
            return 0
        with open(name, "xb", opener=opener_with()) as copy:
            size = os.fstat(self._descriptor).st_size
            stream.count(size)
            at = 0
            while at < size and (sent := os.sendfile(copy.fileno(), self._descriptor, at, size - at)):
                at += sent
        return size

    def _status(self) -> os.stat_result:
        if self._name is None:
            return os.fstat(self._descriptor)
        return os.stat(self._name, dir_fd=self._descriptor, follow_symlinks=False)


def _make_special(name: bytes, entry: Entry) -> None:
    """Make a new directory, symbolic link, device or FIFO."""
    if entry.kind == tar.DIRECTORY:
        os.mkdir(name, 0o700)
    elif entry.kind == tar.SYMBOLIC_LINK:
        if not entry.target or b"\0" in entry.target:
            raise invalid("a symbolic link has no target, or a NUL character in it")
        os.symlink(entry.target, name)
    elif entry.kind == tar.FIFO:
        os.mkfifo(name, 0o600)
    else:
        if entry.kind == tar.CHARACTER_DEVICE and entry.device == (0, 0):
            raise invalid("the layer has a character device 0:0, a forged whiteout")
        kind = stat.S_IFCHR if entry.kind == tar.CHARACTER_DEVICE else stat.S_IFBLK
        os.mknod(name, kind | 0o600, os.makedev(*entry.device))


def _finish(name: bytes, entry: Entry) -> None:
    is_link = stat.S_ISLNK(os.lstat(name).st_mode)
    set_attributes(name, entry.mode, owner_for_pods(entry.uid, entry.gid), entry.xattrs, is_link=is_link)
    set_time(name, entry.mtime_ns)


def _write_body(file: int, entry: Entry, stream: TarStream) -> int:
    """Write the content of a file; return its bytes, without holes."""
    if entry.layout is None:
        for chunk in stream.chunks(entry.stored):
            _write(file, chunk)
        return entry.stored
    stream.count(entry.layout.size - entry.stored)
    parts = iter(entry.layout.parts)
    offset = left = 0
    for chunk in stream.chunks(entry.stored):
        rest = chunk
        while rest:
            while not left:
                offset, left = next(parts)
            piece = rest[:left]
            os.lseek(file, offset, os.SEEK_SET)
            _write(file, piece)
            offset, left, rest = offset + len(piece), left - len(piece), rest[len(piece) :]
    os.ftruncate(file, entry.layout.size)
    return entry.stored


def _write(file: int, data: memoryview) -> None:
    while data:
        data = data[os.write(file, data) :]


class DirectoryTimes:
    """Paths and times, in the order of setting them.

    Args:
        within: descriptor of the directory of the file, which has no name there.
    """

    def __init__(self, within: int) -> None:
        self._within = within
        self._file: BinaryIO | None = None

    def add(self, path: tuple[bytes, ...], mtime_ns: int, *, is_copied: bool = False) -> None:
        """Keep the time of a directory; one from the tar counts more than one copied from a lower layer.

        Raises OSError.
        """
        if self._file is None:
            self._file = _unnamed_file(self._within)
        name = b"/".join(path)
        time = mtime_ns if 0 <= mtime_ns <= _LATEST else _NONE
        self._file.write(_RECORD.pack(is_copied, time, len(name)) + name)

    def __iter__(self) -> Iterator[tuple[tuple[bytes, ...], int]]:
        """Yield paths and times; of several times of one path the last counts. Raises OSError."""
        for copied in (True, False):
            yield from self._records(copied)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def _records(self, copied: bool) -> Iterator[tuple[tuple[bytes, ...], int]]:
        if self._file is None:
            return
        self._file.seek(0)
        while head := self._file.read(_RECORD.size):
            is_copied, time, length = _RECORD.unpack(head)
            name = self._file.read(length)
            if is_copied == copied:
                yield tuple(name.split(b"/")), time


def _unnamed_file(within: int) -> BinaryIO:
    descriptor = os.open(_NAME, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=within)
    os.unlink(_NAME, dir_fd=within)
    return os.fdopen(descriptor, "w+b", _BUFFER)


_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LowerLayers:
    """The layers in which files are looked up, the uppermost first.

    Args:
        roots: descriptors of the layers' directories.
        steps: that all paths may take.
    """

    def __init__(self, roots: Sequence[int], steps: StepBudget) -> None:
        self._roots = roots
        self._steps = steps

    def directory(self, path: tuple[bytes, ...]) -> int | None:
        """Open the directory at a path; None if the uppermost layer that has the path has no directory there."""
        for root in self._roots:
            try:
                found = open_inside(root, path, self._steps)
            except ImageWorkError as error:
                _raise_limit(error)
                return None
            if found is not None:
                return found
        return None

    def file(self, path: tuple[bytes, ...]) -> int | None:
        """Open the regular file at a path; None if it is missing, or a layer above removed it."""
        for root in self._roots if path else ():
            try:
                within = open_inside(root, path[:-1], self._steps)
            except ImageWorkError as error:
                _raise_limit(error)
                return None
            if within is None:
                continue
            try:
                status = os.stat(path[-1], dir_fd=within, follow_symlinks=False)
                if is_whiteout(status) or not stat.S_ISREG(status.st_mode):
                    return None
                return os.open(path[-1], _OPEN_FILE, dir_fd=within)
            except FileNotFoundError:
                if is_opaque(within):
                    return None
            finally:
                os.close(within)
        return None


def _raise_limit(error: ImageWorkError) -> None:
    """Raise the error of a path again if it is a limit of the whole layer."""
    if error.kind == LIMIT:
        raise error
