"""Damaged files are set aside where they are found, without stopping the program."""

from pathlib import Path

import pytest

from beehive.files.damaged import KEPT, all_set_aside, set_aside, set_aside_unless_file


def test_files_and_directories_of_one_name_are_kept_beside_each_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("first", "second"):
        (tmp_path / "f").write_text(text)
        assert set_aside(tmp_path / "f", tmp_path, "it is spoilt")
    (tmp_path / "f").mkdir()
    assert set_aside(tmp_path / "f", tmp_path, "it is a directory")
    kept = all_set_aside(tmp_path)
    assert [path.name for path in kept] == ["f.1", "f.2", "f.3"]
    assert kept[0].read_text() == "first"
    assert "is damaged (it is spoilt)" in caplog.text


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT + 3):
        (tmp_path / str(number)).touch()
        set_aside(tmp_path / str(number), tmp_path, "spoilt")
    assert len(all_set_aside(tmp_path)) == KEPT
    assert all_set_aside(tmp_path)[-1].name == f"{KEPT + 2}.{KEPT + 3}"


def test_the_order_is_that_of_setting_aside_whatever_the_clock_says(tmp_path: Path) -> None:
    """The kernel's time of a change is the same for some milliseconds, and the clock may be set back. Entry 10 follows
    entry 9.
    """
    for name in "zyxwvutsrqp":
        (tmp_path / name).touch()
        set_aside(tmp_path / name, tmp_path, "spoilt")
    expected = [f"{name}.{number}" for number, name in enumerate("zyxwvutsrqp", 1)]
    assert [path.name for path in all_set_aside(tmp_path)] == expected


def test_a_failure_to_set_aside_is_logged_and_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "damaged").write_text("somebody's file")
    (tmp_path / "f").touch()
    assert not set_aside(tmp_path / "f", tmp_path, "spoilt")
    assert not set_aside(tmp_path / "missing", tmp_path, "spoilt")
    assert "cannot be set aside" in caplog.text
    assert all_set_aside(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_a_directory_or_pipe_in_the_place_of_a_file_is_set_aside(tmp_path: Path, links: bool) -> None:
    (tmp_path / "file").touch()
    set_aside_unless_file(tmp_path / "file", tmp_path)
    set_aside_unless_file(tmp_path / "missing", tmp_path)
    assert all_set_aside(tmp_path) == []
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "directory").mkdir()
    for name in ("link", "dangling", "directory"):
        set_aside_unless_file(tmp_path / name, tmp_path, links=links)
    expected = ["dangling", "directory"] if links else ["link", "dangling", "directory"]
    assert [path.stem for path in all_set_aside(tmp_path)] == expected
