"""Readers of a volume see the old files or the new ones, whenever the writer fails."""

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.volumes import AtomicWriter, VolumeFile
from tests.edged.pods.builders import at
from tests.support.crash import Crash, crash_after

OLD = {"a": VolumeFile(b"1"), "dir/b": VolumeFile(b"1"), "gone": VolumeFile(b"1")}
NEW = {"a": VolumeFile(b"2"), "dir/b": VolumeFile(b"2"), "dir/c": VolumeFile(b"2"), "new": VolumeFile(b"2")}


def in_force(directory: Path) -> dict[str, bytes]:
    """The files that a reader finds through ..data."""
    data = directory / "..data"
    return {str(p.relative_to(data)): p.read_bytes() for p in data.rglob("*") if p.is_file()}


def visible(directory: Path) -> dict[str, bytes]:
    """The files that a reader finds by their names."""
    tops = [entry for entry in directory.iterdir() if not entry.name.startswith("..")]
    files = [p for top in tops for p in ([top] if top.is_file() else top.rglob("*")) if p.is_file()]
    return {str(p.relative_to(directory)): p.read_bytes() for p in files}


def contents(payload: Mapping[str, VolumeFile]) -> dict[str, bytes]:
    return {path: file.data for path, file in payload.items()}


def test_files_appear_with_content_and_mode(tmp_path: Path) -> None:
    """A first write makes the files behind links, with the modes asked for whatever the umask."""
    assert AtomicWriter(tmp_path).write({"k": VolumeFile(b"v", 0o666), "d/x": VolumeFile(b"", 0o400)}, at(0))
    assert visible(tmp_path) == {"k": b"v", "d/x": b""}
    assert ((tmp_path / "k").stat().st_mode & 0o777, (tmp_path / "d/x").stat().st_mode & 0o777) == (0o666, 0o400)
    assert (tmp_path / "k").readlink() == Path("..data/k")
    assert (tmp_path / "..data").readlink() == Path("..2026_11_20_01_54_50.1")


def test_directories_are_open_to_all_for_reading_whatever_the_umask(tmp_path: Path) -> None:
    """Containers run as other users. A file has its mode before it can be reached."""
    before = os.umask(0o077)
    try:
        AtomicWriter(tmp_path).write({"d/e/x": VolumeFile(b"")}, at(0))
    finally:
        os.umask(before)
    found = [tmp_path / "..data", tmp_path / "d", tmp_path / "d" / "e"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o755] * 3


def test_links_into_a_version_are_counted_as_what_they_are(tmp_path: Path) -> None:
    """A container with the right to write, such as a privileged one, has put a link to a directory among the files."""
    writer = AtomicWriter(tmp_path)
    writer.write(OLD, at(0))
    (tmp_path / "..data" / "more").symlink_to("dir")
    assert writer.write(OLD, at(1))
    assert not (tmp_path / "..data" / "more").is_symlink()


def test_a_rest_of_a_switch_that_was_interrupted_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "..data_tmp").symlink_to("..2020")
    assert AtomicWriter(tmp_path).write(OLD, at(0))
    assert visible(tmp_path) == contents(OLD)
    assert not (tmp_path / "..data_tmp").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files to a user needs root")
def test_a_file_whose_owner_differs_is_written_again(tmp_path: Path) -> None:
    writer, mine = AtomicWriter(tmp_path), VolumeFile(b"token", 0o600, 4242)
    writer.write({"token": VolumeFile(b"token", 0o600)}, at(0))
    assert writer.write({"token": mine}, at(1))
    assert (tmp_path / "token").stat().st_uid == 4242
    assert not writer.write({"token": mine}, at(2))


def test_versions_of_one_moment_replace_each_other(tmp_path: Path) -> None:
    """A clock that stands, or was set back to the moment of a version that is there."""
    writer = AtomicWriter(tmp_path)
    for payload in (OLD, NEW, OLD):
        assert writer.write(payload, at(0))
        assert in_force(tmp_path) == contents(payload)


def test_same_payload_changes_nothing(tmp_path: Path) -> None:
    """Writing again says that nothing changed and leaves the version in force."""
    writer = AtomicWriter(tmp_path)
    writer.write(OLD, at(0))
    before = (tmp_path / "..data").readlink()
    assert not writer.write(OLD, at(10))
    assert (tmp_path / "..data").readlink() == before


@pytest.mark.parametrize(
    "payload",
    [
        {**OLD, "a": VolumeFile(b"2")},
        {**OLD, "a": VolumeFile(b"1", 0o600)},
        {"a": OLD["a"]},
        {**OLD, "more": VolumeFile(b"")},
        {"a/below": OLD["a"], "dir/b": OLD["dir/b"], "gone": OLD["gone"]},
        {},
    ],
    ids=["content", "mode", "removed", "added", "a directory", "emptied"],
)
def test_every_difference_is_written(tmp_path: Path, payload: dict[str, VolumeFile]) -> None:
    """Content, mode and names count; missing files disappear; only one version stays."""
    writer = AtomicWriter(tmp_path)
    writer.write(OLD, at(0))
    assert writer.write(payload, at(0))
    assert visible(tmp_path) == contents(payload)
    assert len([entry for entry in tmp_path.iterdir() if entry.name.startswith("..2")]) == 1


def test_a_file_that_cannot_be_read_is_written_anew(tmp_path: Path) -> None:
    writer = AtomicWriter(tmp_path)
    writer.write(OLD, at(0))
    with patch.object(Path, "read_bytes", side_effect=OSError(errno.EIO, "the flash is worn")):
        assert writer.write(OLD, at(10))
    assert visible(tmp_path) == contents(OLD)


def test_open_file_keeps_its_version(tmp_path: Path) -> None:
    """A reader with an open file reads the old content to its end."""
    writer = AtomicWriter(tmp_path)
    writer.write(OLD, at(0))
    with (tmp_path / "a").open("rb") as held:
        writer.write(NEW, at(1))
        assert held.read() == b"1"


@pytest.mark.parametrize("target", ["/etc", "../outside", "elsewhere", ".."])
def test_data_link_that_leads_elsewhere_is_replaced(tmp_path: Path, target: str) -> None:
    """A link that is not to a version within the volume is neither read nor followed."""
    volume = tmp_path / "volume"
    volume.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_bytes(b"keep")
    (volume / "..data").symlink_to(target)
    assert AtomicWriter(volume).write(OLD, at(0))
    assert visible(volume) == contents(OLD)
    assert (tmp_path / "outside" / "a").read_bytes() == b"keep"


def test_file_in_the_way_of_a_link_is_replaced(tmp_path: Path) -> None:
    """A file or directory in the place of a link is replaced."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").touch()
    (tmp_path / "gone").symlink_to("/etc/passwd")
    AtomicWriter(tmp_path).write(OLD, at(0))
    assert visible(tmp_path) == contents(OLD)


def test_mount_points_stay_whatever_is_written(tmp_path: Path) -> None:
    """Also those that a container runtime has made: the kernel ends a mount of running containers with its place."""
    before = os.umask(0o077)
    try:
        writer = AtomicWriter(tmp_path, None, ["conf", "dir/deep/er"])
        writer.write({"a": VolumeFile(b"1"), "gone": VolumeFile(b"1")}, at(0))
    finally:
        os.umask(before)
    made = [tmp_path / "conf", tmp_path / "dir", tmp_path / "dir" / "deep" / "er"]
    assert [stat.S_IMODE(each.stat().st_mode) for each in made] == [0o755] * 3
    (tmp_path / "of-the-runtime").mkdir()
    places = [each.stat().st_ino for each in made]
    writer.write({"a": VolumeFile(b"2"), "conf": VolumeFile(b"2"), "dir/b": VolumeFile(b"2")}, at(1))
    assert [each.stat().st_ino for each in made] == places
    assert (tmp_path / "of-the-runtime").is_dir()
    assert visible(tmp_path) == {"a": b"2"}, "as in kubelet they hide files of their names"


def test_no_mount_point_is_made_behind_a_link(tmp_path: Path) -> None:
    """An earlier agent has made no directory for the mount, or a privileged container has put a link there."""
    volume, outside = tmp_path / "volume", tmp_path / "outside"
    outside.mkdir()
    volume.mkdir()
    (volume / "a").symlink_to("..data/a")
    (volume / "x").mkdir()
    (volume / "x" / "y").symlink_to(outside)
    AtomicWriter(volume, None, ["a/b", "x/y/z"]).write({"a/file": VolumeFile(b"1")}, at(0))
    assert visible(volume) == {"a/file": b"1"}
    assert list(outside.iterdir()) == []


def test_preparation_happens_before_the_version_counts(tmp_path: Path) -> None:
    """Owners are set on files that nobody can see yet."""
    seen: list[bool] = []
    AtomicWriter(
        tmp_path, lambda version: seen.append((tmp_path / "..data").exists() or not (version / "a").exists())
    ).write(OLD, at(0))
    assert seen == [False]


@pytest.mark.parametrize("wrong", ["a/b", "x" * 300], ids=["a file in its way", "too long"])
def test_a_version_that_cannot_be_completed_leaves_nothing(tmp_path: Path, wrong: str) -> None:
    """It is tried again and again, and may hold a secret."""
    AtomicWriter(tmp_path).write(OLD, at(0))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"exists|too long|Not a directory"):
        AtomicWriter(tmp_path).write({"a": VolumeFile(b"2"), wrong: VolumeFile(b"2")}, at(1))
    assert sorted(tmp_path.iterdir()) == before
    assert visible(tmp_path) == contents(OLD)


def test_crash_at_every_step_leaves_one_whole_version(tmp_path: Path) -> None:
    """Ended at any file system step, a write leaves the old or the new files in force; the next write repairs
    the rest.
    """
    steps = 0
    crashed = True
    while crashed:
        volume = tmp_path / str(steps)
        volume.mkdir()
        AtomicWriter(volume).write(OLD, at(0))
        try:
            with crash_after(steps):
                AtomicWriter(volume).write(NEW, at(1))
            crashed = False
        except Crash:
            pass
        assert in_force(volume) in (contents(OLD), contents(NEW))
        assert set(visible(volume).values()) in ({b"1"}, {b"2"})
        AtomicWriter(volume).write(NEW, at(2))
        assert visible(volume) == contents(NEW)
        assert {entry.name for entry in volume.iterdir()} == {
            "..data",
            (volume / "..data").readlink().name,
            "a",
            "dir",
            "new",
        }
        steps += 1
    assert steps > 15


_payloads = st.dictionaries(
    st.sampled_from(["a", "b", "c/d", "c/e", "f/g/h"]),
    st.builds(VolumeFile, st.binary(max_size=3), st.sampled_from([0o644, 0o600])),
)


@given(st.lists(st.tuples(_payloads, st.integers(0, 40)), min_size=1, max_size=5))
def test_any_series_of_crashed_writes_ends_whole(writes: list[tuple[dict[str, VolumeFile], int]]) -> None:
    """After each of a series of writes that are cut off anywhere, some written version is whole."""
    with TemporaryDirectory() as name:
        volume = Path(name)
        AtomicWriter(volume).write({}, at(0))
        possible: list[dict[str, bytes]] = [{}] + [contents(payload) for payload, _ in writes]
        for payload, steps in writes:
            try:
                with crash_after(steps):
                    AtomicWriter(volume).write(payload, at(1))
            except Crash:
                pass
            assert in_force(volume) in possible
        AtomicWriter(volume).write(writes[-1][0], at(2))
        assert visible(volume) == contents(writes[-1][0])
