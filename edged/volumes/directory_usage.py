"""The disk usage of a directory, as `du -x` counts it; for an emptyDir's `sizeLimit`.

A pod can make more files than can be counted at a time, and nest them deeper than a path reaches. So a count is made in
slices, and continues with the next measurement; an unfinished count is already a lower bound.
"""

import os
import stat
from collections.abc import Container, Mapping
from pathlib import Path

from msgspec import Struct

from beehive.files.walking import Walk
from modules.apimachinery.types import Pod, QuantityError, Volume, whole_value

MOST_ENTRIES = 200_000
"""Files and directories in one slice; about half a second on a slow board."""

_MOST_NAMES = 100_000
"""Hard-linked files that are remembered; beyond them each name counts for its share of the file."""

_BLOCK = 512
"""Bytes of the unit of `st_blocks`, on every file system."""


class DiskUsage(Struct, frozen=True, gc=False):
    """Usage of a directory."""

    size: int
    """Bytes of disk; a file with several names counts once, a sparse one with its allocated blocks."""
    inodes: int
    whole: bool = True
    """Whether everything was counted; else the usage is a lower bound."""


class DirectoryCount:
    """The running count of one directory, without other file systems mounted in it. Files that vanish or cannot be read
    count nothing; a missing directory has no usage.
    """

    def __init__(self, directory: Path) -> None:
        self.is_done = False
        self._size = self._inodes = 0
        self._linked: set[int] = set()
        self._walk: Walk | None = None
        try:
            top = directory.lstat()
            self._size, self._inodes = top.st_blocks * _BLOCK, 1
            self._walk = Walk(directory)
        except OSError:
            self.is_done = True

    @property
    def usage(self) -> DiskUsage:
        """The usage counted so far, a lower bound."""
        whole = self._walk is None or (self.is_done and self._walk.whole)
        return DiskUsage(self._size, self._inodes, whole)

    def advance(self, most_entries: int = MOST_ENTRIES) -> None:
        """Count at most this many more entries."""
        if self._walk is None or self.is_done:
            return
        for number, found in enumerate(self._walk, 1):
            self._add(found.entry)
            if number >= most_entries:
                return
        self.is_done = True

    def close(self) -> None:
        """Close the directory."""
        if self._walk is not None:
            self._walk.close()

    def _add(self, entry: os.DirEntry[str]) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return
        size = found.st_blocks * _BLOCK
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if found.st_ino in self._linked:
                return
            if len(self._linked) < _MOST_NAMES:
                self._linked.add(found.st_ino)
            else:
                size //= found.st_nlink
        self._size += size
        self._inodes += 1


def disk_usage(directory: Path, most_entries: int = MOST_ENTRIES) -> DiskUsage:
    """Return the usage of a directory, counted once; not whole when it has more entries."""
    count = DirectoryCount(directory)
    count.advance(most_entries)
    try:
        return count.usage
    finally:
        count.close()


class DirectoryCounts:
    """Counts of directories that continue from one measurement to the next. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[Path, DirectoryCount] = {}
        self._last: dict[Path, DiskUsage] = {}

    def measure(self, directory: Path, most_entries: int = MOST_ENTRIES) -> DiskUsage:
        """Return the directory's usage: the larger of the current count and the last whole one, so that a count that
        has just begun hides nothing. After a whole count the next call begins a new one.
        """
        count = self._counts.pop(directory, None) or DirectoryCount(directory)
        count.advance(most_entries)
        usage, last = count.usage, self._last.get(directory)
        if count.is_done:
            count.close()
            self._last[directory] = usage
            return usage
        self._counts[directory] = count
        return last if last is not None and last.size > usage.size else usage

    def keep(self, directories: Container[Path]) -> None:
        """Drop the counts of all other directories."""
        for directory in [each for each in self._counts if each not in directories]:
            self._counts.pop(directory).close()
        self._last = {path: usage for path, usage in self._last.items() if path in directories}


def over_its_limit(pod: Pod, sizes: Mapping[str, int]) -> str | None:
    """Return why a pod must be evicted, in kubelet's words (localStorageEviction); None while its volumes keep their
    limits.

    `sizes` are the bytes of emptyDir volumes, by their name; the kernel limits volumes in memory.
    """
    for volume in pod.spec.volumes:
        if 0 < limit_of(volume) < sizes.get(volume.name, 0) and volume.empty_dir is not None:
            limit = volume.empty_dir.size_limit
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
    return None


def limit_of(volume: Volume) -> int:
    """Return the volume's limit in bytes of disk, 0 without a limit or with an invalid one."""
    source = volume.empty_dir
    if source is None or source.medium or source.size_limit is None:
        return 0
    try:
        return whole_value(source.size_limit)
    except QuantityError:
        return 0
