"""What calls to conmon and its containers have left when one fails half-way."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from modules.runtimes.oci.crun import commands, conmon, launching, runtime_command
from modules.runtimes.oci.crun.commands import Command
from modules.runtimes.oci.crun.conmon import BUNDLE, Conmon, reopen_log
from modules.runtimes.oci.crun.container_log import make_log
from modules.runtimes.oci.crun.runtime_command import settle_start, start_waiting
from modules.runtimes.oci.members import _send
from tests.support.failing import Failing, PlannedError, census, fail_at_each_kernel_call


def _fifo(path: Path) -> int:
    """Make a FIFO, or find it, and return a descriptor that reads it."""
    if not path.exists():
        os.mkfifo(path)
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def _asks_for_a_log(directory: Path) -> None:
    reader = _fifo(directory / BUNDLE / "ctl")
    try:
        reopen_log(directory)
    finally:
        os.close(reader)


def _starts(directory: Path) -> None:
    reader = _fifo(directory / runtime_command._WAITING)
    try:
        start_waiting(directory)
    finally:
        os.close(reader)


def _settles(directory: Path) -> None:
    reader = _fifo(directory / runtime_command._BEGUN)
    try:
        settle_start(directory)
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("operation", "calls"),
    [
        (_asks_for_a_log, 3),
        (_starts, 5),
        (_settles, 3),
        (lambda directory: make_log(directory / "pod" / "main" / "0.log"), 4),
    ],
    ids=["reopen", "start", "settle", "log"],
)
def test_files_are_closed_after_a_failure_of_any_call(
    tmp_path: Path, operation: Callable[[Path], object], calls: int
) -> None:
    (tmp_path / BUNDLE).mkdir()

    assert fail_at_each_kernel_call(lambda: operation(tmp_path)) >= calls


def test_files_are_closed_after_any_other_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / runtime_command._BEGUN).touch()
    before = census()
    for operation in (lambda _: settle_start(tmp_path), lambda failing: _send(os.getpid(), 0, failing)):
        failing = Failing(0, RuntimeError("of this test")).call(lambda *_: None)
        monkeypatch.setattr(runtime_command, "_has_unread", failing)
        with pytest.raises(RuntimeError, match="of this test") as caught:
            operation(failing)
        assert not census().more_than(before)
        assert caught.value is not None, "what the error holds is not collected before"


def test_the_descriptor_of_a_commands_process_is_closed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        assert fail_at_each_kernel_call(lambda: _send(other.pid, 0, lambda _: True)) == 2


@pytest.mark.parametrize("is_killable", [True, False])
def test_a_command_whose_session_fails_leaves_no_process_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_killable: bool
) -> None:
    """`cat` stands for crun and its command. Also without descriptors to look at the command's processes."""
    monkeypatch.setattr(commands, "SECONDS", 0.0)
    if not is_killable:
        monkeypatch.setattr(commands, "_kill_command", Failing(0).call(lambda *_: None))
    started: list[subprocess.Popen[bytes]] = []

    def start(argv: list[str], *_: object) -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL))
        Path(argv[argv.index("--pid-file") + 1]).write_text(str(started[0].pid))
        return started[0]

    launcher: Any = SimpleNamespace(expect_move=lambda: None, start=start)
    runtime: Any = SimpleNamespace(argv=lambda *arguments: ["crun", *arguments])
    own_group = Path("/proc/self/cgroup").read_text()
    with pytest.raises(PlannedError), Command(launcher, runtime, own_group, tmp_path, {"args": ["cat"]}) as command:
        os.close(command.start((0, 1, 2)))
        raise PlannedError
    with started[0] as child:
        if child.returncode is None:
            child.kill()
            pytest.fail("it lives, or is not waited for")
    assert child.returncode == -signal.SIGKILL
    assert not list(command.files.iterdir())


def test_a_command_that_cannot_be_started_leaves_no_pipe(tmp_path: Path) -> None:
    before = census()
    launcher: Any = SimpleNamespace(expect_move=lambda: None, start=Failing(0).call(lambda *_: None))
    runtime: Any = SimpleNamespace(argv=lambda *arguments: ["crun", *arguments])
    with pytest.raises(PlannedError) as caught, Command(launcher, runtime, "c1", tmp_path, {}) as command:
        command.start((0, 1, 2))
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


@pytest.mark.parametrize(("reads", "code"), [("sys.stdin.buffer.read()", 0), ("b''", 1)])
def test_a_command_may_have_more_than_a_pipe_holds(tmp_path: Path, reads: str, code: int) -> None:
    """A pipe of more than 1 MiB is root's only: such a command was refused to others. It has ended without reading, or
    has all of it.
    """
    process = {"args": ["x" * 3_000_000]}
    program = f"import sys; sys.exit({reads} != b'{{\"args\": [\"' + b'x' * 3_000_000 + b'\"]}}')"

    def start(_argv: list[str], _streams: object, passed: list[int]) -> "subprocess.Popen[bytes]":
        assert fcntl.fcntl(passed[0], fcntl.F_GETPIPE_SZ) <= 1 << 16
        with Path(f"/proc/self/fd/{passed[0]}").open("rb") as opened:
            return subprocess.Popen([sys.executable, "-c", program], stdin=opened)

    launcher: Any = SimpleNamespace(expect_move=lambda: None, start=start)
    runtime: Any = SimpleNamespace(argv=lambda *arguments: ["crun", *arguments])
    with Command(launcher, runtime, "c1", tmp_path, process) as command:
        os.close(command.start((0, 1, 2)))
        assert command.wait() == code


def test_a_command_whose_runtime_reads_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "SECONDS", 0.0)
    before, runtime = census(), cast("Any", SimpleNamespace(argv=lambda *arguments: ["crun", *arguments]))

    def start(_argv: list[str], _streams: object, passed: list[int]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=passed)

    launcher: Any = SimpleNamespace(expect_move=lambda: None, start=start)
    with (
        pytest.raises(TimeoutError, match="not read its `process`") as caught,
        Command(launcher, runtime, "c1", tmp_path, {"args": ["x" * 100_000]}) as command,
        closing(SimpleNamespace(close=lambda: _ends(command))),
    ):
        command.start((0, 1, 2))
    assert not census().more_than(before)
    assert caught.value is not None, "what the error holds is not collected before"


def _ends(command: Command) -> None:
    child = command._child
    assert child is not None and child.stdin is not None
    child.kill()
    child.wait()
    child.stdin.close()


def test_a_conmon_that_cannot_be_started_leaves_no_pipe(tmp_path: Path) -> None:
    (tmp_path / BUNDLE).mkdir()

    before = census()
    for error in (RuntimeError("of this test"), PlannedError()):
        launcher = SimpleNamespace(expect_move=lambda: None, start=Failing(0, error).call(lambda *_, **__: None))
        runtime = SimpleNamespace(executable="crun", options=())
        conmon = Conmon(cast("Any", launcher), Path("conmon"), cast("Any", runtime))
        with pytest.raises(Exception, match=r"of this test|Input/output error") as caught:
            conmon.create("c1", tmp_path, "")
        assert not census().more_than(before)
        assert caught.value is not None, "what the error holds is not collected before"


def test_a_conmon_whose_arguments_cannot_be_read_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be another process by now."""
    monkeypatch.setattr(conmon, "conmon_pid", lambda _: os.getpid())
    monkeypatch.setattr(conmon, "arguments_of", Failing(0).call(print))
    before = census()
    with pytest.raises(PlannedError):
        conmon.find_conmon(tmp_path)
    assert not census().more_than(before)


def test_the_machine_keeps_what_a_process_may_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mounts are made private first."""
    called = Mock(MS_REC=1, MS_PRIVATE=2)
    monkeypatch.setattr(launching, "kernel", called)
    launching._without_unified(lambda: cast("Any", None))
    assert [name for name, *_ in called.method_calls] == ["unshare", "mount", "unmount"]
