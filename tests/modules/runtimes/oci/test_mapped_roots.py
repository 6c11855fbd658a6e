"""The second mounts of containers whose root is another user of the machine."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.runtimes.oci import mapped_roots
from modules.runtimes.oci.leftovers import unmount_all
from modules.runtimes.oci.mapped_roots import MappedRoots, remove_top
from modules.runtimes.shim import kernel
from tests.support.leftovers import unmount_under

_GROUP = 123_456

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[MappedRoots]:
    """A state directory's roots; nothing of them is left."""
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "rootfs" / "file").touch()
    made = MappedRoots(tmp_path)
    yield made
    made.keep_only(set())
    assert not made.directory.exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    unmount_under(tmp_path)


def test_its_group_alone_passes(tmp_path: Path, roots: MappedRoots) -> None:
    """All directories above are closed to others, and none can be listed; twice is once."""
    found = [roots.bind("c1", tmp_path / "rootfs", _GROUP) for _ in range(2)]
    assert found[0] == found[1]
    assert (found[0] / "file").exists()
    gate = found[0].parent
    assert (stat.S_IMODE(gate.stat().st_mode), gate.stat().st_uid, gate.stat().st_gid) == (0o710, 0, _GROUP)
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o711 for each in (gate.parent, gate.parent.parent))
    for _ in range(2):
        roots.unbind("c1")
    assert not gate.parent.exists()


def test_remains_of_a_crash(tmp_path: Path, roots: MappedRoots) -> None:
    """Mounts of unknown containers are undone, others' stay; other runtimes have theirs."""
    kept, lost = (roots.bind(name, tmp_path / "rootfs", _GROUP) for name in ("kept", "lost"))
    again = MappedRoots(tmp_path)
    MappedRoots(tmp_path / "other").keep_only(set())
    assert (lost / "file").exists()
    again.keep_only({"kept"})
    assert ((kept / "file").exists(), lost.exists()) == (True, False)


def test_all_that_several_crashes_have_left_goes(tmp_path: Path, roots: MappedRoots) -> None:
    """Also a mount upon a mount, and a directory whose mount is gone."""
    for name in ("a", "b", "c"):
        target = roots.bind(name, tmp_path / "rootfs", _GROUP)
    kernel.mount(str(tmp_path / "rootfs"), str(target), "none", kernel.MS_BIND)
    kernel.unmount(str(roots.directory / "a" / "rootfs"), kernel.MNT_DETACH)
    MappedRoots(tmp_path).keep_only(set())
    assert not roots.directory.exists()
    assert str(roots.directory) not in Path("/proc/self/mountinfo").read_text()


def test_another_root_takes_the_place_of_the_former(tmp_path: Path, roots: MappedRoots) -> None:
    """It is the container's, and once it is unbound nothing is below it."""
    roots.bind("c1", tmp_path / "rootfs", _GROUP)
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "other").touch()
    found = roots.bind("c1", tmp_path / "next", _GROUP)
    assert [each.name for each in found.iterdir()] == ["other"]
    assert Path("/proc/self/mountinfo").read_text().count(str(found)) == 1
    roots.unbind("c1")
    assert not roots.directory.exists()


def test_the_directory_above_goes_once_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together with the one above that, if that has nothing else."""
    top = tmp_path / "edgecore" / "roots"
    (top / "one").mkdir(parents=True)
    monkeypatch.setattr(mapped_roots, "_TOP", top)
    remove_top()
    assert top.exists()
    (top / "one").rmdir()
    remove_top()
    assert list(tmp_path.iterdir()) == []


def test_a_mount_point_that_somebody_has_removed_is_removed(tmp_path: Path, roots: MappedRoots) -> None:
    """Nor does the directory above it stay; a second time there is nothing to do."""
    target = roots.bind("c1", tmp_path / "rootfs", _GROUP)
    unmount_all(target)
    target.rmdir()
    unmount_all(target)
    roots.unbind("c1")
    assert not roots.directory.exists()
    roots.unbind("c1")
