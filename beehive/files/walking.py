"""Going through a tree that somebody else may have made, of any depth and width, while it is changed.

`os.walk` and `Path.rglob` call themselves for each level, and paths end at 4,096 bytes: what is hidden below that
counts nothing. Here each directory is opened through the one that it is in; no link is followed, no other file system
entered. Memory and descriptors are bounded: a directory that has nothing more to go through is forgotten, of those that
have the deepest stay open, and the others are opened again through `..`, and must be the same directory then.
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
"""Directories above each other that have more to go through."""

_NAMES = 4 * 1024 * 1024
"""Bytes of names that wait in all; a directory with more is listed again when the others are done."""

_LEAST_NAMES = 1024
"""Bytes of names that may wait in each, however many there are in all."""

_HOPS = 1024
"""Levels that are gone up in one call: a path has 4,096 bytes at most."""


class Found(NamedTuple):
    """An entry of a directory that is open while the entry is looked at."""

    within: int
    """Descriptor of the directory."""
    entry: os.DirEntry[str]


class _Branch:
    """A directory in which others wait for being gone through."""

    __slots__ = ("descriptor", "height", "identity", "is_listed", "listed", "waiting")

    def __init__(self, descriptor: int, height: int) -> None:
        self.descriptor = descriptor
        self.height = height
        """Levels below the top."""
        self.identity = _identity(descriptor)
        self.waiting = bytearray()
        """Names, each with a slash behind it."""
        self.listed = 0
        """Directories in it that have been told."""
        self.is_listed = False
        """Whether all have been."""


class Walk:
    """Iterates over everything below a directory, not itself; a directory comes before what is in it.

    What vanishes or may not be opened meanwhile is left out. `whole` says at the end whether nothing else was left out.
    Close it when it is not used up. Raises OSError when the directory itself cannot be opened.
    """

    def __init__(self, top: Path) -> None:
        self.whole = True
        self._names = 0
        self._branches = [_Branch(open_directory(top), 0)]
        self._device = self._branches[0].identity[0]
        self._found = self._all()

    def __iter__(self) -> Iterator[Found]:
        return self._found

    def close(self) -> None:
        """Let go of what is open."""
        self._found.close()
        self._let_go()

    def _let_go(self) -> None:
        while self._branches:
            _close(self._branches.pop())

    def _all(self) -> Generator[Found, None, None]:
        branch: _Branch | None = self._branches[0]
        try:
            while branch is not None:
                if not branch.waiting and not branch.is_listed:
                    yield from self._list(branch)
                branch = (self._go_down(branch) or branch) if branch.waiting else self._go_back(branch)
        finally:
            self._let_go()

    def _list(self, branch: _Branch) -> Iterator[Found]:
        """Tell what is in a directory. What did not fit the first time is put on the list then, and not told again."""
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
        """Put a directory on the list; False when there is no room."""
        raw = os.fsencode(name)
        if self._names > _NAMES and len(branch.waiting) > _LEAST_NAMES:
            return False
        branch.waiting += raw + b"/"
        branch.listed += 1
        self._names += len(raw) + 1
        return True

    def _go_down(self, branch: _Branch) -> _Branch | None:
        """Into the next directory that waits in this one; None when it cannot be gone into."""
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
        """From a directory that is done to the deepest that is not; None at the end."""
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
        """Open a directory again, by way of one that is open below it; False when that one is elsewhere now."""
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
    """Open the directory so many levels above another; -1 when that cannot be done."""
    at = os.dup(descriptor)
    while levels:
        hops = min(levels, _HOPS)
        try:
            above = open_directory("../" * hops, at)
        except OSError:
            above = -1
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
