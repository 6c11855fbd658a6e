"""Directories of the tests: their modes, and which of earlier runs are kept."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.support import directories
from tests.support.directories import SHORT, new_directory, run_directory, short_directory, temporary_parent


def test_a_directory_has_the_mode_that_was_asked_for() -> None:
    before = os.umask(0o077)
    try:
        directory = new_directory("remains-", mode=0o755)
    finally:
        os.umask(before)
    assert directory.stat().st_mode & 0o7777 == 0o755
    directory.rmdir()


def test_a_run_takes_no_mark_that_an_earlier_one_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would fail for what the earlier one has left."""
    monkeypatch.setenv(directories.VARIABLE, "")
    drawn = iter("q1q2q1q3")
    monkeypatch.setattr("secrets.choice", lambda _: next(drawn))
    left = SHORT / f"left-q1q2{os.getpid()}"
    left.mkdir()
    try:
        directories.begin_run()
    finally:
        left.rmdir()
    assert directories.mark() == "q1q3"


def test_the_directories_of_the_last_runs_are_kept(tmp_path: Path) -> None:
    """Three, and each whose run goes on."""
    going_on, lock = run_directory(tmp_path)
    os.utime(going_on, (0, 0))
    over = []
    for second in range(1, 5):
        directory, descriptor = run_directory(tmp_path)
        os.close(descriptor)
        os.utime(directory, (second, second))
        over.append(directory)
    newest, descriptor = run_directory(tmp_path)
    assert set(tmp_path.iterdir()) == {newest, *over[1:], going_on}
    os.close(descriptor)
    os.close(lock)


@pytest.mark.parametrize("mode", [0o700, 0o711])
def test_root_s_tests_let_processes_of_other_users_into_their_directories(
    mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as PostgreSQL, with a TMPDIR that is the user's own."""
    with short_directory("own-", mode=mode) as own:
        monkeypatch.setattr(tempfile, "tempdir", str(own))
        assert temporary_parent() == (SHORT if mode == 0o700 and os.geteuid() == 0 else own)
