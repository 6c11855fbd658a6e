"""Programs that go on after the edgecore that started them: they are found, waited for, and killed if they stay."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.files.descriptors import is_readable
from modules.runtimes.oci import orphans
from modules.runtimes.oci.orphans import Orphan, await_orphans, commands_with, processes_with
from tests.support.descriptors import open_descriptors

_WAIT = "echo started; read line; exit 0"


class Programs:
    """Starts programs, which end when the test does."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(self, *arguments: str, name: str = "crun", **variables: str) -> "subprocess.Popen[bytes]":
        """A program that waits for the end of its input; returns when it runs: before, its command line is empty."""
        process = subprocess.Popen(
            [name, "-c", _WAIT, *arguments],
            executable="/bin/sh",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.defpath, **variables},
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        return process


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Programs of one test."""
    with ExitStack() as stack:
        yield Programs(stack)


def test_commands_of_one_runtime_and_container(programs: Programs, tmp_path: Path) -> None:
    """By the option for the directory of states; a conmon, which has it too, and strangers do not count."""
    root = f"--root={tmp_path}"
    create = programs.start(root, "create", "one")
    delete = programs.start(root, "delete", "two")
    programs.start(f"--runtime-arg={root}", "-c", "one", name="conmon")
    programs.start(f"{root}x", "create", "one")
    assert {each.pid for each in commands_with(root)} == {create.pid, delete.pid}
    assert {each.pid for each in commands_with(root, "one")} == {create.pid}


def test_an_end_is_waited_for(programs: Programs, tmp_path: Path) -> None:
    """It comes by itself; the wait takes no longer. What takes too long is killed."""
    root = f"--root={tmp_path}"
    process = programs.start(root, "create", "one")
    orphans = commands_with(root)
    assert process.stdin is not None
    process.stdin.close()
    await_orphans(orphans)
    assert process.wait() == 0
    stays, before = programs.start(root, "create", "one"), open_descriptors()
    await_orphans(commands_with(root), seconds=0.05)
    assert stays.wait() == -signal.SIGKILL
    assert open_descriptors() <= before


@pytest.mark.parametrize("operation", ["exec", "create"])
def test_a_new_process_is_waited_for_until_its_number_is_known(
    programs: Programs, tmp_path: Path, operation: str
) -> None:
    """It may run for ever, or wait for the start of its container, under the command line of crun."""
    process = programs.start(f"--root={tmp_path}", operation, "--pid-file", str(tmp_path / "pid"), "one")
    (orphan,) = commands_with(f"--root={tmp_path}")
    (tmp_path / "pid").touch()  # as it is between its making and its writing
    await_orphans([orphan], seconds=0.05)
    assert process.wait() == -signal.SIGKILL, "its number was never written"
    process = programs.start(f"--root={tmp_path}", operation, "--pid-file", str(tmp_path / "pid"), "one")
    (tmp_path / "pid").write_text("1")
    await_orphans(commands_with(f"--root={tmp_path}"))
    assert process.poll() is None


def test_another_process_with_the_number_is_left_alone(programs: Programs, tmp_path: Path) -> None:
    """Its command line tells."""
    process = programs.start(f"--root={tmp_path}", "create", "one")
    await_orphans([Orphan(process.pid, (b"crun", b"other"))], seconds=0.05)
    assert process.poll() is None


def test_processes_are_found_by_their_variables(programs: Programs, tmp_path: Path) -> None:
    """By the beginning of the value."""
    plugin = programs.start(CNI_NETNS=f"{tmp_path}/a/net")
    programs.start(CNI_NETNS=f"{tmp_path}x/a/net")
    programs.start(OTHER=f"{tmp_path}/a/net")
    assert [orphan.pid for orphan in processes_with("CNI_NETNS", f"{tmp_path}/")] == [plugin.pid]


def test_a_killed_program_has_ended_when_the_wait_is_over(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[int]()

    def wait(descriptor: int, milliseconds: int) -> bool:
        waits.append(milliseconds)
        return is_readable(descriptor, milliseconds)

    monkeypatch.setattr(orphans, "is_readable", wait)
    create = programs.start(f"--root={tmp_path}", "create", "one")
    await_orphans(commands_with(f"--root={tmp_path}"), 0.0)
    assert (create.poll(), waits) == (-signal.SIGKILL, [0, orphans._KILLED_MILLISECONDS])
