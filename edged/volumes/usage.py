"""How much of the disk a directory takes, as `du -x` counts it: the check of an emptyDir's `sizeLimit` needs it.

The work is bounded: a pod can make more files than anybody wants to count, and what was counted until then is already
a lower bound of what it takes.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from edged.api import Pod, QuantityError, Volume, whole_value

MOST_ENTRIES = 200_000
"""Files and directories that are looked at; about half a second on a slow board."""

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


def disk_usage(directory: Path, most_entries: int = MOST_ENTRIES) -> DiskUsage:
    """What a directory takes, without what is mounted in it. What is gone or hidden by the time it is looked at counts
    nothing; a directory that does not exist takes nothing.
    """
    try:
        top = directory.lstat()
    except OSError:
        return DiskUsage(0, 0)
    size, inodes, seen, waiting = top.st_blocks * _BLOCK, 1, set[int](), [str(directory)]
    while waiting:
        for entry, found in _entries(waiting.pop()):
            if found.st_dev != top.st_dev or (found.st_nlink > 1 and found.st_ino in seen):
                continue
            if inodes >= most_entries:
                return DiskUsage(size, inodes, whole=False)
            size, inodes = size + found.st_blocks * _BLOCK, inodes + 1
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif found.st_nlink > 1:
                seen.add(found.st_ino)
    return DiskUsage(size, inodes)


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


def _entries(directory: str) -> list[tuple[os.DirEntry[str], os.stat_result]]:
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    found.append((entry, entry.stat(follow_symlinks=False)))
                except OSError:
                    continue
    except OSError:
        return found
    return found
