"""A container that mounts a path of a volume gets that and nothing else, even if another one interferes meanwhile."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from edged.volumes import KernelMounts, MemoryMounts, VolumeError
from edged.volumes.sub_path import _is_same, bind_sub_path, resolve_sub_path
from tests.edged.volumes.mounting import needs_mounts, nothing_mounted_at_the_end
from tests.support.descriptors import open_descriptors
from tests.support.failing import Failing, PlannedError


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "volume" / "a").mkdir(parents=True)
    (tmp_path / "volume" / "a" / "file").write_text("inside")
    return tmp_path / "volume"


@needs_mounts
def test_the_opened_file_is_mounted(volume: Path, tmp_path: Path) -> None:
    """Directories and files; an existing binding is kept; a link put there later changes nothing."""
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        place, other = tmp_path / "place" / "0", tmp_path / "place" / "1"
        assert bind_sub_path(mounts, volume, "a", place) == place
        assert bind_sub_path(mounts, volume, "a/file", other) == other
        (volume / "a").rename(volume / "gone")
        (volume / "a").symlink_to("/etc")
        assert (place / "file").read_text() == other.read_text() == "inside"
        assert bind_sub_path(mounts, volume, "gone", place) == place
        assert len([point for point in mounts.below(place.parent) if point == place]) == 1
        for each in (place, other):
            mounts.unmount(each)


@needs_mounts
def test_another_path_than_before_takes_the_place(volume: Path, tmp_path: Path) -> None:
    """A file where a directory was, too: the volume was restored, or the pod's variables say otherwise now."""
    with nothing_mounted_at_the_end(tmp_path) as mounts:
        place = tmp_path / "place"
        bind_sub_path(mounts, volume, "a", place)
        bind_sub_path(mounts, volume, "a/file", place)
        assert place.read_text() == "inside"
        bind_sub_path(mounts, volume, "new/one", place)
        assert place.is_dir()
        assert (volume / "new" / "one").is_dir()
        mounts.unmount(place)


def test_a_binding_whose_file_system_has_gone_is_made_anew(volume: Path, tmp_path: Path) -> None:
    """Its driver has restarted: the old mount answers nothing but errors."""
    mounts, place = MemoryMounts(), tmp_path / "place"
    bind_sub_path(mounts, volume, "data", place)
    place.rmdir()
    assert bind_sub_path(mounts, volume, "data", place) == place
    assert [point for _, point, _ in mounts.mounted] == [place]


def test_a_binding_that_fails_leaves_no_descriptor(volume: Path, tmp_path: Path) -> None:
    """It is tried again, until the pod is gone."""
    mounts, before = MemoryMounts(), open_descriptors()
    mounts.bind = Failing(0).call(mounts.bind)  # type: ignore[method-assign]
    with pytest.raises(PlannedError):
        bind_sub_path(mounts, volume, "data", tmp_path / "place")
    assert open_descriptors() <= before


def test_a_link_that_appears_while_it_is_opened_is_not_followed(volume: Path, tmp_path: Path) -> None:
    """Between the check of the whole path and the opening of its parts another container replaces one by a link."""
    looked_at = os.path.realpath

    def exchange(path: str | os.PathLike[str]) -> str:
        found = looked_at(path)
        if found.endswith("/a/file"):
            (volume / "a").rename(volume / "gone")
            (volume / "a").symlink_to("/etc")
        return found

    mounts, before = MemoryMounts(), open_descriptors()
    with patch("os.path.realpath", exchange), pytest.raises(VolumeError, match="link has replaced a part of it"):
        bind_sub_path(mounts, volume, "a/file", tmp_path / "place")
    assert mounts.mounted == []
    assert open_descriptors() <= before, "a container that repeats this would bring the agent to its limit"


@pytest.mark.parametrize("sub_path", ["..", "/etc", "a/../../x", "out", "out/passwd", ""])
def test_no_path_leads_out(volume: Path, tmp_path: Path, sub_path: str) -> None:
    (volume / "out").symlink_to("/etc")
    with pytest.raises(VolumeError, match="cannot mount the subPath"):
        bind_sub_path(MemoryMounts(), volume, sub_path, tmp_path / "place")


def test_a_file_of_another_disk_is_another_file_also_with_the_same_number(tmp_path: Path) -> None:
    """As the first directories of two disks are."""
    found = list(tmp_path.stat())
    assert _is_same(tmp_path, os.stat_result(found))
    found[2] += 1
    assert not _is_same(tmp_path, os.stat_result(found))


def test_links_within_the_volume_are_followed(volume: Path, tmp_path: Path) -> None:
    (volume / "link").symlink_to("a")
    mounts, before = MemoryMounts(), open_descriptors()
    place = tmp_path / "place"
    assert bind_sub_path(mounts, volume, "link/file", place) == place
    assert mounts.mounted == [("bind", place, volume / "a" / "file")]
    assert open_descriptors() <= before


def test_who_may_not_mount_gives_the_path_itself(volume: Path, tmp_path: Path) -> None:
    """As an agent without root does; its containers have no more rights than it."""

    class Forbidden(MemoryMounts):
        def bind(self, source: Path, target: Path) -> None:
            error = VolumeError("bind a volume", str(target), "mounting needs root")
            raise error from PermissionError()

    assert bind_sub_path(Forbidden(), volume, "a", tmp_path / "place") == volume / "a"


def test_an_error_of_the_kernel_is_reported(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="bind a volume") as raised:
        KernelMounts().bind(tmp_path / "missing", tmp_path)
    assert raised.value.retryable


def test_a_path_that_cannot_be_named_leaves_nothing(volume: Path) -> None:
    with patch("os.rename", side_effect=OSError("a worn disk")), pytest.raises(VolumeError, match="mount the subPath"):
        resolve_sub_path(volume, "b")
    assert {path.name for path in volume.iterdir()} == {"a"}


@pytest.mark.parametrize("moment", ["made", "named"])
def test_two_pods_that_make_one_path_at_once_both_have_it(volume: Path, moment: str) -> None:
    """Neither start fails because the other was faster, and nothing is left of either."""
    done: list[str] = []

    def other(*_: object) -> None:
        if not done:
            done.append("other")
            making = next(path for path in volume.iterdir() if path.name.endswith(".new"))
            making.rename(volume / "b")
            (volume / "b" / "theirs").touch()

    real, name = os.mkdir, "edged.volumes.sub_path.give_to_pods"

    def make(*arguments: Any, **named: Any) -> None:
        real(*arguments, **named)
        other()

    with patch("os.mkdir", make) if moment == "made" else patch(name, other):
        assert resolve_sub_path(volume, "b") == volume / "b"
    assert {path.name for path in volume.rglob("*")} == {"a", "file", "b", "theirs"}
    assert done
