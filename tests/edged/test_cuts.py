"""A kill or a power cut at each step of what edged writes."""

import gzip
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from beehive.files.damaged import DIRECTORY as DAMAGED
from edged.chains.chains import Chains
from edged.chains.file import ChainFile
from edged.devices.model import Device, DeviceAllocation
from edged.devices.pod_devices import Checkpoint, read_checkpoint, write_checkpoint
from edged.logs.rotation import pack
from edged.pods.model import PodUid
from edged.volumes import Files, MemoryMounts, set_up
from edged.volumes.payload import VolumeFile
from edged.volumes.sub_path import resolve_sub_path
from modules.apimachinery.types import Nanoseconds
from tests.edged.chains.test_chains import occurrence, save
from tests.edged.pod_workers.test_pod_directories import MAIN, POD, files_in
from tests.edged.pod_workers.test_user_namespaces import _Node
from tests.support.power_cuts import Cut, Promise, after_each_cut

Life = Callable[[Promise], object]
Check = Callable[[Cut], object]

PRIVATE: Final = 0o077


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process within the block."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def devices(root: Path) -> tuple[Life, Check]:
    """The checkpoint of pods' devices: the old or the new one, and none is set aside."""
    path = root / "kubelet_internal_checkpoint"
    states = [Checkpoint(pods={PodUid("u"): {"c": {"r": DeviceAllocation((Device(name),))}}}) for name in "ab"]
    write_checkpoint(path, states[0])

    def life(promise: Promise) -> None:
        write_checkpoint(path, states[1])
        promise("written")

    def check(cut: Cut) -> None:
        assert read_checkpoint(path, root) in (states[1:] if cut.promised else states)
        assert not (root / DAMAGED).exists()

    return life, check


def users(root: Path) -> tuple[Life, Check]:
    """A pod's users: none before they are told, and the same ever after; no other pod gets them."""

    def life(promise: Promise) -> None:
        promise(_Node(root).users("one"))

    def check(cut: Cut) -> None:
        node = _Node(root)
        again = node.users("one")
        assert not cut.promised or cut.promised == (again,)
        assert node.users("two") != again

    return life, check


def steps_of_pods(root: Path) -> tuple[Life, Check]:
    """The steps of pods: a torn line is skipped, no step that was written is lost, and the file is no damaged one."""

    def recorded(chains: Chains, pod: str) -> bool:
        return chains.find("default", pod) is not None

    def life(promise: Promise) -> None:
        chains, file = Chains(), ChainFile(root)
        for pod in ("one", "two", "three"):
            save(chains, file, occurrence(pod=pod))
            promise(pod)

    def check(cut: Cut) -> None:
        for _ in range(2):
            file = ChainFile(root)
            chains = Chains(file.read())
            assert all(recorded(chains, pod) for pod in cut.promised)
            assert not (root / DAMAGED).exists()
            save(chains, file, occurrence(pod="four"))

    return life, check


def hosts(root: Path) -> tuple[Life, Check]:
    """A pod's /etc/hosts: it is written again unless it is whole, and any user in the pod can read it."""

    def written() -> Path:
        files = files_in(root)
        found = files.mounts(POD, MAIN, 0, {}, {}, ("10.0.0.1",))
        return next(Path(each.host_path) for each in found if each.container_path == "/etc/hosts")

    (root / "edged" / "pods" / "u1").mkdir(parents=True)

    def check(_: Cut) -> None:
        path = written()
        assert "10.0.0.1\tweb" in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o644

    return lambda _: written(), check


def packed_log(root: Path) -> tuple[Life, Check]:
    """A rotated log: its lines are in it, or in its packed form, which is whole."""
    file = root / "0.log.20261128-010203"
    packed = file.with_name(f"{file.name}.gz")
    lines = b"a line of the log\n" * 1000
    file.write_bytes(lines)

    def check(_: Cut) -> None:
        if packed.exists():
            assert gzip.decompress(packed.read_bytes()) == lines
        else:
            assert file.read_bytes() == lines

    return lambda _: pack(file), check


def mount_points(root: Path) -> tuple[Life, Check]:
    """The mount points in a volume of files: any user in the pod can enter them."""
    plan = Files(root / "volume", {"a": VolumeFile(b"1")}, mount_points=("sub/below", "other"))

    def write() -> None:
        set_up(plan, Nanoseconds(1), None, MemoryMounts())

    def check(_: Cut) -> None:
        write()
        for name in ("sub", "sub/below", "other"):
            assert stat.S_IMODE((plan.path / name).stat().st_mode) == 0o755, name
        assert sorted(each.name for each in plan.path.iterdir() if not each.name.startswith("..")) == [
            "a",
            "other",
            "sub",
        ]

    return lambda _: write(), check


def sub_path(root: Path) -> tuple[Life, Check]:
    """The sub path that a container mounts: it has the volume's mode, whoever the container runs as."""
    volume = root / "volume"
    volume.mkdir()
    volume.chmod(0o2777)

    def check(_: Cut) -> None:
        resolve_sub_path(volume, "one/two")
        for name in ("one", "one/two"):
            assert stat.S_IMODE((volume / name).stat().st_mode) == 0o2777, name
        assert [each.name for each in volume.iterdir()] == ["one"]

    return lambda _: resolve_sub_path(volume, "one/two"), check


WRITERS: Final = {
    made.__name__: made for made in (devices, users, steps_of_pods, hosts, packed_log, mount_points, sub_path)
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_cut_at_any_step_leaves_the_old_or_the_new(tmp_path: Path, name: str) -> None:
    """Also where the umask takes more away than usual."""
    with umask(PRIVATE):
        assert after_each_cut(tmp_path, *WRITERS[name](tmp_path)) >= 3
