"""The OCI runtime's program on a read-only mount."""

import errno
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from modules.runtimes.oci.crun.read_only_program import ReadOnlyProgram
from modules.runtimes.shim import kernel

_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program that says that it is the first."""
    return _write(tmp_path / "crun", "first")


@pytest.fixture
def mounted(program: Path, tmp_path: Path) -> Iterator[ReadOnlyProgram]:
    """Its mount in a state directory of its own, which is undone."""
    (tmp_path / "state").mkdir()
    made = ReadOnlyProgram(program, tmp_path / "state")
    yield made
    made.remove()


def _write(path: Path, said: str) -> Path:
    """Replace a program as packages do: by another file."""
    following = path.with_name("new")
    following.write_text(f"#!/bin/sh\necho {said}\n")
    following.chmod(0o755)
    return following.rename(path)


def _says(path: Path) -> str:
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout.strip()


@_root
def test_nobody_can_write_to_it(mounted: ReadOnlyProgram, program: Path) -> None:
    """The same file is executed from a mount that even root cannot write to."""
    path = mounted.path()
    assert path != program
    assert _says(path) == "first"
    with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
        os.open(path, os.O_WRONLY)


@_root
def test_an_update_of_the_package(mounted: ReadOnlyProgram, program: Path) -> None:
    """A program that was replaced is executed from the next command on, and is as safe."""
    mounted.path()
    _write(program, "second")
    assert _says(mounted.path()) == "second"
    assert os.statvfs(mounted.path()).f_flag & os.ST_RDONLY


@_root
def test_the_next_edgecore_takes_it_over(mounted: ReadOnlyProgram, program: Path, tmp_path: Path) -> None:
    """It mounts nothing again, and removes its predecessor's unneeded mounts."""
    old = mounted.path()
    _write(program, "second")
    path = mounted.path()
    following = ReadOnlyProgram(program, tmp_path / "state")
    following.remove(but_current=True)
    assert following.path() == path
    assert Path("/proc/self/mountinfo").read_text().count(f" {path} ") == 1
    assert not old.exists()
    following.remove()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    shutil.rmtree(tmp_path / "state")


@_root
def test_an_edgecore_that_was_killed_half_way(
    mounted: ReadOnlyProgram, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that is not read-only yet is made again."""
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(kernel, "mount_flags", _die)
        mounted.path()
    path = ReadOnlyProgram(program, tmp_path / "state").path()
    assert os.statvfs(path).f_flag & os.ST_RDONLY
    assert Path("/proc/self/mountinfo").read_text().count(f" {path} ") == 1


def _die(_: str) -> NoReturn:
    raise KeyboardInterrupt


def test_a_machine_that_refuses_the_mount(
    mounted: ReadOnlyProgram, program: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine's own file is executed, and the log says it once."""

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(kernel, "mount", refuse)
    assert [mounted.path() for _ in range(2)] == [program, program]
    assert caplog.text.count("cannot be mounted read-only") == 1
    assert list((program.parent / "state").rglob("crun*")) == []
