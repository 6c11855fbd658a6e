"""How much of the disk a directory takes, as `du -x` counts it: the check of an emptyDir's `sizeLimit` needs it.

A pod can make more files than anybody wants to count at a time, and nest them deeper than a path reaches. So a count is
made in slices, and goes on at the next look where it was; what was counted until then is already a lower bound.
"""

import os
import stat
from collections.abc import Container, Mapping
from pathlib import Path

from msgspec import Struct

from beehive.files.walking import Walk
from edged.api import Pod, QuantityError, Volume, whole_value

MOST_ENTRIES = 200_000
"""Files and directories that are looked at in one slice; about half a second on a slow board."""

_MOST_NAMES = 100_000
"""Files with several names that are remembered; each further name counts for its share of the file."""

_BLOCK = 512
"""Bytes of the unit of `st_blocks`, whatever the file system's own."""

EVICTED = "Evicted"
"""Reason of a pod that the node ended because it took too much (kubelet)."""


class DiskUsage(Struct, frozen=True, gc=False):
    """What a directory takes."""

    size: int
    """Bytes of disk; a file with several names counts once, a sparse one as much as it has."""
    inodes: int
    whole: bool = True
    """Whether everything was counted; else it is at least this much."""


class Count:
    """Counts one directory, without what is mounted in it. What is gone or hidden by the time it is looked at counts
    nothing; a directory that does not exist takes nothing.
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
        """What was counted until now, at least so much."""
        whole = self._walk is None or (self.is_done and self._walk.whole)
        return DiskUsage(self._size, self._inodes, whole)

    def advance(self, most_entries: int = MOST_ENTRIES) -> None:
        """Count so many more entries, or to the end."""
        if self._walk is None or self.is_done:
            return
        for number, found in enumerate(self._walk, 1):
            self._add(found.entry)
            if number >= most_entries:
                return
        self.is_done = True

    def close(self) -> None:
        """Let go of the directory."""
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
    """What a directory takes, counted once; not whole when there are more entries."""
    count = Count(directory)
    count.advance(most_entries)
    try:
        return count.usage
    finally:
        count.close()


class Counts:
    """Counts of directories that go on from one look to the next. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[Path, Count] = {}
        self._last: dict[Path, DiskUsage] = {}

    def look(self, directory: Path, most_entries: int = MOST_ENTRIES) -> DiskUsage:
        """What the directory takes: the more of what is counted now and what was counted before, so that a count that
        has just begun anew hides nothing. After one that is whole the next begins with the next look.
        """
        count = self._counts.pop(directory, None) or Count(directory)
        count.advance(most_entries)
        usage, last = count.usage, self._last.get(directory)
        if count.is_done:
            count.close()
            self._last[directory] = usage
            return usage
        self._counts[directory] = count
        return last if last is not None and last.size > usage.size else usage

    def keep(self, directories: Container[Path]) -> None:
        """Forget all others."""
        for directory in [each for each in self._counts if each not in directories]:
            self._counts.pop(directory).close()
        self._last = {path: usage for path, usage in self._last.items() if path in directories}


def over_its_limit(pod: Pod, sizes: Mapping[str, int]) -> str | None:
    """Why a pod has to go, in kubelet's words (localStorageEviction), or None while its volumes keep their limits.

    `sizes` are the bytes that emptyDir volumes take, by their name; memory has its bound in the kernel.
    """
    for volume in pod.spec.volumes:
        if 0 < limit_of(volume) < sizes.get(volume.name, 0) and volume.empty_dir is not None:
            limit = volume.empty_dir.size_limit
            return f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{limit}". '
    return None


def limit_of(volume: Volume) -> int:
    """Bytes of disk that a volume may take, 0 without a limit; one that cannot be read is none."""
    source = volume.empty_dir
    if source is None or source.medium or source.size_limit is None:
        return 0
    try:
        return whole_value(source.size_limit)
    except QuantityError:
        return 0
