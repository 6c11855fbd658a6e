"""What a pod takes of the node's disk: its logs and volumes, counted file by file, and therefore seldom.

Counting is the dear part of statistics, so what was counted counts for a while (kubelet's volumeStatsAggPeriod), and
only for pods that are asked for. What holds more files than are counted at a time is counted over several looks.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from beehive import Clock
from edged.pods.model import PodRef, PodUid
from edged.pods.paths import PodPaths
from edged.volumes.usage import Counts, DiskUsage, disk_usage


class VolumeUsage(Struct, frozen=True, gc=False):
    """One volume. `local` says that what is in it is on the disk of the pods' directory."""

    name: str
    directory: Path
    usage: DiskUsage
    local: bool


class PodDisk(Struct, frozen=True):
    """What one pod takes, without its containers' writable layers."""

    logs: dict[str, DiskUsage]
    """By container."""
    volumes: tuple[VolumeUsage, ...]
    rest: DiskUsage
    """Its /etc/hosts and last words."""


class PodDisks:
    """See the module's docstring. Not thread-safe.

    Args:
        paths: where pods have their files.
        period: seconds for which a count holds.
    """

    def __init__(self, paths: PodPaths, clock: Clock, period: float) -> None:
        self._paths = paths
        self._clock = clock
        self._period = period
        self._counted: dict[PodUid, tuple[float, PodDisk]] = {}
        self._counts: dict[PodUid, Counts] = {}

    def of(self, ref: PodRef) -> PodDisk:
        """What the pod takes, or took less than `period` ago."""
        now = self._clock.monotonic()
        known = self._counted.get(ref.uid)
        if known is not None and now - known[0] < self._period:
            return known[1]
        counted = self._count(ref)
        self._counted[ref.uid] = (now, counted)
        return counted

    def keep(self, uids: set[PodUid]) -> None:
        """Forget all pods but these."""
        self._counted = {uid: entry for uid, entry in self._counted.items() if uid in uids}
        for uid in [uid for uid in self._counts if uid not in uids]:
            self._counts.pop(uid).keep(())

    def _count(self, ref: PodRef) -> PodDisk:
        directory, counts = self._paths.pod(ref.uid), self._counts.setdefault(ref.uid, Counts())
        logs = {each.name: counts.look(each) for each in _directories(self._paths.pod_logs(ref))}
        words = disk_usage(directory / "containers")
        hosts = disk_usage(self._paths.etc_hosts(ref.uid))
        return PodDisk(
            logs, tuple(self._volumes(ref.uid, counts)), DiskUsage(words.size + hosts.size, words.inodes + hosts.inodes)
        )

    def _volumes(self, uid: PodUid, counts: Counts) -> Iterator[VolumeUsage]:
        top = self._paths.volumes(uid)
        for plugin in _directories(top):
            for volume in _directories(plugin):
                if _device(volume) == _device(top):
                    yield VolumeUsage(volume.name, volume, counts.look(volume), local=True)
                else:
                    yield VolumeUsage(volume.name, volume, _of_mount(volume), local=False)


def _directories(top: Path) -> list[Path]:
    try:
        return sorted(path for path in top.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


def _device(path: Path) -> int:
    try:
        return path.lstat().st_dev
    except OSError:
        return -1


def _of_mount(directory: Path) -> DiskUsage:
    """A file system of its own knows itself what is taken of it."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return DiskUsage(0, 0, whole=False)
    return DiskUsage((found.f_blocks - found.f_bfree) * found.f_frsize, found.f_files - found.f_ffree)
