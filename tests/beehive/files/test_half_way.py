"""Files of which a call fails half-way: none stays open, and no new one is left."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest

from beehive.files import durable, reserve, walking
from beehive.files.descriptors import open_directory, open_without_rights
from beehive.files.linkless import open_without_links
from beehive.files.reading import read_file
from beehive.files.removal import remove_tree
from beehive.trace import writer
from tests.support.failing import Failing, PlannedError, fail_at_each_kernel_call
from tests.support.power_cuts import Cut, Promise, after_each_cut

_LEVELS = 12


def _opens_without_rights(directory: Path) -> None:
    closed = directory / "closed"
    closed.mkdir(exist_ok=True)
    within = open_directory(directory)
    try:
        os.close(open_without_rights("closed", within))
    finally:
        os.close(within)


def _removes(directory: Path) -> None:
    (directory / "tree" / "deep" / "deeper").mkdir(parents=True, exist_ok=True)
    (directory / "tree" / "file").touch()
    remove_tree(directory / "tree")


def _walks(directory: Path) -> None:
    """Walk a tree with few open directories: the others are opened again on the way back."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(walking, "_OPEN", 1)
        list(walking.Walk(directory))


def _replaces_soon(directory: Path) -> None:
    durable.replace_soon(directory / "file", b"content")
    durable.make_durable(directory / "file")


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        (lambda directory: durable.replace_file(directory / "file", b"content"), 6),
        (_replaces_soon, 6),
        (lambda directory: durable.write_soon(directory / "one", b"1"), 3),
        (lambda directory: durable.overwrite_soon(directory / "stored", b"text"), 2),
        (_opens_without_rights, 4),
        (lambda directory: os.close(open_without_links(directory / "stored", os.O_RDONLY)), 4),
        (lambda directory: read_file(directory / "stored", 100), 3),
        (lambda directory: writer._open(directory / "trace").close(), 4),
        (_removes, 10),
        (_walks, 2 * _LEVELS),
    ],
    ids=["replace", "replace soon", "write", "overwrite", "no rights", "no links", "read", "trace", "remove", "walk"],
)
def test_files_are_closed_after_a_failure_of_any_call(
    tmp_path: Path, operation: Callable[[Path], object], calls: int
) -> None:
    (tmp_path / "stored").write_bytes(b"content")
    for level in range(_LEVELS if operation is _walks else 0):
        for name in "abcd":
            (tmp_path / "/".join("d" * level) / name).mkdir(exist_ok=True)

    assert fail_at_each_kernel_call(lambda: operation(tmp_path)) >= calls


def test_a_file_is_unchanged_after_a_failure_but_of_the_last_flush(tmp_path: Path) -> None:
    """Who replaces it goes on with what it had before, in memory too."""
    left = []
    for at in range(20):
        (file := tmp_path / f"file{at}").write_bytes(b"old")
        with Failing(at).kernel_calls(), suppress(PlannedError):
            durable.replace_file(file, b"new")
            break
        left.append(file.read_bytes())
    assert left == [*[b"old"] * (len(left) - 1), b"new"]
    assert 5 < len(left) < 20


def test_no_new_file_is_left_after_a_failure(tmp_path: Path) -> None:
    """A later attempt would find it, and a full disk has no room for it."""
    for at in range(1, 4):
        failing = Failing(at)
        with pytest.raises(PlannedError), failing.kernel_calls():
            durable.replace_file(tmp_path / "file", b"content")
        assert not list(tmp_path.iterdir())


def test_a_reserve_that_cannot_be_made_takes_no_room(tmp_path: Path) -> None:
    """Half of one would look whole to nobody, and fill the disk; one that is not there would be given up in vain."""
    for at in range(100):
        failing, made = Failing(at), reserve.Reserve(tmp_path / "database", 4096)
        with failing.kernel_calls():
            made.fill()
        if not failing.has_failed:
            break
        assert made.there == bool(list(tmp_path.iterdir()))
        made.release()
    assert made.there
    assert at > 3


def test_a_reserve_has_its_room_when_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may refuse the room only when the file is flushed."""
    made = reserve.Reserve(tmp_path / "database", 4096)
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    made.fill()
    assert (made.there, list(tmp_path.iterdir())) == (False, [])


def test_a_file_has_its_mode_after_a_power_cut(tmp_path: Path) -> None:
    """The umask has changed the mode with which it was made."""
    file = tmp_path / "file"

    def life(promise: Promise) -> None:
        before = os.umask(0o077)
        durable.replace_file(file, b"new", 0o644)
        os.umask(before)
        promise("new")

    def check(cut: Cut) -> None:
        if cut.promised:
            assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new", 0o644)

    assert after_each_cut(tmp_path, life, check) > 3


def test_a_reserve_is_made_again_after_it_was_given_up(tmp_path: Path) -> None:
    """It counts once; what an earlier process has left half counts for nothing."""
    (file := tmp_path / f"database{reserve.SUFFIX}").write_bytes(b"half")
    made = reserve.Reserve(tmp_path / "database", 4096)
    for _ in range(2):
        made.fill()
        assert (made.there, file.stat().st_size) == (True, 4096)
        assert [made.release(), made.release(), made.there, file.exists()] == [True, False, False, False]
