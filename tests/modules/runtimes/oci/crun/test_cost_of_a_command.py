"""What a command in a container costs beside the OCI runtime's own work, in files and namespaces.

Directories are dear: on a busy disk one is made and removed in 1 to 3 ms, a file in 0.1.
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from modules.runtimes.oci.crun import launching
from modules.runtimes.oci.crun.commands import Command
from modules.runtimes.oci.crun.conmon import BUNDLE, Conmon
from modules.runtimes.oci.crun.launching import Launcher
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_DISCARDED = (subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL)
_CRUN = """#!/bin/sh
while [ "$1" != --pid-file ]; do shift; done
echo $$ > "$2"
"""


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each program that is started in a mount namespace of its own."""
    seen: list[str] = []

    def begin_hidden(begin: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        seen.append("hidden")
        return begin()

    monkeypatch.setattr(launching, "_without_unified", begin_hidden)
    return seen


def _runtime(launcher: Launcher, directory: Path) -> RuntimeCommand:
    program = directory / "crun"
    program.write_text(_CRUN)
    program.chmod(0o755)
    return RuntimeCommand(launcher, program, directory)


def _command(launcher: Launcher, directory: Path, **process: Any) -> Command:
    return Command(launcher, _runtime(launcher, directory), "c" * 64, directory, {"args": ["true"], **process})


def test_a_command_has_one_file_and_no_directory(tmp_path: Path) -> None:
    """The directory is that of all commands; it stays, and the file goes."""
    above = tmp_path / "commands"
    for _ in range(2):
        with _command(Launcher(hides_unified=False), tmp_path) as command:
            os.close(command.start(_DISCARDED))
            assert command.wait() == 0
            assert command.was_started
            assert sorted(each.suffix for each in above.iterdir() if each.is_file()) == [".pid"]
            assert not [each for each in above.iterdir() if each.is_dir()]
        assert list(above.iterdir()) == []


def test_only_a_creation_hides_control_groups(tmp_path: Path, hidden: list[str]) -> None:
    """crun enters, changes and deletes containers beside control groups v2 with controllers, too."""
    launcher = Launcher(hides_unified=True)
    with _command(launcher, tmp_path) as command:
        os.close(command.start(_DISCARDED))
        command.wait()
    launcher.run(["true"])
    assert hidden == []
    (tmp_path / BUNDLE).mkdir()
    (tmp_path / "conmon").symlink_to("/bin/false")
    with pytest.raises(CommandFailedError):
        Conmon(launcher, tmp_path / "conmon", _runtime(launcher, tmp_path)).create("c" * 64, tmp_path, "")
    assert hidden == ["hidden"]
