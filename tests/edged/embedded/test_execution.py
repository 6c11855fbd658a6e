"""Commands beside a container's main process: output, time-outs, leftovers, clients that give up."""

import contextlib
import os
import resource
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from beehive.clock import RealClock
from edged.embedded.command_output import OUTPUT_LIMIT, CommandOutput
from edged.embedded.errors import RequestRefusedError, RunFailedError, ShimGoneError, TooManyError
from edged.embedded.execution import execute
from edged.embedded.model import EmbeddedContainer
from edged.embedded.process_watcher import ProcessWatcher
from edged.embedded.shim.commands import Commands
from edged.embedded.shim.connections import Connection
from edged.embedded.shim.protocol import ContainerSpec, Pid, ProcessSpec, to_memory_file
from edged.embedded.shim_manager import ShimManager
from edged.embedded.shim_spawner import ShimSpawner
from protos.cri.v1 import api_pb2 as cri
from tests.edged.embedded.node import LocalNode, alive, eventually, wait_for_death


@pytest.fixture
def container(node: LocalNode) -> str:
    """A container that runs."""
    return node.shell("exec sleep 1000")


def _refusal(node: LocalNode, container: str, *command: str, timeout: int = 10) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refusal:
        node.execute(container, *command, timeout=timeout)
    code: grpc.StatusCode = refusal.value.code()
    return code


def test_output_and_exit_code(node: LocalNode, container: str) -> None:
    """Both streams and the exit code come back apart; a failing command is no error of the call."""
    answer = node.execute(container, "sh", "-c", "printf out; printf err >&2; exit 3")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"out", b"err", 3)


def test_killed_by_a_signal(node: LocalNode, container: str) -> None:
    """A command that dies of a signal has 128 and its number as exit code."""
    assert node.execute(container, "sh", "-c", "kill -TERM $$").exit_code == 143


def test_a_command_that_exceeds_its_time_is_killed(node: LocalNode, container: str) -> None:
    """A command that exceeds its time is killed with its process group, and reported as too slow."""
    command = ["sh", "-c", "sleep 1000 & echo $$ $! >pids; wait"]
    assert _refusal(node, container, *command, timeout=3) is grpc.StatusCode.DEADLINE_EXCEEDED
    for pid in (node.state / "containers" / container / "work/pids").read_text().split():
        wait_for_death(int(pid))


def test_a_command_whose_client_gives_up_is_killed(node: LocalNode, container: str) -> None:
    """A command whose client gives up is killed."""
    call = node.cri.ExecSync.future(
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo $$ >pid; exec sleep 1000"])
    )
    file = node.state / "containers" / container / "work/pid"
    pid = int(eventually(lambda: file.read_text() if file.exists() else ""))
    call.cancel()
    wait_for_death(pid)


def test_commands_without_end_keep_nothing_from_being_stopped(node: LocalNode, container: str) -> None:
    """Hooks may hang in as many containers as a node has; each keeps a thread of the server."""
    request = cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo >>began; exec sleep 1000"])
    calls = [node.cri.ExecSync.future(request, timeout=60) for _ in range(80)]
    began = node.state / "containers" / container / "work/began"
    eventually(lambda: began.exists() and began.stat().st_size == len(calls))
    node.stop(container, 0)
    assert grpc.StatusCode.DEADLINE_EXCEEDED not in {call.code() for call in calls}


def test_a_process_that_keeps_writing_does_not_delay_the_end_of_its_command() -> None:
    """A process that the command left behind fills the pipe faster than it is emptied, so waiting for its end would
    take for ever.
    """
    with contextlib.ExitStack() as stack, Path("/dev/zero").open("rb") as endless:
        output = CommandOutput(stack, stack, RealClock())
        os.dup2(endless.fileno(), output._stdout.read_end)
        output.wake()
        gathering = threading.Thread(target=output.gather, args=(None,), daemon=True)
        gathering.start()
        gathering.join(20)
        assert not gathering.is_alive()
        assert len(output.stdout) <= 2 * 1024 * 1024


def test_a_background_process_of_a_command_delays_nothing(node: LocalNode, container: str) -> None:
    """A background process that holds the output open delays nothing; it ends with the container."""
    started = time.monotonic()
    answer = node.execute(container, "sh", "-c", "sleep 1000 & echo $!", timeout=60)
    assert time.monotonic() - started < 30
    left = int(answer.stdout)
    assert alive(left)
    node.stop(container, 0)
    assert not alive(left)


def test_bounded_output(node: LocalNode, container: str) -> None:
    """More output than CRI's 16 MiB is read, so that the command goes on, and cut."""
    size = OUTPUT_LIMIT + 5_000_000
    request = cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", f"head -c {size} /dev/zero; echo end >&2"])
    channel = grpc.insecure_channel(f"unix://{node.socket}", [("grpc.max_receive_message_length", 16 * 1024 * 1024)])
    with channel:
        call = channel.unary_unary(
            "/runtime.v1.RuntimeService/ExecSync",
            request_serializer=cri.ExecSyncRequest.SerializeToString,
            response_deserializer=cri.ExecSyncResponse.FromString,
        )
        answer = call(request)
    assert len(answer.stdout) + len(answer.stderr) <= OUTPUT_LIMIT
    assert len(answer.stdout) >= OUTPUT_LIMIT - 4
    assert answer.exit_code == 0


def test_refusals(node: LocalNode, container: str) -> None:
    """No command, a missing command, an unknown container, one that does not run: each has its status."""
    assert _refusal(node, container) is grpc.StatusCode.INVALID_ARGUMENT
    assert _refusal(node, container, "no-such-program") is grpc.StatusCode.UNKNOWN
    assert _refusal(node, "f" * 64, "true") is grpc.StatusCode.NOT_FOUND
    assert _refusal(node, node.create(["true"]), "true") is grpc.StatusCode.FAILED_PRECONDITION
    node.stop(container, 0)
    assert _refusal(node, container, "true") is grpc.StatusCode.FAILED_PRECONDITION


def test_the_container_ends_meanwhile(node: LocalNode, container: str) -> None:
    """A command that is running when its container ends is killed, and the call comes back."""
    call = node.cri.ExecSync.future(
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo >up; exec sleep 1000"])
    )
    eventually((node.state / "containers" / container / "work/up").exists)
    node.stop(container, 0)
    assert call.exception(timeout=10) is not None or call.result().exit_code == 137


def test_many_at_once(node: LocalNode, container: str) -> None:
    """Commands at the same time do not mix their output."""
    requests = [
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", f"echo {n}; echo {-n} >&2; exit {n}"])
        for n in range(20)
    ]
    answers = [call.result() for call in [node.cri.ExecSync.future(request) for request in requests]]
    assert [(int(a.stdout), -int(a.stderr), a.exit_code) for a in answers] == [(n, n, n) for n in range(20)]


def _open_descriptors() -> set[int]:
    return {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}


@contextlib.contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """This process may open so many more files and no others; it has as many open afterwards as before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        before = _open_descriptors()
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(before) + 32, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        for _ in range(count):
            os.close(taken.pop())
        try:
            yield
        finally:
            for descriptor in taken:
                os.close(descriptor)
    assert _open_descriptors() == before


def _container(link: object) -> EmbeddedContainer:
    made = SimpleNamespace(id="c", link=link, state=cri.CONTAINER_RUNNING, directory=Path("/nowhere"))
    return cast("EmbeddedContainer", made)


@pytest.mark.parametrize("left", range(6))
def test_without_descriptors_nothing_is_kept_of_the_attempt(left: int) -> None:
    """Each failed probe leaked two to five descriptors, until the agent could open no more files."""
    request = cri.ExecSyncRequest(cmd=["true"], timeout=1)
    link = SimpleNamespace(begin=lambda *_, **__: (1, Future()))
    with descriptors_left(left), pytest.raises(TooManyError, match="Too many open files"):
        execute(_container(link), request, lambda _: None, RealClock())


@pytest.mark.parametrize("left", range(8))
def test_a_shim_that_is_gone_keeps_no_descriptors(left: int) -> None:
    """At whichever step the container has ended."""

    def begin(*_: object, **__: object) -> None:
        raise ShimGoneError("ask the shim", "it is gone")

    request = cri.ExecSyncRequest(cmd=["true"], timeout=1)
    with descriptors_left(left), pytest.raises(RequestRefusedError):
        execute(_container(SimpleNamespace(begin=begin)), request, lambda _: None, RealClock())


@pytest.mark.parametrize("left", range(7))
def test_a_start_without_descriptors_keeps_none(left: int, tmp_path: Path) -> None:
    """Sockets, specification and listener of a container that cannot be handed over are closed."""
    spawner = SimpleNamespace(request=lambda *_, **__: None)
    watcher = SimpleNamespace(add=lambda link: link.close())
    shims = ShimManager(
        cast("ShimSpawner", spawner), cast("ProcessWatcher", watcher), RealClock(), lambda _: None, lambda _: None
    )
    container = SimpleNamespace(id="c", directory=tmp_path, decided=threading.Event(), run=None, exit=None, link=None)
    container.decided.set()
    with descriptors_left(left), pytest.raises(RunFailedError):
        shims.start(cast("EmbeddedContainer", container), cast("ContainerSpec", {}))


def test_a_shim_without_descriptors_answers_and_lives_on() -> None:
    """The kernel drops the descriptors: the command is refused, the container goes on."""
    answers: list[dict[str, Any]] = []
    commands = Commands("", cast("ProcessSpec", {}))
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    commands.start(asker, 7, Pid(1), [os.open(os.devnull, os.O_RDONLY)])
    assert answers == [{"id": 7, "error": "the shim may open no more files"}]


def test_a_shim_that_can_start_no_process_answers() -> None:
    """Without a descriptor for its child's report a command is refused; it used to be the end of the container."""
    answers: list[dict[str, Any]] = []
    commands = Commands("", cast("ProcessSpec", {"env": {}, "cwd": "/", "user": None, "no_new_privileges": False}))
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    descriptors = [to_memory_file("x", ["true"]), *(os.open(os.devnull, os.O_WRONLY) for _ in range(2))]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        commands.start(asker, 7, Pid(1), descriptors)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answers == [{"id": 7, "error": "cannot start another process: Too many open files"}]
