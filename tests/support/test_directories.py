"""Directories of the tests: their modes, and which of earlier runs are kept."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.directories import new_directory, run_directory


def test_a_directory_has_the_mode_that_was_asked_for() -> None:
    before = os.umask(0o077)
    try:
        directory = new_directory("remains-", mode=0o755)
    finally:
        os.umask(before)
    assert directory.stat().st_mode & 0o7777 == 0o755
    directory.rmdir()


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
