"""Files in directories that a container may have got hold of."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.files.linkless import open_without_links

APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT


def _links(place: Path, elsewhere: Path) -> None:
    place.symlink_to(elsewhere)


def _becomes_pipe(place: Path, _: Path) -> None:
    os.mkfifo(place)


def _becomes_device(place: Path, _: Path) -> None:
    place.symlink_to("/dev/null")


@pytest.mark.parametrize("flags", [APPENDING, os.O_RDWR | os.O_CREAT, os.O_RDONLY])
@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("pod", _links),
        ("pod/container", _links),
        ("pod/container/0.log", _links),
        ("pod/container/0.log", _becomes_pipe),
        ("pod/container/0.log", _becomes_device),
    ],
)
def test_nothing_else_than_its_file_is_opened(
    tmp_path: Path, part: str, change: Callable[[Path, Path], None], flags: int
) -> None:
    path = tmp_path / "logs" / "pod" / "container" / "0.log"
    path.parent.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "container").mkdir(parents=True)
    os.close(open_without_links(path, APPENDING))
    place = tmp_path / "logs" / part
    place.rename(tmp_path / "moved")
    change(place, elsewhere)
    with pytest.raises(OSError, match=str(path)):
        open_without_links(path, flags)
    assert not [each for each in elsewhere.rglob("*") if each.is_file()]


def test_directories_above_a_pods_are_the_machines(tmp_path: Path) -> None:
    """/var/log may be a link to another disk."""
    (tmp_path / "disk" / "pod" / "container").mkdir(parents=True)
    (tmp_path / "logs").symlink_to(tmp_path / "disk")
    os.close(open_without_links(tmp_path / "logs" / "pod" / "container" / "0.log", APPENDING, 0o640))
    assert (tmp_path / "disk" / "pod" / "container" / "0.log").stat().st_mode & 0o777 == 0o640


def test_a_short_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.close(open_without_links(Path("log"), APPENDING))
    assert (tmp_path / "log").exists()
