"""Memory as a volume: as large as the pod may have, and gone with it."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from edged.errors import PluginError
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.volumes import KernelMounts, MemoryMounts, PodVolumes, VolumeError
from edged.volumes.csi.drivers import CsiDrivers
from edged.volumes.csi.mounter import CsiMounter
from edged.volumes.mounting import is_mounted, points_below
from edged.volumes.plan import MemoryDirectory, memory_size
from edged.volumes.set_up import set_up
from modules.apimachinery.types import (
    EmptyDirVolumeSource,
    Nanoseconds,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    SecretVolumeSource,
    Volume,
)
from tests.edged.pods.builders import a_container, a_pod
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end
from tests.edged.volumes.test_volumes import SEC, Known

MIB = 1024 * 1024


def limited(*limits: str | None, init: tuple[str | None, ...] = (), sidecar: bool = False) -> Pod:
    def resources(limit: str | None) -> ResourceRequirements:
        return ResourceRequirements(limits={} if limit is None else {"memory": limit})

    containers = [a_container(f"c{i}", resources=resources(limit)) for i, limit in enumerate(limits)]
    policy = "Always" if sidecar else None
    inits = (a_container(f"i{i}", resources=resources(x), restart_policy=policy) for i, x in enumerate(init))
    return a_pod(*containers, init=tuple(inits))


@pytest.mark.parametrize(
    ("pod", "limit", "allocatable", "expected"),
    [
        (limited(None), None, 0, 0),
        (limited(None), "64Mi", 0, 64 * MIB),
        (limited(None), "0", 0, 0),
        (limited(None), None, 100 * MIB, 100 * MIB),
        (limited(None), "1Gi", 100 * MIB, 100 * MIB),
        (limited("32Mi"), "64Mi", 100 * MIB, 32 * MIB),
        (limited("32Mi", "16Mi"), None, 100 * MIB, 48 * MIB),
        (limited("32Mi", None), None, 100 * MIB, 100 * MIB),
        (limited("32Mi", init=("80Mi", "8Mi")), None, 100 * MIB, 80 * MIB),
        (limited("32Mi", init=(None,)), None, 100 * MIB, 100 * MIB),
        (limited("32Mi", init=("16Mi",), sidecar=True), None, 100 * MIB, 48 * MIB),
    ],
)
def test_the_smallest_bound_counts(pod: Pod, limit: str | None, allocatable: int, expected: int) -> None:
    assert memory_size(pod, limit, allocatable) == expected


def cache_pod(limit: str = "4Mi") -> Pod:
    volume = Volume(name="cache", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit=limit))
    return Pod(
        metadata=ObjectMeta(name="p", namespace="default", uid="u1"),
        spec=PodSpec(containers=(a_container(),), volumes=(volume,)),
    )


@pytest.mark.parametrize(("group", "expected"), [(None, (0o1777, 0)), (4242, (0o3777, 4242))])
def test_memory_of_a_pod_is_open_sticky_and_its_groups(
    tmp_path: Path, group: int | None, expected: tuple[int, int]
) -> None:
    mounts = Mock(has=Mock(return_value=False))
    set_up(MemoryDirectory(tmp_path / "cache", MIB), Nanoseconds(0), group, mounts)
    assert (mounts.tmpfs.call_args.kwargs["mode"], mounts.tmpfs.call_args.kwargs["group"]) == expected


class BusyMounts(MemoryMounts):
    """Cannot undo the mount at one point."""

    busy = Path()

    def _unmount(self, target: Path) -> None:
        if target == self.busy:
            raise VolumeError("unmount a volume", str(target), "it is busy", retryable=True)
        super()._unmount(target)


@needs_mounts
def test_mounts_below_a_directory(tmp_path: Path) -> None:
    """The last first; with a blank and a backslash in their names, but no neighbour whose name begins alike."""
    above, neighbour = tmp_path / "a b\\c", tmp_path / "a b\\cd"
    inner = above / "in \\ner"
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        for each in (above, neighbour, inner):
            each.mkdir()
            mounts.tmpfs(each, MIB)
        (inner / "deep").mkdir(parents=True)
        mounts.tmpfs(inner / "deep", MIB)
        assert points_below(mounts, above) == [inner / "deep", inner]
        assert points_below(mounts, tmp_path) == [inner / "deep", inner, neighbour, above]
        mounts.unmount(*points_below(mounts, tmp_path))


@needs_mounts
def test_memory_is_mounted_once_with_its_size_and_gone_with_the_pod(tmp_path: Path) -> None:
    """The content stays when the volume is prepared again, also by another agent."""
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        paths = PodPaths(tmp_path)
        (path,) = PodVolumes(paths, mounts).prepare(cache_pod(), Known(), Nanoseconds(0)).values()
        found = os.statvfs(path)
        assert found.f_blocks * found.f_frsize == 4 * MIB
        assert path.stat().st_mode & 0o7777 == 0o1777
        (path / "file").write_text("kept")
        again = PodVolumes(paths, mounts)
        again.prepare(cache_pod(), Known(), Nanoseconds(0))
        assert (path / "file").read_text() == "kept"
        for _ in range(2):
            again.remove(PodUid("u1"))
            assert not is_mounted(mounts, path)
        assert list(path.iterdir()) == []


@pytest.mark.parametrize(("knows", "made"), [(True, 1), (False, 2)])
def test_memory_is_not_swapped_out_where_the_kernel_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, knows: bool, made: int
) -> None:
    """Of an emptyDir as of a secret: programs keep their own secrets in it. Older kernels know no `noswap`."""
    asked = list[str]()

    def mount(target: Path, options: str) -> None:
        asked.append(options)
        if "noswap" in options and not knows:
            raise VolumeError("mount memory", str(target), "") from OSError(errno.EINVAL, "invalid")

    monkeypatch.setattr("edged.volumes.mounting._mount_tmpfs", mount)
    KernelMounts().tmpfs(tmp_path, MIB)
    assert asked == ["mode=1777,gid=0,size=1048576,noswap", "mode=1777,gid=0,size=1048576"][:made]


def test_memory_that_the_kernel_refuses_for_another_reason_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = VolumeError("mount memory", str(tmp_path), "")
    refused.__cause__ = OSError(errno.ENOMEM, "no memory")
    mount = Mock(side_effect=refused)
    monkeypatch.setattr("edged.volumes.mounting._mount_tmpfs", mount)
    with pytest.raises(VolumeError, match="mount memory"):
        KernelMounts().tmpfs(tmp_path, 0)
    mount.assert_called_once_with(tmp_path, "mode=1777,gid=0,noswap")


@needs_mounts
def test_a_removal_waits_for_who_uses_the_memory(tmp_path: Path) -> None:
    """The kernel refuses, the error says so and that it may pass, and the next attempt succeeds."""
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        volumes = PodVolumes(PodPaths(tmp_path), mounts)
        (path,) = volumes.prepare(cache_pod(), Known(), Nanoseconds(0)).values()
        with (path / "file").open("w"), pytest.raises(VolumeError, match=r"unmount a volume.*busy") as raised:
            volumes.remove(PodUid("u1"))
        assert raised.value.retryable
        volumes.remove(PodUid("u1"))


def test_a_mount_in_use_keeps_no_other_mounted(tmp_path: Path) -> None:
    """The files of a secret would stay in memory for as long."""
    paths, mounts = PodPaths(tmp_path), BusyMounts()
    volumes = PodVolumes(paths, mounts)
    cache = volumes.prepare(cache_pod(), Known(), Nanoseconds(0))["cache"]
    mounts.busy = cache.with_name("busy")
    mounts.tmpfs(mounts.busy, MIB)
    with pytest.raises(VolumeError, match="it is busy"):
        volumes.remove(PodUid("u1"))
    assert [point for _, point, _ in mounts.mounted] == [mounts.busy]


class Driver(CsiMounter):
    """Notes what is mounted when it is to detach its disks."""

    def __init__(self, paths: PodPaths, mounts: MemoryMounts) -> None:
        super().__init__(paths, CsiDrivers(), mounts, "")
        self.mounted = mounts.mounted
        self.seen: list[list[Path]] = []

    def tear_down(self, uid: PodUid) -> None:
        assert uid == "u1"
        self.seen.append([point for _, point, _ in self.mounted])


def test_a_driver_detaches_its_disk_when_no_sub_path_of_it_is_mounted_any_more(tmp_path: Path) -> None:
    """A disk that is detached while a file system of it is mounted loses what was written last."""
    paths, mounts, uid = PodPaths(tmp_path), BusyMounts(), PodUid("u1")
    driver = Driver(paths, mounts)
    volumes = PodVolumes(paths, mounts, csi=driver)
    cache = volumes.prepare(cache_pod(), Known(), Nanoseconds(0))["cache"]
    published, shown = paths.volume(uid, "csi", "disk") / "mount", paths.sub_path(uid, "disk", "bb", 0)
    for point in (published, shown, paths.sub_path(uid, "disk", "bb", 1)):
        point.mkdir(parents=True)
        mounts.bind(tmp_path, point)
    mounts.busy = shown
    with pytest.raises(VolumeError, match="it is busy"):
        volumes.remove(uid)
    assert driver.seen == []
    assert [point for _, point, _ in mounts.mounted] == [published, shown], "memory and the other sub path are free"
    mounts.busy = Path()
    volumes.remove(uid)
    assert (driver.seen, mounts.mounted) == ([[published]], [])
    assert cache.is_dir()


def test_what_is_mounted_below_a_sub_path_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume's own mounts come with it; the kernel calls a point busy that has others below it."""
    paths, mounts, uid, order = PodPaths(tmp_path), MemoryMounts(), PodUid("u1"), list[Path]()
    shown = paths.sub_path(uid, "disk", "bb", 0)
    for point in (shown, shown / "below"):
        point.mkdir(parents=True)
        mounts.bind(tmp_path, point)
    monkeypatch.setattr(mounts, "_unmount", order.append)
    PodVolumes(paths, mounts).remove(uid)
    assert order == [shown / "below", shown]


class AbsentDriver(CsiMounter):
    def tear_down(self, uid: PodUid) -> None:
        raise PluginError("unpublish a volume", uid, "its driver is away")


def test_a_driver_that_is_away_keeps_no_memory_mounted(tmp_path: Path) -> None:
    paths, mounts, uid = PodPaths(tmp_path), MemoryMounts(), PodUid("u1")
    volumes = PodVolumes(paths, mounts, csi=AbsentDriver(paths, CsiDrivers(), mounts, ""))
    volumes.prepare(cache_pod(), Known(), Nanoseconds(0))
    published = paths.volume(uid, "csi", "disk") / "mount"
    mounts.bind(tmp_path, published)
    with pytest.raises(PluginError, match="its driver is away"):
        volumes.remove(uid)
    assert [point for _, point, _ in mounts.mounted] == [published]


def test_a_simulated_node_mounts_nothing(tmp_path: Path) -> None:
    mounts = MemoryMounts()
    volumes = PodVolumes(PodPaths(tmp_path), mounts, 2 * MIB)
    (path,) = volumes.prepare(cache_pod(), Known(), Nanoseconds(0)).values()
    volumes.prepare(cache_pod(), Known(), Nanoseconds(0))
    assert mounts.mounted == [("tmpfs", path, 2 * MIB)]
    assert not is_mounted(KernelMounts(), path)
    mounts.tmpfs(foreign := tmp_path / "pods" / "u1" / "plugins" / "x", MIB)
    volumes.remove(PodUid("u1"))
    assert [point for _, point, _ in mounts.mounted] == [foreign], "what somebody else has mounted there stays"
    mounts.unmount(foreign)
    with pytest.raises(VolumeError, match="not mounted"):
        mounts.unmount(path)


class NoMounts(MemoryMounts):
    """Mounts that fail for a reason."""

    def __init__(self, reason: int) -> None:
        super().__init__()
        self._reason = reason

    def tmpfs(self, target: Path, size: int, *, mode: int = 0o1777, group: int = 0) -> None:
        """See `Mounts`."""
        assert (size, mode, group) == (0, 0o755, 0)
        try:
            raise OSError(self._reason, os.strerror(self._reason), str(target))
        except OSError as error:
            raise VolumeError("mount memory", str(target), str(error), retryable=True) from error


@pytest.mark.parametrize("reason", [errno.EPERM, errno.EACCES, errno.ENOMEM, errno.EINVAL, errno.ENOSPC])
def test_a_secret_is_on_the_disk_only_without_the_right_to_mount(tmp_path: Path, reason: int) -> None:
    secret = Volume(name="s", secret=SecretVolumeSource(secret_name=SEC))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u1"), spec=PodSpec(volumes=(secret,)))
    volumes = PodVolumes(PodPaths(tmp_path), NoMounts(reason))
    if may := reason in (errno.EPERM, errno.EACCES):
        volumes.prepare(pod, Known(), Nanoseconds(0))
    else:
        with pytest.raises(VolumeError, match="s"):
            volumes.prepare(pod, Known(), Nanoseconds(0))
    written = [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
    assert bool(written) is may
