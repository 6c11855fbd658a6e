"""The log file of a container."""

import errno
import os
from pathlib import Path

import pytest

from modules.runtimes.shim.log_file import LogFile
from tests.support.descriptors import open_descriptors


def test_a_log_goes_on_in_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The renamed one gets nothing more, also if its end fails, as on a full network file system; if the new one cannot
    be made, the old one goes on. No link is followed.
    """
    path = tmp_path / "log"
    log = LogFile(str(path))
    log.write(b"1\n")
    old = path.rename(tmp_path / "old")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        log.reopen()
    log.write(b"2\n")
    path.unlink()
    before, former, real = len(open_descriptors()), log._descriptor, os.close

    def close(descriptor: int) -> None:
        real(descriptor)
        if descriptor == former:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "close", close)
    log.reopen()
    monkeypatch.undo()
    assert len(open_descriptors()) == before
    assert path.stat().st_mode & 0o777 == 0o640, "others read no log"
    log.write(b"3\n")
    LogFile(str(path)).write(b"4\n")
    assert (old.read_bytes(), path.read_bytes()) == (b"1\n2\n", b"3\n4\n")
    assert not (tmp_path / "elsewhere").exists()


def test_a_container_without_a_log_writes_to_no_file() -> None:
    log = LogFile(os.devnull)
    log.write(b"1\n")
    log.reopen()


class FullDisk:
    """A disk with room for some bytes, which takes a few at a time.

    Args:
        room: bytes.
        monkeypatch: of the test.
    """

    def __init__(self, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write what there is room for, as write(2)."""
        written = min(3, self.room, len(data))
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= written
        return self._write(descriptor, data[:written])


@pytest.mark.parametrize("room", range(18))
def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """The container goes on, and no line is continued by the next one that there is room for."""
    log = LogFile(str(tmp_path / "log"))
    disk = FullDisk(room, monkeypatch)
    log.write(b"first\nmore\nlost\n")
    disk.room = 100
    log.write(b"later\n")
    kept = [b"first\n", b"more\n", b"lost\n"][: (room >= 6) + (room >= 11) + (room >= 16)]
    assert (tmp_path / "log").read_bytes() == b"".join([*kept, b"later\n"])
