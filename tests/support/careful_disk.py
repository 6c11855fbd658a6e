"""A disk that refuses what a power cut would spoil.

A rename puts a name on the disk, perhaps before the content: what is renamed must be flushed before, and the directory
after it. What has its name is in use: its mode, its owner and its content are set before.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_Identity = tuple[int, int]


class _Disk:
    def __init__(self, *, is_durable: bool) -> None:
        self._is_durable = is_durable
        self._flushed: dict[_Identity, tuple[int, int]] = {}
        """The sizes and times of modification with which files were flushed."""
        self._placed = set[_Identity]()
        self._unflushed: dict[_Identity, str] = {}
        """Directories with names that were not flushed."""
        self.renames = 0

    def fsync(self, descriptor: int) -> None:
        """Note what is flushed."""
        found = os.fstat(descriptor)
        self._flushed[found.st_dev, found.st_ino] = (found.st_size, found.st_mtime_ns)
        self._unflushed.pop((found.st_dev, found.st_ino), None)

    def rename(self, source: Any, target: Any) -> None:
        """Demand that what gets a name is flushed, and note that it has it."""
        self.renames += 1
        root = Path(os.fsdecode(source))
        for path in (root, *(root.rglob("*") if root.is_dir() and not root.is_symlink() else ())):
            found = path.lstat()
            identity = found.st_dev, found.st_ino
            if self._is_durable and stat.S_ISREG(found.st_mode):
                flushed = self._flushed.get(identity)
                assert flushed == (found.st_size, found.st_mtime_ns), f"{path} has its name before its content"
            self._placed.add(identity)
        directory = Path(os.fsdecode(target)).parent
        found = directory.stat()
        self._unflushed[found.st_dev, found.st_ino] = str(directory)

    def change(self, path: Any, *, follow_symlinks: bool = True) -> None:
        """Demand that what is changed has no name yet."""
        found = os.stat(path, follow_symlinks=follow_symlinks)  # noqa: PTH116 - a descriptor, too
        assert (found.st_dev, found.st_ino) not in self._placed, f"{path} is in use when its mode or owner is set"

    def check(self) -> None:
        """Demand that all names are flushed."""
        assert not (self._is_durable and self._unflushed), f"names are not flushed: {self._unflushed}"


@contextmanager
def careful_disk(*, is_durable: bool = True) -> Iterator[None]:
    """Demand an order of flushes, renames and modes that a power cut cannot spoil, of one thread's code in the block.

    Args:
        is_durable: whether contents and names have to be flushed at all.

    Raises:
        AssertionError: what is renamed is not flushed, its directory is not, or its mode or owner is set later.
    """
    disk = _Disk(is_durable=is_durable)

    def noted(note: Callable[..., None], call: Callable[..., Any], *, is_before: bool = True) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if is_before:
                note(*args)
            result = call(*args, **kwargs)
            if not is_before:
                note(*args)
            return result

        return called

    def changing(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is None:
                disk.change(path, follow_symlinks=kwargs.get("follow_symlinks", True))
            return call(path, *args, **kwargs)

        return called

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", noted(disk.fsync, os.fsync, is_before=False))
        for name in ("rename", "replace"):
            patched.setattr(os, name, noted(disk.rename, getattr(os, name)))
        for name in ("chmod", "fchmod", "chown", "fchown"):
            patched.setattr(os, name, changing(getattr(os, name)))
        yield
    disk.check()
    assert disk.renames, "nothing gets a name in this block"
