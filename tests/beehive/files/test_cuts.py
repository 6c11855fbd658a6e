"""A kill or a power cut at each step of what the rules for files write."""

from pathlib import Path

import pytest

from beehive.files.damaged import KEPT, all_set_aside, set_aside
from beehive.files.durable import make_durable, overwrite_soon, replace_file, replace_soon
from beehive.files.reserve import Reserve
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut


def test_a_file_is_the_old_or_the_new_one_and_nobody_else_s(tmp_path: Path) -> None:
    """What an earlier attempt has left is no obstacle."""
    path = tmp_path / "file"
    replace_file(path, b"secret 0")

    def life(promise: Promise) -> None:
        replace_file(path, b"secret 1")
        promise(b"secret 1")

    def check(cut: Cut) -> None:
        assert path.read_bytes() in (cut.promised or (b"secret 0", b"secret 1"))
        replace_file(path, b"secret 2")
        assert [each.name for each in tmp_path.iterdir()] == ["file"]

    assert after_each_cut(tmp_path, life, check, secrets=(b"secret",)) > 8


def test_a_file_that_is_durable_later_is_whole_from_then_on(tmp_path: Path) -> None:
    """A kill before leaves the old or the new one, too; a power cut may empty it."""
    path = tmp_path / "file"
    replace_file(path, b"old")

    def life(promise: Promise) -> None:
        replace_soon(path, b"new")
        make_durable(path)
        promise(b"new")

    def check(cut: Cut) -> None:
        if cut.promised:
            assert path.read_bytes() == b"new"
        elif cut.loss is Loss.NOTHING:
            assert path.read_bytes() in (b"old", b"new")

    assert after_each_cut(tmp_path, life, check) > 8


@pytest.mark.parametrize("new", [b"new", b"x" * 4096, b"x" * 4097], ids=["shorter", "a page", "more than a page"])
def test_a_text_that_is_overwritten_is_the_old_or_the_new_one(tmp_path: Path, new: bytes) -> None:
    """A power cut before it is durable may mix them."""
    path = tmp_path / "file"
    replace_file(path, b"former text")

    def life(promise: Promise) -> None:
        overwrite_soon(path, new)
        make_durable(path)
        promise(new)

    def check(cut: Cut) -> None:
        if cut.promised or cut.loss is Loss.NOTHING:
            assert path.read_bytes().rstrip() in ((new,) if cut.promised else (b"former text", new))

    assert after_each_cut(tmp_path, life, check) > 5


def test_a_damaged_file_is_in_its_place_or_set_aside(tmp_path: Path) -> None:
    """The newest of them stay."""
    for number in range(KEPT):
        (tmp_path / "file").write_bytes(b"%d" % number)
        set_aside(tmp_path / "file", tmp_path, "of this test")
    (tmp_path / "file").write_bytes(b"newest")

    def life(promise: Promise) -> None:
        promise(set_aside(tmp_path / "file", tmp_path, "of this test"))

    def check(cut: Cut) -> None:
        aside = [path.read_bytes() for path in all_set_aside(tmp_path)]
        assert b"newest" in aside or (tmp_path / "file").exists()
        assert not cut.promised or b"newest" in aside
        assert KEPT <= len(aside) <= KEPT + 1

    assert after_each_cut(tmp_path, life, check) > 4


def test_a_reserve_that_is_not_whole_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "db-reserve"

    def fill() -> None:
        Reserve(tmp_path / "db", 64 * 1024).fill()

    def check(_: Cut) -> None:
        fill()
        assert path.stat().st_size == 64 * 1024

    assert after_each_cut(tmp_path, lambda _: fill(), check) > 4
