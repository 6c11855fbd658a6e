"""The log file of a container."""

import errno
import os
from pathlib import Path

import pytest

from modules.runtimes.shim.log_file import LogFile


def test_a_log_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """The renamed one gets nothing more; if the new one cannot be made, the old one goes on. No link is followed."""
    path = tmp_path / "log"
    log = LogFile(str(path))
    log.write(b"1\n")
    old = path.rename(tmp_path / "old")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        log.reopen()
    log.write(b"2\n")
    path.unlink()
    log.reopen()
    log.write(b"3\n")
    LogFile(str(path)).write(b"4\n")
    assert (old.read_bytes(), path.read_bytes()) == (b"1\n2\n", b"3\n4\n")
    assert not (tmp_path / "elsewhere").exists()


def test_a_container_without_a_log_writes_to_no_file() -> None:
    log = LogFile(os.devnull)
    log.write(b"1\n")
    log.reopen()


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container goes on."""
    log = LogFile(str(tmp_path / "log"))

    def is_full(_descriptor: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", is_full)
    log.write(b"lost\n")
