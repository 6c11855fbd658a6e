"""Disk usage of volumes, and their limits."""

import os
from pathlib import Path

import pytest

from beehive.files.removal import remove_tree
from edged.volumes import directory_usage
from edged.volumes.directory_usage import DirectoryCounts, DiskUsage, disk_usage, over_its_limit
from modules.apimachinery.types import EmptyDirVolumeSource, Volume
from tests.beehive.files.trees import make_deep
from tests.edged.pods.builders import a_pod
from tests.support.descriptors import open_descriptors

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
    assert (found.inodes, found.whole) == (6, False)
    assert 0 < found.size < disk_usage(tmp_path).size


def test_a_count_goes_on_where_it_was(tmp_path: Path) -> None:
    """Behind 200,000 small files a pod could hide what it took, and the sum said that it was whole."""
    top = tmp_path / "top"
    (top / "below").mkdir(parents=True)
    for number in range(20):
        (top / f"{number}").touch()
    (top / "below" / "large").write_bytes(b"x" * 100 * KIB)
    counts = DirectoryCounts()
    before = open_descriptors()
    looks = [counts.measure(top, most_entries=6) for _ in range(5)]
    assert [look.whole for look in looks] == [False, False, False, True, True]
    assert looks[3] == disk_usage(top)
    assert looks[4] == looks[3], "one that has begun anew hides nothing"
    (top / "more").write_bytes(b"x" * 100 * KIB)
    assert disk_usage(top) in [counts.measure(top, most_entries=6) for _ in range(12)], "nor what came since"
    counts.keep(())
    assert open_descriptors() <= before
    assert counts.measure(top, most_entries=6).size < looks[3].size, "nothing is kept of a volume that is gone"
    counts.keep(())


def test_a_count_that_exceeds_the_last_whole_one_counts_before_its_end(tmp_path: Path) -> None:
    counts = DirectoryCounts()
    before = counts.measure(tmp_path)
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"x" * 50 * KIB)
    assert counts.measure(tmp_path, most_entries=2).size > before.size
    counts.keep(())


def test_nothing_is_hidden_below_a_path_that_is_too_long(tmp_path: Path) -> None:
    """50 MB below a path of more than 4,096 bytes counted nothing, and the count said that it was whole."""
    top = make_deep(tmp_path / "top", 50, name="d" * 200)
    at = os.open(top, os.O_RDONLY)
    for _ in range(50):
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    with os.fdopen(os.open("large", os.O_CREAT | os.O_WRONLY, dir_fd=at), "wb") as file:
        file.write(b"x" * 1024 * KIB)
    os.close(at)
    found = disk_usage(top)
    remove_tree(top)
    assert found.whole
    assert found.inodes == 52
    assert found.size >= 1024 * KIB


def test_names_of_one_file_count_once_however_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more files than are remembered, each name counts for its share."""
    (tmp_path / "file").write_bytes(b"x" * 64 * KIB)
    for number in range(7):
        os.link(tmp_path / "file", tmp_path / f"{number}")
    once = disk_usage(tmp_path)
    monkeypatch.setattr(directory_usage, "_MOST_NAMES", 0)
    assert disk_usage(tmp_path).size == once.size


def test_a_missing_directory_has_no_usage(tmp_path: Path) -> None:
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
