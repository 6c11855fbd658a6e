"""What volumes take of the disk, and when that is too much."""

import os
from pathlib import Path

import pytest

from edged.api import EmptyDirVolumeSource, Volume
from edged.volumes.usage import DiskUsage, disk_usage, over_its_limit
from tests.edged.pods.builders import a_pod

KIB = 1024


def test_it_counts_as_du_does(tmp_path: Path) -> None:
    """Blocks and not lengths, a file with two names once, links themselves, directories too."""
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "file").write_bytes(b"x" * 100 * KIB)
    os.link(tmp_path / "deep" / "er" / "file", tmp_path / "second name")
    with (tmp_path / "sparse").open("wb") as sparse:
        sparse.truncate(1 << 30)
    (tmp_path / "link").symlink_to("/usr")
    blocks = sum(path.lstat().st_blocks for path in (tmp_path, *tmp_path.rglob("*")))
    twice = (tmp_path / "second name").stat().st_blocks
    assert disk_usage(tmp_path) == DiskUsage((blocks - twice) * 512, 6)
    assert 100 * KIB <= disk_usage(tmp_path).size < 1 << 20


def test_the_work_is_bounded(tmp_path: Path) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"x" * KIB)
    found = disk_usage(tmp_path, most_entries=5)
    assert (found.inodes, found.whole) == (5, False)
    assert 0 < found.size < disk_usage(tmp_path).size


def test_what_is_not_there_takes_nothing(tmp_path: Path) -> None:
    assert disk_usage(tmp_path / "missing") == DiskUsage(0, 0)


@pytest.mark.parametrize(
    ("source", "size", "over"),
    [
        (EmptyDirVolumeSource(size_limit="1Ki"), KIB + 1, True),
        (EmptyDirVolumeSource(size_limit="1Ki"), KIB, False),
        (EmptyDirVolumeSource(size_limit="0"), KIB, False),
        (EmptyDirVolumeSource(size_limit="much"), KIB, False),
        (EmptyDirVolumeSource(), 1 << 40, False),
        (EmptyDirVolumeSource(size_limit="1Ki", medium="Memory"), KIB + 1, False),
    ],
)
def test_a_volume_over_its_limit_is_named(source: EmptyDirVolumeSource, size: int, over: bool) -> None:
    """In kubelet's words, with the space at their end."""
    pod = a_pod(volumes=(Volume(name="other"), Volume(name="v", empty_dir=source)))
    expected = 'Usage of EmptyDir volume "v" exceeds the limit "1Ki". ' if over else None
    assert over_its_limit(pod, {"v": size}) == expected
