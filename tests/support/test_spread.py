"""Directories that tests work in are marked for ext4."""

import os
from pathlib import Path

import pytest

from tests.support.spread import is_spread, spread


def test_marked_directory_stays_usable(tmp_path: Path) -> None:
    """Expect the mark where the file system has it, and a directory that still takes directories."""
    marked = tmp_path / "marked"
    marked.mkdir()
    spread(marked)
    (marked / "below").mkdir()
    assert is_spread(marked) is not False or not _is_ext4(marked)
    assert not is_spread(marked / "below")


def test_directory_of_all_tests_is_marked(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Expect pytest's directory marked, where the file system has the mark."""
    base = tmp_path_factory.getbasetemp()
    assert is_spread(base) or not _is_ext4(base)


def _is_ext4(directory: Path) -> bool:
    device = directory.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[2] == wanted and line.split(" - ")[1].startswith("ext4 ") for line in lines)
