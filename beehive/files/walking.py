"""Walks a directory tree of any depth and width, even while it is changed.

`os.walk` and `Path.rglob` recurse for each level, and paths end at 4,096 bytes, so they miss entries below that. Here
each directory is opened through its parent's descriptor; no link is followed and no other file system entered. Memory
and descriptors are bounded: finished directories are forgotten, the deepest unfinished ones stay open, and the others
are reopened through `..`, if it is still the same directory.
"""

import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from beehive.files.descriptors import open_directory

_OPEN = 32
"""Directories that stay open, besides the top."""

_BRANCHES = 10_000
"""Unfinished directories on the path from the top to the present one."""

_NAMES = 4 * 1024 * 1024
"""Bytes of names that wait in all directories; one with more names is listed again after the others."""

_LEAST_NAMES = 1024
"""Bytes of names that may wait in each directory, regardless of `_NAMES`."""

_HOPS = 1024
"""Levels that one call goes up: a path has 4,096 bytes at most."""


class Found(NamedTuple):
    """An entry of a directory, valid until the next one is taken."""

    within: int
    """Descriptor of the directory."""
    entry: os.DirEntry[str]


class _Branch:
    """A directory with subdirectories that wait."""

    __slots__ = ("descriptor", "height", "identity", "is_listed", "listed", "waiting")

    def __init__(self, descriptor: int, height: int) -> None:
        self.descriptor = descriptor
        self.height = height
        """Levels below the top."""
        self.identity = _identity(descriptor)
        self.waiting = bytearray()
        """Names of the subdirectories that wait, each with a slash behind it."""
        self.listed = 0
        """Subdirectories that were put on `waiting` so far."""
        self.is_listed = False
        """Whether all of them were."""


class Walk:
    """An iterator over all entries below a directory; each directory comes before its own entries.

    Entries that vanish meanwhile or cannot be opened are left out. Its descriptors are closed at the end, by `close`,
    and as soon as nobody refers to it: an error within a loop leaves none open. Raises OSError if the directory itself
    cannot be opened.
    """

    def __init__(self, top: Path) -> None:
        self._tree = _Tree(top)
        self._found = self._tree.entries()

    def __iter__(self) -> Iterator[Found]:
        return self._found

    @property
    def whole(self) -> bool:
        """Whether no other entries were left out; at the end."""
        return self._tree.whole

    def close(self) -> None:
        """Close all descriptors."""
        self._found.close()
        self._tree.close()


class _Tree:
    """The directories of a walk. It has no reference to its iterator: a cycle would live until the garbage collector
    comes.
    """

    def __init__(self, top: Path) -> None:
        self.whole = True
        self._names = 0
        self._branches = [_Branch(open_directory(top), 0)]
        self._device = self._branches[0].identity[0]

    def close(self) -> None:
        while self._branches:
            _close(self._branches.pop())

    def entries(self) -> Generator[Found, None, None]:
        branch: _Branch | None = self._branches[0]
        try:
            while branch is not None:
                if not branch.waiting and not branch.is_listed:
                    yield from self._list(branch)
                branch = (self._go_down(branch) or branch) if branch.waiting else self._go_back(branch)
        finally:
            self.close()

    def _list(self, branch: _Branch) -> Iterator[Found]:
        """Yield the entries of a directory. If `waiting` was full, later listings add the missing subdirectories."""
        is_first, number, branch.is_listed = branch.listed == 0, 0, True
        with suppress(OSError), os.scandir(branch.descriptor) as entries:
            for entry in entries:
                if is_first:
                    yield Found(branch.descriptor, entry)
                if entry.is_dir(follow_symlinks=False):
                    number += 1
                    if number > branch.listed and branch.is_listed:
                        branch.is_listed = self._put(branch, entry.name)

    def _put(self, branch: _Branch, name: str) -> bool:
        """Add a subdirectory to `waiting`; return False without room."""
        raw = os.fsencode(name)
        if self._names > _NAMES and len(branch.waiting) > _LEAST_NAMES:
            return False
        branch.waiting += raw + b"/"
        branch.listed += 1
        self._names += len(raw) + 1
        return True

    def _go_down(self, branch: _Branch) -> _Branch | None:
        """Open the next subdirectory that waits; return None if it cannot be opened."""
        start = branch.waiting.rfind(b"/", 0, -1) + 1
        name = bytes(branch.waiting[start:-1])
        del branch.waiting[start:]
        self._names -= len(name) + 1
        try:
            below = _Branch(open_directory(os.fsdecode(name), branch.descriptor), branch.height + 1)
        except OSError:
            return None
        if below.identity[0] != self._device:
            os.close(below.descriptor)
            return None
        if not branch.waiting and branch.is_listed and branch.height:
            _close(self._branches.pop())
        self._branches.append(below)
        self._limit()
        return below

    def _limit(self) -> None:
        if len(self._branches) > _OPEN + 1:
            _close(self._branches[-_OPEN - 1])
        if len(self._branches) > _BRANCHES:
            self.whole = False
            self._names -= len(self._branches.pop(1).waiting)

    def _go_back(self, branch: _Branch) -> _Branch | None:
        """Go from a finished directory to the deepest unfinished one; return None at the end."""
        if len(self._branches) == 1:
            return None
        self._branches.pop()
        try:
            while not self._reach(self._branches[-1], branch):
                self.whole = False
                self._names -= len(self._branches.pop().waiting)
        finally:
            _close(branch)
        return self._branches[-1]

    def _reach(self, branch: _Branch, below: _Branch) -> bool:
        """Reopen a directory through an open one below it; return False if that one has been moved."""
        if branch.descriptor >= 0:
            return True
        at = _up(below.descriptor, below.height - branch.height)
        if at >= 0 and _identity(at) == branch.identity:
            branch.descriptor = at
            return True
        if at >= 0:
            os.close(at)
        return False


def _up(descriptor: int, levels: int) -> int:
    """Open the directory `levels` above another; return -1 if that fails."""
    at = os.dup(descriptor)
    while levels:
        hops = min(levels, _HOPS)
        try:
            above = open_directory("../" * hops, at)
        except OSError:
            above = -1
        finally:
            os.close(at)
        if above < 0:
            return -1
        at, levels = above, levels - hops
    return at


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _close(branch: _Branch) -> None:
    if branch.descriptor >= 0:
        os.close(branch.descriptor)
        branch.descriptor = -1
