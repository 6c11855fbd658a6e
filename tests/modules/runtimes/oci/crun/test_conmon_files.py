"""The files of conmon, read by a process that may open no more."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from modules.runtimes.oci.crun import conmon


@pytest.mark.parametrize("read", [conmon.find_conmon, conmon.ended, conmon.init_pid, conmon.conmon_pid])
def test_without_descriptors_nothing_is_known_of_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
) -> None:
    """Neither that it has ended without an exit code, nor that its conmon is gone."""

    def refuse(path: str, *_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    assert read(tmp_path) is None
    monkeypatch.setattr(conmon, "open", refuse, raising=False)
    with pytest.raises(OSError, match="Too many open files"):
        read(tmp_path)


def test_a_process_whose_command_line_cannot_be_read_leaves_no_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / conmon.BUNDLE).mkdir()
    (tmp_path / conmon.BUNDLE / "conmon.pid").write_text(str(os.getpid()))

    def arguments_of(_pid: int) -> list[bytes]:
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr(conmon, "arguments_of", arguments_of)
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names alone
    with pytest.raises(OSError, match="Too many open files in system"):
        conmon.find_conmon(tmp_path)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208
