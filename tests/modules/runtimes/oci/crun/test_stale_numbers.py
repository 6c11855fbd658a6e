"""Files name processes that have ended: their numbers may be others' by now, or of an earlier attempt."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from modules.processes.edgecore.upgrade.updater.processes import end_process
from modules.runtimes.docker import commands as docker_commands
from modules.runtimes.engine.records import Exit
from modules.runtimes.oci.crun.commands import kill_commands
from modules.runtimes.oci.crun.conmon import BUNDLE, PERSIST, Conmon, conmon_pid, find_conmon, search_conmon
from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand
from modules.runtimes.oci.first_process import FirstProcess
from modules.runtimes.oci.members import kill_processes
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.orphans import Orphan, await_orphans
from modules.runtimes.oci.processes import ContainerProcesses
from modules.runtimes.process import shim_manager
from tests.support.threads import numbered_thread

_ID = "c" * 64
_PROGRAM = "echo started; read line"


@pytest.fixture
def container(tmp_path: Path) -> Path:
    """The directory of a container."""
    directory = tmp_path / _ID
    for name in (BUNDLE, PERSIST, "commands/1"):
        (directory / name).mkdir(parents=True)
    return directory


@contextmanager
def _started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, and wait until it runs: before, its command line is empty. It ends with the context."""
    argv = ["/bin/sh", "-c", _PROGRAM, *arguments]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        yield process


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the machine, which ends with the test."""
    with _started() as process:
        yield process


def test_a_stranger_is_no_conmon(container: Path, stranger: subprocess.Popen[bytes]) -> None:
    """It would be killed in its place."""
    (container / BUNDLE / "conmon.pid").write_text(str(stranger.pid))
    assert find_conmon(container) is None
    assert search_conmon(container) is None
    with _started(str(container / BUNDLE)) as conmon:
        (container / BUNDLE / "conmon.pid").write_text(str(conmon.pid))
        for found in (find_conmon(container), search_conmon(container)):
            assert found is not None
            os.close(found)


def test_a_stranger_is_no_command_of_a_container(container: Path, stranger: subprocess.Popen[bytes]) -> None:
    """Only its files go, also those of earlier versions of edgecore, which had a directory for each command."""
    for name in ("1/pid", "2.pid", "2.json"):
        (container / "commands" / name).write_text(str(stranger.pid))
    kill_commands(container, _ID)
    assert list((container / "commands").iterdir()) == []
    assert stranger.poll() is None


def test_a_stranger_is_no_first_process(stranger: subprocess.Popen[bytes]) -> None:
    """Nor is a process that has ended."""
    assert FirstProcess.of(stranger.pid, _ID, 1) is None
    stranger.communicate()
    assert FirstProcess.of(stranger.pid, _ID, 1) is None


def test_a_thread_that_has_the_number_now_is_no_process_of_a_container(container: Path) -> None:
    """Else the container could not be removed before the thread has ended (pidfd_open(2): ENOENT)."""
    with numbered_thread() as number:
        for name in ("conmon.pid", "init.pid"):
            (container / BUNDLE / name).write_text(str(number))
        (container / "commands/2.pid").write_text(str(number))
        assert find_conmon(container) is None
        assert FirstProcess.of(number, _ID, 1) is None
        kill_commands(container, _ID)
        runtime, bundles = Mock(), Mock()
        processes = ContainerProcesses.__new__(ContainerProcesses)
        processes._runtime, processes._bundles = runtime, bundles
        processes.remove(cast("OciContainer", SimpleNamespace(id=_ID, directory=container)))
    runtime.delete.assert_called_once_with(_ID)
    bundles.forget.assert_called_once()


def test_a_thread_is_no_program_that_is_waited_for() -> None:
    """Of an edgecore that was killed, nor is it a member of a container, or a command in one of Docker's."""
    with numbered_thread() as number:
        await_orphans([Orphan(number, ())], 0.0)
        kill_processes(lambda: [number], lambda _: True)
        docker_commands._kill(number, _ID)
        shim_manager._kill_if_marked(number, b"HOME=x")
        end_process(number)


def test_without_control_groups_the_first_process_is_known_by_its_parent(stranger: subprocess.Popen[bytes]) -> None:
    """conmon's child is no other's."""
    found = FirstProcess.of(stranger.pid, _ID, os.getpid())
    assert found is not None
    found.close()
    assert FirstProcess.of(stranger.pid, _ID, None) is None


def _conmon(tmp_path: Path, script: str) -> Conmon:
    program = tmp_path / "conmon"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    launcher = Launcher(hides_unified=False)
    return Conmon(launcher, program, RuntimeCommand(launcher, Path("/bin/crun"), tmp_path))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo '{\"data\": 5}' > /proc/self/fd/$_OCI_SYNCPIPE", "has not written its process id"),
        ('echo \'{"data": -1, "message": "no such \\u0007file"}\' > /proc/self/fd/$_OCI_SYNCPIPE', "no such  file"),
        ("echo '{\"data\": -1}' > /proc/self/fd/$_OCI_SYNCPIPE", "did not say why"),
        ("echo '{\"data\": 0}' > /proc/self/fd/$_OCI_SYNCPIPE", "did not say why"),
        ("echo [5] > /proc/self/fd/$_OCI_SYNCPIPE", "without an answer"),
        ("exit 3", "without an answer"),
    ],
)
def test_a_conmon_that_fails_is_none_of_an_earlier_attempt(
    container: Path, tmp_path: Path, script: str, reason: str
) -> None:
    """The numbers of an attempt before say nothing about this one."""
    for name in ("conmon.pid", "init.pid"):
        (container / BUNDLE / name).write_text(str(os.getpid()))
    with pytest.raises(CommandFailedError, match=reason):
        _conmon(tmp_path, script).create(_ID, container, "")
    assert conmon_pid(container) is None


@pytest.mark.parametrize(
    ("code", "oom", "expected"),
    [
        (0, False, "Completed"),
        (0, True, "Completed"),
        (3, True, "Error"),
        (137, False, "Error"),
        (137, True, "OOMKilled"),
    ],
)
def test_how_a_container_has_ended(container: Path, code: int, oom: bool, expected: str) -> None:
    """It ran out of memory if that killed its first process; its end is never before its start."""
    (container / PERSIST / "exit").write_text(str(code))
    if oom:
        (container / PERSIST / "oom").touch()
    started_at = (container / PERSIST / "exit").stat().st_mtime_ns + 1_000_000
    run = SimpleNamespace(started_at=started_at)
    own = SimpleNamespace(directory=container, has_own_processes=True, run=run, first_process=None)
    ended = ContainerProcesses._end_of(cast("Any", None), cast("OciContainer", own))
    assert ended == Exit(code, started_at, expected, "")
