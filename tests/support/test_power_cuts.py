"""The double of the disk finds what a power cut spoils."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from beehive.files.durable import make_durable, put_in_place, replace_file, sync_directory, write_file
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut

OLD, NEW = b"old content", b"new content"


def without_flush(path: Path) -> None:
    """Rename what was not flushed."""
    new = path.with_name("new")
    new.write_bytes(NEW)
    put_in_place(new, path)


def flushed_late(path: Path) -> None:
    """Flush what has its name."""
    new = path.with_name("new")
    new.write_bytes(NEW)
    new.replace(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    sync_directory(path.parent)


def without_name(path: Path) -> None:
    """Do not flush the directory."""
    new = path.with_name("new")
    write_file(new, NEW)
    new.replace(path)


def in_place(path: Path) -> None:
    """Write over the content."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
    os.write(descriptor, NEW)
    os.fsync(descriptor)
    os.close(descriptor)


def mode_last(path: Path) -> None:
    """Set the mode of what has its content."""
    new = path.with_name("new")
    new.write_bytes(NEW)
    new.chmod(0o600)
    make_durable(new)
    put_in_place(new, path)


def replaced(tmp_path: Path, write: Callable[[Path], object]) -> int:
    """Replace a file, and demand the old content or the new one, and no other mode."""
    path = tmp_path / "file"
    path.write_bytes(OLD)

    def life(promise: Promise) -> None:
        write(path)
        promise(NEW)

    def check(cut: Cut) -> None:
        assert path.read_bytes() in ((NEW,) if cut.promised else (OLD, NEW))

    return after_each_cut(tmp_path, life, check, secrets=(NEW,))


def test_a_durable_replacement_passes(tmp_path: Path) -> None:
    assert replaced(tmp_path, lambda path: replace_file(path, NEW)) > 8
    assert sorted(os.listdir(tmp_path)) == ["file"]  # noqa: PTH208 - names alone


@pytest.mark.parametrize("write", [without_flush, flushed_late, without_name, in_place, mode_last])
def test_each_fault_is_found(tmp_path: Path, write: Callable[[Path], object]) -> None:
    with pytest.raises(AssertionError):
        replaced(tmp_path, write)


def test_a_removal_that_is_not_flushed_is_undone_by_a_power_cut(tmp_path: Path) -> None:
    path, seen = tmp_path / "file", dict[Loss, list[bool]]()
    path.write_bytes(OLD)
    after_each_cut(tmp_path, lambda _: path.unlink(), lambda cut: seen.setdefault(cut.loss, []).append(path.exists()))
    assert seen == {loss: [True] if loss is Loss.NAMES else [True, False] for loss in Loss}


def test_a_flushed_directory_is_found_where_it_is(tmp_path: Path) -> None:
    """With the links in it; what is beside it is not flushed."""
    directory = tmp_path / "a" / "b"

    def life(promise: Promise) -> None:
        directory.mkdir(parents=True)
        (tmp_path / "a" / "other").mkdir()
        (directory / "link").symlink_to("file")
        sync_directory(directory)
        promise("link")

    def check(cut: Cut) -> None:
        if cut.promised:
            assert str((directory / "link").readlink()) == "file"
            assert cut.loss is not Loss.NAMES or not (tmp_path / "a" / "other").exists()

    assert after_each_cut(tmp_path, life, check) > 4
