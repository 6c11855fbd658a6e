"""The disk usage of pods: logs and volumes."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from beehive import Clock
from edged.pods.model import PodRef, PodUid
from edged.pods.paths import PodPaths
from edged.volumes.claims import LOCAL_VOLUME
from edged.volumes.csi.model import CSI
from edged.volumes.directory_usage import DirectoryCounts, DiskUsage, disk_usage


class VolumeUsage(Struct, frozen=True, gc=False):
    """One volume."""

    name: str
    directory: Path
    usage: DiskUsage | None
    """The pod's usage of the disk of its directory; None: the volume has a file system of its own, or outlives pods."""


class PodDisk(Struct, frozen=True):
    """The disk usage of one pod, without its containers' writable layers."""

    logs: dict[str, DiskUsage]
    """Usage of the logs by container."""
    volumes: tuple[VolumeUsage, ...]
    rest: DiskUsage
    """Usage of its /etc/hosts and termination messages."""


class PodDisks:
    """The disk usage of pods, counted file by file. Not thread-safe.

    Counting is the expensive part of the stats. So a count holds for a while (kubelet's volumeStatsAggPeriod), and only
    requested pods are counted. A directory with very many files is counted over several requests.

    Args:
        paths: of pods.
        clock: for the age of a count.
        period: seconds that a count holds.
        local_volumes: returns the names of pods' local volumes by their directories.
    """

    def __init__(
        self, paths: PodPaths, clock: Clock, period: float, local_volumes: Callable[[], Mapping[Path, str]]
    ) -> None:
        self._paths = paths
        self._clock = clock
        self._period = period
        self._local_volumes = local_volumes
        self._counted: dict[PodUid, tuple[float, PodDisk]] = {}
        self._counts: dict[PodUid, DirectoryCounts] = {}

    def of(self, ref: PodRef) -> PodDisk:
        """Return the pod's usage, counted less than `period` ago."""
        now = self._clock.monotonic()
        known = self._counted.get(ref.uid)
        if known is not None and now - known[0] < self._period:
            return known[1]
        counted = self._count(ref)
        self._counted[ref.uid] = (now, counted)
        return counted

    def keep(self, uids: set[PodUid]) -> None:
        """Drop the counts of all other pods."""
        self._counted = {uid: entry for uid, entry in self._counted.items() if uid in uids}
        for uid in [uid for uid in self._counts if uid not in uids]:
            self._counts.pop(uid).keep(())

    def _count(self, ref: PodRef) -> PodDisk:
        directory, counts = self._paths.pod(ref.uid), self._counts.setdefault(ref.uid, DirectoryCounts())
        logs = {each.name: counts.measure(each) for each in _directories(self._paths.pod_logs(ref))}
        messages = disk_usage(directory / "containers")
        hosts = disk_usage(self._paths.etc_hosts(ref.uid))
        return PodDisk(
            logs,
            tuple(self._volumes(ref.uid, counts)),
            DiskUsage(messages.size + hosts.size, messages.inodes + hosts.inodes),
        )

    def _volumes(self, uid: PodUid, counts: DirectoryCounts) -> Iterator[VolumeUsage]:
        """Yield a pod's volumes, except those of storage drivers: the driver knows their usage (kubelet's metrics of
        CSI). Data that outlives the pod is none of its ephemeral storage (kubelet's IsLocalEphemeralVolume).
        """
        top, names = self._paths.volumes(uid), self._local_volumes()
        drivers, local = (self._paths.volume_kind(uid, kind) for kind in (CSI, LOCAL_VOLUME))
        for plugin in _directories(top):
            for volume in _directories(plugin) if plugin != drivers else ():
                if plugin == local:
                    if volume in names:
                        yield VolumeUsage(names[volume], volume, None)
                else:
                    is_on_disk = _device(volume) == _device(top)
                    yield VolumeUsage(volume.name, volume, counts.measure(volume) if is_on_disk else None)


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
