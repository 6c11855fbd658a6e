"""Everything in a tree is found, whatever its shape, with little memory and few descriptors."""

import shutil
import tracemalloc
from pathlib import Path

import pytest

from beehive.files import walking
from beehive.files.removal import remove_tree
from beehive.files.walking import Walk
from tests.beehive.files.trees import DEEP, make_deep, no_way_down, open_below
from tests.support.collector import without_collections
from tests.support.descriptors import open_descriptors


def _names(top: Path) -> list[str]:
    walk = Walk(top)
    found = [each.entry.name for each in walk]
    assert walk.whole
    walk.close()
    return sorted(found)


def _tree(top: Path) -> list[str]:
    """A tree with several directories on many levels, and its names."""
    names = []
    at = top
    for level in range(50):
        at.mkdir()
        for beside in range(3):
            (at / f"{level}-{beside}").mkdir()
            (at / f"{level}-{beside}" / f"file {level} {beside}").touch()
            names += [f"{level}-{beside}", f"file {level} {beside}"]
        (at / f"link {level}").symlink_to("..")
        names.append(f"link {level}")
        at = at / f"next {level}"
        names.append(at.name)
    at.touch()
    return sorted(names)


@pytest.mark.parametrize("names", [4 * 1024 * 1024, 0])
def test_all_is_found_once(tmp_path: Path, names: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by a walk that may remember next to no names, and lists directories again for it."""
    monkeypatch.setattr(walking, "_NAMES", names)
    monkeypatch.setattr(walking, "_LEAST_NAMES", 0 if names == 0 else 1024)
    expected = _tree(tmp_path / "top")
    assert _names(tmp_path / "top") == expected
    assert open_below(tmp_path) == 0


def test_a_deep_tree_takes_no_memory_and_few_descriptors(tmp_path: Path) -> None:
    """`os.walk` ends with RecursionError there, and paths are too long from a third of it on."""
    top = make_deep(tmp_path / "top", DEEP, name="n" * 20, files=True)
    tracemalloc.start()
    try:
        with no_way_down():
            assert len(_names(top)) == 2 * DEEP
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()
        remove_tree(top)


def test_a_walk_that_is_closed_early_leaves_no_descriptor_open(tmp_path: Path) -> None:
    _tree(tmp_path / "top")
    walk = Walk(tmp_path / "top")
    for _, _ in zip(walk, range(200), strict=False):
        pass
    assert open_below(tmp_path) > 0
    walk.close()
    assert open_below(tmp_path) == 0


def test_another_file_system_is_not_entered_and_not_kept_open(tmp_path: Path) -> None:
    _tree(tmp_path / "top")
    walk = Walk(tmp_path / "top")
    walk._tree._device = -1
    found = [each.entry.name for each in walk]
    assert sorted(found) == sorted(each.name for each in (tmp_path / "top").iterdir())
    assert open_below(tmp_path) == 0


def test_a_directory_that_was_moved_meanwhile_is_not_walked_at_its_old_place(tmp_path: Path) -> None:
    """A container replaces directories by links, and moves the directory that is being walked."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "secret").touch()
    top = tmp_path / "top"
    _tree(top)
    walk, found, moved = Walk(top), [], False
    for each in walk:
        found.append(each.entry.name)
        if each.entry.name == "next 40" and not moved:
            shutil.move(top / "next 0" / "next 1", tmp_path / "elsewhere")
            (top / "next 0" / "next 1").symlink_to(precious)
            moved = True
    walk.close()
    assert moved
    assert "secret" not in found
    assert not walk.whole


def test_too_many_open_branches_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "_BRANCHES", 20)
    _tree(tmp_path / "top")
    walk = Walk(tmp_path / "top")
    found = [each.entry.name for each in walk]
    assert "next 49" in found
    assert not walk.whole


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Walk(tmp_path / "missing")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(NotADirectoryError):
        Walk(tmp_path / "link")


def test_an_error_within_a_loop_leaves_nothing_open(tmp_path: Path) -> None:
    """Not even until the garbage collector comes: the error is kept, and with it the frame of the loop."""
    (tmp_path / "a" / "b").mkdir(parents=True)

    def stop_at(name: str) -> OSError:
        try:
            for found in Walk(tmp_path):
                if found.entry.name == name:
                    raise PermissionError(name)
        except OSError as error:
            return error
        raise AssertionError(name)

    before = open_descriptors()
    with without_collections():
        errors = [stop_at("a"), stop_at("b")]
        assert open_descriptors() <= before, errors
