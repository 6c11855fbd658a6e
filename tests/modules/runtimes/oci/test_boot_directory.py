"""What ends with the boot of the machine is on a tmpfs, which outlives edgecore."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.runtimes.oci.boot_directory import BootDirectory
from modules.runtimes.oci.crun.conmon import BUNDLE
from tests.support.leftovers import unmount_under

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A state directory with a container; nothing of it stays mounted."""
    (tmp_path / "containers" / "c1").mkdir(parents=True)
    yield tmp_path
    unmount_under(tmp_path)


def test_a_bundle_outlives_edgecore_and_not_the_machine(root: Path) -> None:
    """Expect the bundle in the next edgecore, and an empty one, made through the old link, after a new boot."""
    container = root / "containers" / "c1"
    first = BootDirectory(root)
    for _ in range(2):
        first.make_bundle(container)
    (container / BUNDLE / "config.json").write_text("{}")
    BootDirectory(root).make_bundle(container)
    assert (container / BUNDLE / "config.json").read_text() == "{}"
    first.remove()
    assert not (container / BUNDLE).exists()
    BootDirectory(root).make_bundle(container)
    assert list((container / BUNDLE).iterdir()) == []


def test_only_bundles_of_containers_are_kept(root: Path) -> None:
    """Expect the bundles of all unknown containers removed, and everything with the mount."""
    boot = BootDirectory(root)
    names = ("c1", "c2", "c3", "c4")
    for name in names:
        (root / "containers" / name).mkdir(exist_ok=True)
        boot.make_bundle(root / "containers" / name)
    boot.keep_only({"c1"})
    assert [(root / "containers" / name / BUNDLE).exists() for name in names] == [True, False, False, False]
    boot.remove_bundle("c1")
    boot.remove_bundle("c1")
    assert not (root / "containers" / "c1" / BUNDLE).exists()
    for _ in range(2):
        boot.remove()
    assert str(root) not in Path("/proc/self/mountinfo").read_text()


def test_state_of_an_earlier_edgecore_stays_on_the_disk(root: Path) -> None:
    """Expect no mount over the state of containers that may run, and their bundles where they are."""
    states = BootDirectory(root).states
    BootDirectory(root).remove()
    (states / "c1").mkdir(parents=True)
    (states.parent / "an-earlier-boot").mkdir()
    (root / "containers" / "c1" / BUNDLE / "ctl").mkdir(parents=True)
    boot = BootDirectory(root)
    boot.make_bundle(root / "containers" / "c1")
    assert (states / "c1").is_dir()
    assert not (states.parent / "an-earlier-boot").exists()
    assert (root / "containers" / "c1" / BUNDLE / "ctl").is_dir()
    boot.remove()
