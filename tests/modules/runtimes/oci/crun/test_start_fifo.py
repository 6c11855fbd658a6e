"""Containers are started by crun's FIFO; a fifo of this test stands for crun's, its reader for the first process."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from modules.runtimes.oci.crun.runtime_command import settle_start, start_waiting


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[int]:
    """The reading end of the first process's FIFO."""
    os.mkfifo(tmp_path / "exec.fifo")
    reader = os.open(tmp_path / "exec.fifo", os.O_RDONLY | os.O_NONBLOCK)
    yield reader
    with suppress(OSError):  # closed by the test
        os.close(reader)


def test_the_first_process_gets_its_byte(waiting: int, tmp_path: Path) -> None:
    """One byte; then the FIFO is gone, which tells crun that the container runs."""
    assert start_waiting(tmp_path)
    assert os.read(waiting, 10) == b"\0"
    assert list(tmp_path.iterdir()) == []
    assert not start_waiting(tmp_path)


def test_nobody_waits(waiting: int, tmp_path: Path) -> None:
    """The FIFO of runc, or of a process that has ended, stays for the OCI runtime to deal with."""
    os.close(waiting)
    assert not start_waiting(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["exec.fifo"]


def test_an_edgecore_killed_before_the_byte(waiting: int, tmp_path: Path) -> None:
    """The first process still waits; it gets nothing now, and the FIFO stays for the removal of the container."""
    (tmp_path / "exec.fifo").rename(tmp_path / "exec.fifo.begun")
    assert settle_start(tmp_path)
    assert os.read(waiting, 10) == b""
    assert settle_start(tmp_path)


@pytest.mark.parametrize("is_read", [False, True], ids=["not read yet", "read"])
def test_an_edgecore_killed_after_the_byte(waiting: int, tmp_path: Path, is_read: bool) -> None:
    """The first process runs, or is about to."""
    (tmp_path / "exec.fifo").rename(tmp_path / "exec.fifo.begun")
    writer = os.open(tmp_path / "exec.fifo.begun", os.O_WRONLY)
    os.write(writer, b"\0")
    os.close(writer)
    if is_read:
        os.close(waiting)
    assert not settle_start(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not settle_start(tmp_path)
    if not is_read:
        assert os.read(waiting, 10) == b"\0"
