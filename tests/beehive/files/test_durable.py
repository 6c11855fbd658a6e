"""A file is the old one or the new one, on the disk too."""

import os
from pathlib import Path

import pytest

from beehive.files.durable import (
    beside,
    make_directories,
    make_durable,
    overwrite_soon,
    replace_file,
    replace_soon,
    write_soon,
)


def test_content_is_flushed_before_the_rename_and_the_directory_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a file system could put the new name on the disk before the content."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def flushed(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        steps.append(f"fsync {name}")
        fsync(descriptor)

    def renamed(source: Path, target: Path) -> Path:
        steps.append(f"rename {source.name} {target.name}")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "replace", renamed)
    replace_file(tmp_path / "file", b"new")
    assert steps == ["fsync .file.new", "rename .file.new file", f"fsync {tmp_path.name}"]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_new_file_is_not_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else makes its content durable."""
    monkeypatch.setattr(os, "fsync", None)
    write_soon(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_flushed_later_is_whole_for_everybody_before(tmp_path: Path) -> None:
    replace_file(tmp_path / "file", b"old")
    replace_soon(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    make_durable(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("size", "is_same"), [(4096, True), (4097, False)])
def test_a_small_file_keeps_its_inode(tmp_path: Path, size: int, *, is_same: bool) -> None:
    path = tmp_path / "file"
    replace_file(path, b"former")
    before = path.stat().st_ino
    overwrite_soon(path, b"new")
    assert path.read_bytes() == b"new   "
    overwrite_soon(path, b"x" * size)
    assert path.read_bytes() == b"x" * size
    assert (path.stat().st_ino == before) is is_same


def test_a_link_is_not_overwritten(tmp_path: Path) -> None:
    replace_file(tmp_path / "other", b"other")
    (tmp_path / "file").symlink_to("other")
    with pytest.raises(OSError, match="symbolic links"):
        overwrite_soon(tmp_path / "file", b"new")
    assert (tmp_path / "other").read_bytes() == b"other"


def test_a_file_that_the_kernel_writes_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    replace_file(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_the_umask_does_not_change_the_mode(tmp_path: Path, mode: int) -> None:
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "file", b"", mode)
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == mode


def test_a_temporary_file_left_by_a_crash_is_replaced(tmp_path: Path) -> None:
    """Even if it is a link to another user's file."""
    (tmp_path / "precious").write_text("kept")
    beside(tmp_path / "file").symlink_to(tmp_path / "precious")
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "precious").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "precious"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt("No space")])
def test_a_full_disk_keeps_the_earlier_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """So does an end of the process in the middle."""
    replace_file(tmp_path / "file", b"old")

    def full(_descriptor: int) -> None:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(type(error), match="No space"):
            replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_directories_of_any_depth_are_made(memory_path: Path) -> None:
    """`mkdir(parents=True)` ends with RecursionError where the path is still short enough for the kernel."""
    deep = memory_path.joinpath(*["d"] * 1500)
    make_directories(deep)
    make_directories(deep)
    assert deep.is_dir()
    (memory_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_directories(memory_path / "file" / "below")
