"""What is mounted at a directory, and which process has a number."""

import os
from pathlib import Path

import pytest

from beehive.files.descriptors import OwnedFd, is_mounted, is_readable, open_process
from tests.support.threads import numbered_thread


def test_another_file_system_is_a_mount(tmp_path: Path) -> None:
    """A directory within its own is none, nor is a missing one."""
    (tmp_path / "inside").mkdir()
    found = [is_mounted(path) for path in (Path("/proc"), tmp_path / "inside", tmp_path / "missing" / "too")]
    assert found == [True, False, False]


def test_the_number_of_a_thread_is_no_process() -> None:
    """As one that nobody has, and 0; but the number of a process is."""
    with numbered_thread() as number:
        for other in (number, 0, 2**22 + 1):
            with pytest.raises(ProcessLookupError):
                open_process(other)
    with OwnedFd(open_process(os.getpid())) as process:
        assert not is_readable(process, 0)
