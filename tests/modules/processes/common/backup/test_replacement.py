"""Restored files are put in place all together, or not at all."""

import errno
import os
import stat
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from modules.processes.common.backup import archive
from modules.processes.common.backup.errors import BackupError
from modules.processes.common.backup.replacement import (
    Replacement,
    check_places,
    replace_all,
    replacing_database,
    suffix_for,
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A directory with new files, and one with present ones."""
    new, place = tmp_path / "new", tmp_path / "place"
    new.mkdir()
    place.mkdir()
    for name in ("a", "b", "c"):
        (new / name).write_text(f"new {name}")
    for name in ("a", "b", "a-wal"):
        (place / name).write_text(f"old {name}")
    return new, place


def content(directory: Path) -> dict[str, str]:
    """Return the files of a directory."""
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file()}


def test_all_are_replaced(files: tuple[Path, Path]) -> None:
    """The former ones are kept; what belongs to a former database goes with it; directories are made, and modes do not
    depend on the umask.
    """
    new, place = files
    wanted = [
        *replacing_database(new / "a", place / "a"),
        Replacement(new / "b", place / "b", 0o644, hidden=True),
        Replacement(new / "c", place / "below" / "c"),
    ]
    umask = os.umask(0o077)
    try:
        kept = replace_all(wanted, ".was")
    finally:
        os.umask(umask)
    assert content(place) == {
        "a": "new a", "a.was": "old a", "a-wal.was": "old a-wal", "b": "new b", ".b.was": "old b",
    }  # fmt: skip
    assert content(place / "below") == {"c": "new c"}
    assert kept == [place / "a.was", place / "a-wal.was", place / ".b.was"]
    assert ((place / "a").stat().st_mode & 0o777, (place / "b").stat().st_mode & 0o777) == (0o600, 0o644)


def test_restores_of_one_millisecond_keep_all_former_files(files: tuple[Path, Path]) -> None:
    """The files of one restore have one suffix, also where the second one replaces fewer of them."""
    new, place = files
    wanted = [Replacement(new / "a", place / "a"), Replacement(new / "b", place / "b", hidden=True)]
    kept = []
    for number, several in enumerate([wanted, wanted[1:], wanted]):
        (place / "b").write_text(str(number))
        kept += replace_all(several, suffix_for(several, 1_800_000_000.0625))
    assert [path.name.partition(".before-restore-20270115T080000.")[::2] for path in kept] == [
        ("a", "062Z"), (".b", "062Z"), (".b", "063Z"), ("a", "064Z"), (".b", "064Z"),
    ]  # fmt: skip
    assert [path.read_text() for path in kept if path.name[0] == "."] == ["0", "1", "2"]


def test_a_place_may_lie_deeper_than_pythons_stack(memory_path: Path) -> None:
    """The configuration in a backup names it."""
    new, deep = memory_path / "c", memory_path / "x" / ("a/" * 1500)
    new.write_text("new c")
    replace_all([Replacement(new, deep / "c")], ".was")
    assert (deep / "c").read_text() == "new c"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
@pytest.mark.parametrize("failing", ["a", "b", "a.was", "b.was", "c"])
def test_after_an_error_all_is_as_before(
    failing: str, error: BaseException, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At whichever file it comes."""
    new, place = files
    before = content(place)
    replace = Path.replace
    failed: list[Path] = []

    def replaced(self: Path, target: Path) -> Path:
        if target.name == failing and not failed:
            failed.append(target)
            raise error
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", replaced)
    wanted = [Replacement(new / name, place / name) for name in ("a", "b", "c")]
    with pytest.raises((BackupError, KeyboardInterrupt)):
        replace_all([*wanted, Replacement(None, place / "a-wal")], ".was")
    assert failed
    assert content(place) == before


@pytest.mark.parametrize("at", range(1, 7))
def test_after_an_error_of_a_directory_all_is_as_before(
    at: int, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name was changed already, and the disk does not say that it is durable."""
    new, place = files
    before = content(place)
    flushed, flush = [], os.fsync

    def failing(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            flushed.append(descriptor)
            if len(flushed) == at:
                raise OSError(errno.EIO, "broken")
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", failing)
    wanted = [Replacement(new / name, place / name) for name in ("a", "b", "c")]
    with pytest.raises(BackupError, match="nothing was changed"):
        replace_all([*wanted, Replacement(None, place / "a-wal")], ".was")
    assert content(place) == before


def test_room_is_needed_for_the_files_of_a_disk_together_and_some_more(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    new, place = files
    wanted = [Replacement(new / name, place / name) for name in ("a", "b", "c")]
    for missing in (0, 1):
        free = sum((new / name).stat().st_size for name in ("a", "b", "c")) + archive._SPARE - missing
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        with pytest.raises(BackupError, match="no room") if missing else nullcontext():
            check_places(wanted)


def test_a_file_that_is_missing_changes_nothing(files: tuple[Path, Path]) -> None:
    """It is noticed before the first one is moved."""
    new, place = files
    before = content(place)
    with pytest.raises(BackupError):
        replace_all([Replacement(new / "a", place / "a"), Replacement(new / "x", place / "b")], ".was")
    assert content(place) == before
