"""Replaces files so that a power cut at any moment leaves the old content or the new one, never half of one.

A rename alone is not enough: a journalling file system may put the new name on the disk before the content, and a power
cut then leaves an empty file (ext4 protects files that are replaced, not new ones). So the content is written to a
second file, fsynced and renamed, and the directory is fsynced.
"""

import contextlib
import errno
import os
from pathlib import Path

from beehive.files.descriptors import OwnedFd

OWNER_ONLY = 0o600
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = ".new"
_PAGE = 4096
"""Bytes of a file that one write replaces as a whole."""


def replace_file(path: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Replace the file at `path`, or make it; durable when the call returns. The umask does not change `mode`.

    Raises OSError, and then leaves an existing file unchanged, unless the disk fails after its new content was written.
    """
    following = beside(path)
    write_file(following, content, mode)
    put_in_place(following, path)


def replace_soon(path: Path, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Replace the file immediately, but durably only after `make_durable`: a power cut before may leave an empty file.

    Raises OSError.
    """
    following = _beside(path)
    _write(following, content, mode, durable=False)
    os.replace(following, path)  # noqa: PTH105 - strings: a pod has several such files


def overwrite_soon(path: Path, text: bytes) -> None:
    """Replace the text of a file in its place, with blanks up to the former length: the file system finds no other
    inode. A kill leaves the old or the new text; a power cut before `make_durable` may leave a mixture. A text of more
    than a page is replaced as by `replace_soon`. Raises OSError, also if there is no such file.
    """
    with OwnedFd(os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)) as descriptor:
        whole = text.ljust(os.fstat(descriptor).st_size)
        if len(whole) <= _PAGE:
            os.write(descriptor, whole)
            return
    replace_soon(path, text)


def write_soon(path: Path | str, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Write a new file, which a power cut may empty or lose. Raises OSError, and then leaves no file."""
    _write(path, content, mode, durable=False)


def make_durable(path: Path) -> None:
    """Put a file and its name on the disk. Raises OSError."""
    _sync_file(path)
    sync_directory(path.parent)


def beside(path: Path) -> Path:
    """Return the hidden path for the next content of `path`."""
    return Path(_beside(path))


def _beside(path: Path) -> str:
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}{_NEW}")  # noqa: PTH118 - see `replace_soon`


def write_file(path: Path | str, content: bytes, mode: int = OWNER_ONLY) -> None:
    """Write a new file with durable content, whose name is not durable yet. Raises OSError, and then leaves no file."""
    _write(path, content, mode, durable=True)


def _sync_file(path: Path) -> None:
    with OwnedFd(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


def _write(path: Path | str, content: bytes, mode: int, *, durable: bool) -> None:
    descriptor = _new_file(path, mode)
    try:
        os.fchmod(descriptor, mode)
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - as above
        raise
    finally:
        os.close(descriptor)


def _new_file(path: Path | str, mode: int) -> int:
    """Return a descriptor of a new file. A file that an earlier attempt has left there is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, flags, mode)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108 - as above
        return os.open(path, flags, mode)


def put_in_place(source: Path, target: Path) -> None:
    """Rename a file or a directory over `target`, durably. Raises OSError, and then has not renamed it, unless the disk
    fails.
    """
    with OwnedFd(os.open(target.parent, _DIRECTORY)) as directory:
        source.replace(target)
        os.fsync(directory)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    with OwnedFd(os.open(directory, _DIRECTORY)) as descriptor:
        os.fsync(descriptor)


def make_directories(path: Path, mode: int = 0o777) -> None:
    """Make a directory and its parents, if missing. Raises OSError.

    `Path.mkdir(parents=True)` recurses for each level, and a path in a pod may have more levels than Python's stack.
    """
    missing, at = [], os.fspath(path)
    while not os.path.isdir(at) and at != (above := os.path.dirname(at)):  # noqa: PTH112, PTH120 - strings, see above
        missing.append(at)
        at = above
    for each in reversed(missing):
        try:
            os.mkdir(each, mode)  # noqa: PTH102 - as above
        except FileExistsError:
            if not os.path.isdir(each):  # noqa: PTH112 - as above
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None
