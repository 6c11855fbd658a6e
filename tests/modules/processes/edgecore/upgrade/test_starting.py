"""The right to start a node: whoever has it is known, is ended before anything is put back, and is waited for."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from modules.processes.edgecore import ownership
from modules.processes.edgecore.location import NodeLocation, changing
from modules.processes.edgecore.ownership import LOCK_FILE, lock_root_directory
from modules.processes.edgecore.starting import NodeStartError, hold_start
from modules.processes.edgecore.upgrade.programs import write_programs
from modules.processes.edgecore.upgrade.updater import locks as start_locks
from modules.processes.edgecore.upgrade.updater import starting as starts
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from modules.processes.edgecore.upgrade.updater.locks import StartError, StartLock, owner_of
from modules.processes.edgecore.upgrade.updater.node_control import LocalNodeControl
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.modules.processes.edgecore.upgrade.test_updater_process import write_program

OLD, NEW = "1.0.0", "2.0.0"
_STARTING: Final = """\
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, {repository!r})
from modules.processes.edgecore.upgrade.updater.locks import StartError, StartLock, owner_of
lock = StartLock(Path(sys.argv[1]))
print(lock.acquire(), flush=True)
lock.pass_on()
os.execv(sys.executable, [sys.executable, "-c", {then!r}, sys.argv[1]])
"""
_WAIT: Final = "input()"
_CHILD: Final = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'input()'], close_fds=False, stdout=subprocess.DEVNULL)\n"
    "print(child.pid, flush=True); input()"
)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """An installation of two versions that print their name and end; the newer one is current, and on probation."""
    made = Installation(tmp_path / "i")
    for version in (OLD, NEW):
        write_program(made.versions / version / "bin" / "edgecore", f"import sys; print('{version}', *sys.argv[1:])")
    made.state.mkdir()
    write_programs(made)
    made.activate(NEW)
    return made


@pytest.fixture
def starting(installation: Installation) -> Iterator[Callable[[str], "subprocess.Popen[str]"]]:
    """Starts processes that have the right to start, and go on with a program that reads a line."""
    with ExitStack() as stack:

        def start(then: str = _WAIT) -> subprocess.Popen[str]:
            code = _STARTING.format(repository=str(REPOSITORY), then=then)
            process = subprocess.Popen(
                [sys.executable, "-c", code, installation.starting],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "0\n", "it is free"
            return process

        yield start


def holder(installation: Installation) -> int:
    """Return who has the right to start, as another process sees it."""
    code = (
        f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from pathlib import Path\n"
        "from modules.processes.edgecore.upgrade.updater.locks import StartLock\n"
        "print(StartLock(Path(sys.argv[1])).holder())"
    )
    said = subprocess.run([sys.executable, "-c", code, installation.starting], capture_output=True, check=True)
    return int(said.stdout)


def control(installation: Installation, tmp_path: Path) -> LocalNodeControl:
    """Return the control of a node whose lock is `lock`."""
    return LocalNodeControl(installation, NodeHandle(str(tmp_path / "lock"), str(tmp_path / "s"), [], []))


def write_journal(installation: Installation, tmp_path: Path, phase: Phase) -> None:
    """Write an upgrade from the earlier version to the newer one."""
    handle = NodeHandle(str(tmp_path / "lock"), str(tmp_path / "s"), [], [])
    before = NodeObservation(OLD, connected=False, unready=[], containers={})
    installation.write(UpgradeJournal(OLD, NEW, handle, before, [], "", 0, 0), phase)


@pytest.mark.extended
def test_it_outlives_an_exec_and_no_child_has_it(
    installation: Installation, starting: Callable[[str], "subprocess.Popen[str]"]
) -> None:
    """The child has the descriptor, as what a runtime spawns may have."""
    process = starting(_CHILD)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    lock = StartLock(installation.starting)
    assert (lock.acquire(), lock.holder()) == (process.pid, process.pid)
    process.kill()
    process.wait()
    files = [path.readlink() for path in Path(f"/proc/{child}/fd").iterdir()]
    assert installation.starting in files
    assert (lock.acquire(), lock.holder()) == (0, 0)
    lock.leave()


@pytest.mark.extended
def test_a_node_that_is_being_started_is_ended_before_anything_is_put_back(
    installation: Installation, starting: Callable[[], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """It has read the link, and would take its lock afterwards."""
    process = starting()
    with control(installation, tmp_path).stopped():
        assert process.poll() is not None
        assert holder(installation) == os.getpid()
    assert holder(installation) == 0


@pytest.mark.extended
def test_a_node_that_keeps_the_right_to_start_is_ended_by_its_lock(
    installation: Installation, starting: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """As versions before 0.4 do."""
    process = starting(
        "import fcntl, os; file = open('" + str(tmp_path / "lock") + "', 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(os.getpid(), file=file, flush=True); print('locked', flush=True); input()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    with control(installation, tmp_path).stopped():
        assert process.poll() is not None


def launching(installation: Installation) -> "subprocess.Popen[str]":
    """Begin a start by the launcher, which has to wait; return it when it does, or has ended."""
    process = subprocess.Popen(
        [installation.launcher, "run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def waits() -> bool:
        files = []
        for path in Path(f"/proc/{process.pid}/fd").glob("*"):
            with suppress(FileNotFoundError):
                files.append(path.readlink())
        return installation.starting in files or process.poll() is not None

    wait_until(waits, "the launcher waits")
    return process


@pytest.mark.extended
def test_nobody_reads_the_link_while_the_node_is_stopped(installation: Installation, tmp_path: Path) -> None:
    with control(installation, tmp_path).stopped():
        process = launching(installation)
        installation.activate(OLD)
    assert process.communicate()[0] == f"{OLD} run\n"


@pytest.mark.extended
def test_a_start_beside_a_node_that_runs_lets_the_upgrade_go_on_and_fails(
    installation: Installation, starting: Callable[[str], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """Where the updater was killed and the node is one of before 0.4, nothing else would see to the upgrade."""
    write_journal(installation, tmp_path, Phase.PROBATION)
    (installation.state / "updater.py").write_text(
        (installation.state / "updater.py").read_text().partition('if __name__ == "__main__":')[0]
        + f"if __name__ == '__main__':\n    from pathlib import Path\n    Path({str(tmp_path / 'updated')!r}).touch()\n"
    )
    process = starting(
        "import fcntl, os; file = open('" + str(tmp_path / "lock") + "', 'w'); fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print(os.getpid(), file=file, flush=True); print('locked', flush=True); input()"
    )
    assert process.stdout is not None
    process.stdout.readline()
    second = subprocess.run([installation.launcher, "run"], capture_output=True, text=True, check=False)
    assert (second.returncode, second.stdout) == (4, "")
    assert f"process {process.pid} runs it" in second.stderr
    wait_until((tmp_path / "updated").exists, "the updater is started")


@pytest.mark.extended
def test_a_start_that_waits_too_long_says_for_whom(
    installation: Installation, starting: Callable[[], "subprocess.Popen[str]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = starting()
    monkeypatch.setattr(start_locks, "_START_SECONDS", -1.0)
    lock = StartLock(installation.starting)
    with pytest.raises(StartError, match=f"process {process.pid} starts or stops it"):
        lock.wait()
    lock.leave()


@pytest.mark.extended
def test_a_program_that_ends_because_another_runs_the_node_is_no_exit_of_the_version(
    installation: Installation, tmp_path: Path
) -> None:
    node = control(installation, tmp_path)
    node.start()
    child = node._child
    assert child is not None
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    with (tmp_path / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write(f"{os.getpid()}\n")
        other.flush()
        assert node.exits() == 0
        assert node.exits() == 0


@pytest.mark.extended
def test_a_node_that_ends_before_it_has_its_lock_has_ended(
    installation: Installation, starting: Callable[[], "subprocess.Popen[str]"], tmp_path: Path
) -> None:
    """And is started again, as one that the updater has started."""
    process = starting()
    node = control(installation, tmp_path)
    assert node.exits() == 0
    process.kill()
    process.wait()
    assert node.exits() == 1
    child = node._child
    assert child is not None
    child.wait()


def test_a_node_starts_while_somebody_looks_whether_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = os.open(tmp_path / LOCK_FILE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    monkeypatch.setattr(os, "sched_yield", lambda: os.close(looking))
    with ExitStack() as stack:
        lock_root_directory(tmp_path, stack)
        assert owner_of(tmp_path / LOCK_FILE) == os.getpid()
        with pytest.raises(ownership.RootDirectoryInUseError):
            lock_root_directory(tmp_path, stack)


@pytest.mark.extended
def test_a_version_that_is_not_current_is_not_run(installation: Installation) -> None:
    """The link may have been put back since its launcher, one of before 0.4, has read it."""
    nowhere = NodeLocation(None, None)
    with ExitStack() as stack:
        hold_start(nowhere, stack, installation.versions / NEW)
        assert holder(installation) == os.getpid()
    assert holder(installation) == 0
    with ExitStack() as stack, pytest.raises(NodeStartError, match=f"run version {OLD}: {NEW} is current"):
        hold_start(nowhere, stack, installation.versions / OLD)


@pytest.mark.extended
def test_a_configuration_is_read_when_nobody_can_put_it_back(tmp_path: Path) -> None:
    file = tmp_path / "edgecore.yaml"
    change = Installation(changing(file))
    change.state.mkdir(parents=True)
    with ExitStack() as stack:
        hold_start(NodeLocation(file, None), stack, tmp_path)
        assert holder(change) == os.getpid()
    assert holder(change) == 0


def test_a_change_goes_on_where_the_file_is_named_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The updater runs in /: with `--root DIR` it was not found there, and the node stayed on probation for ever."""
    monkeypatch.chdir(tmp_path)
    change, resumed = Installation(changing(tmp_path / "edgecore.yaml")), list[Installation]()
    change.state.mkdir(parents=True)
    monkeypatch.setattr(starts, "resume", resumed.append)
    with ExitStack() as stack:
        hold_start(NodeLocation(Path("edgecore.yaml"), None), stack, tmp_path)
    assert [each.state for each in resumed] == [change.state]


def test_a_start_where_this_user_may_not_lock_is_no_worse_than_before(
    installation: Installation, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit with User=, whose upgrades root orders."""

    def refuse(file: Path) -> StartLock:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(start_locks, "StartLock", refuse)
    with ExitStack() as stack:
        hold_start(NodeLocation(None, None), stack, installation.versions / NEW)
    assert "an upgrade may not see this start: [Errno 13]" in capsys.readouterr().err
