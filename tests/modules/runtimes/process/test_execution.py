"""Commands beside a container's main process: output, time-outs, leftovers, clients that give up."""

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from beehive.clock import RealClock
from modules.runtimes.engine import command_output
from modules.runtimes.engine.command_output import (
    OUTPUT_LIMIT,
    OWN_BYTES,
    SHARED_LIMIT,
    CommandOutput,
    CommandRoom,
    OutputRoom,
)
from modules.runtimes.shim.connections import Connection
from modules.runtimes.shim.protocol import Pid, ProcessSpec
from modules.runtimes.shim.shim import Commands
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.process import few_descriptors
from tests.modules.runtimes.process.node import (
    DEADLINE_SECONDS,
    LocalNode,
    alive,
    eventually,
    processes_of,
    wait_for_death,
)


@pytest.fixture
def container(node: LocalNode) -> str:
    """A container that runs."""
    return node.shell("exec sleep 1000")


def _refusal(node: LocalNode, container: str, *command: str, timeout: int = 120) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as refusal:
        node.execute(container, *command, timeout=timeout)
    code: grpc.StatusCode = refusal.value.code()
    return code


@pytest.mark.extended
def test_output_and_exit_code(node: LocalNode, container: str) -> None:
    """Both streams and the exit code come back apart; a failing command is no error of the call."""
    answer = node.execute(container, "sh", "-c", "printf out; printf err >&2; exit 3")
    assert (answer.stdout, answer.stderr, answer.exit_code) == (b"out", b"err", 3)


@pytest.mark.extended
def test_a_command_has_the_oom_score_of_its_container(node: LocalNode) -> None:
    """As a service edgecore has a score with which the kernel ends everything else first."""
    config = cri.ContainerConfig()
    config.linux.resources.oom_score_adj = 700
    container = node.shell("exec sleep 1000", config)
    assert node.execute(container, "cat", "/proc/self/oom_score_adj").stdout == b"700\n"


@pytest.mark.extended
def test_killed_by_a_signal(node: LocalNode, container: str) -> None:
    """A command that dies of a signal has 128 and its number as exit code."""
    assert node.execute(container, "sh", "-c", "kill -TERM $$").exit_code == 143


@pytest.mark.extended
def test_a_command_that_exceeds_its_time_is_killed(node: LocalNode, container: str) -> None:
    """A command that exceeds its time is killed with its process group, and reported as too slow."""
    command = ["sh", "-c", "sleep 4321 & sleep 4322"]
    assert _refusal(node, container, *command, timeout=1) is grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: [each for each in processes_of(node.directory) if "sleep\000432" in each], lambda left: not left)


@pytest.mark.extended
def test_a_command_whose_client_gives_up_is_killed(node: LocalNode, container: str) -> None:
    """A command whose client gives up is killed with its process group."""
    call = node.cri.ExecSync.future(
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "sleep 1000 & echo $$ $! >pids; wait"])
    )
    file = node.state / "containers" / container / "work/pids"
    pids = eventually(lambda: file.read_text() if file.exists() else "")
    call.cancel()
    for pid in pids.split():
        wait_for_death(int(pid))


@pytest.mark.extended
def test_commands_without_end_keep_nothing_from_being_stopped(node: LocalNode, container: str) -> None:
    """Hooks may hang in as many containers as a node has; each keeps a thread of the server."""
    request = cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo >>began; exec sleep 1000"])
    calls = [node.cri.ExecSync.future(request, timeout=600) for _ in range(80)]
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
        gathering.join(DEADLINE_SECONDS)
        assert not gathering.is_alive()
        assert len(output.stdout) <= 2 * 1024 * 1024


@pytest.mark.extended
def test_a_background_process_of_a_command_delays_nothing(node: LocalNode, container: str) -> None:
    """A background process that holds the output open delays nothing; it ends with the container."""
    answer = node.execute(container, "sh", "-c", "sleep 1000 & echo $!", timeout=900)
    left = int(answer.stdout)
    assert alive(left)
    node.stop(container, 0)
    assert not alive(left)


@pytest.mark.extended
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


def test_commands_share_the_room_for_their_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many commands that write without end keep a little each; what one had is free again when it has ended."""
    monkeypatch.setattr(command_output, "SHARED_LIMIT", 1000)
    shared = OutputRoom()
    first, second, third = (CommandRoom(shared) for _ in range(3))
    assert [first.grant(OWN_BYTES), first.grant(600), first.grant(10)] == [OWN_BYTES, 600, 10]
    assert [second.grant(OWN_BYTES + 2000), second.grant(1)] == [OWN_BYTES + 390, 0]
    first.close()
    assert second.grant(1000) == 610
    assert [third.grant(10), third.grant(OWN_BYTES)] == [10, OWN_BYTES - 10]
    second.close()
    assert third.grant(OUTPUT_LIMIT) == 1000


@pytest.mark.extended
def test_room_for_output_is_given_back(node: LocalNode, container: str) -> None:
    """Ever so many large outputs after each other are whole."""
    for _ in range(1 + SHARED_LIMIT // 3_000_000):
        assert len(node.execute(container, "head", "-c", "3000000", "/dev/zero", timeout=900).stdout) == 3_000_000


@pytest.mark.extended
def test_refusals(node: LocalNode, container: str) -> None:
    """No command, a missing command, an unknown container, an ended one: each has its status."""
    assert _refusal(node, container) is grpc.StatusCode.INVALID_ARGUMENT
    assert _refusal(node, container, "no-such-program") is grpc.StatusCode.UNKNOWN
    assert _refusal(node, "f" * 64, "true") is grpc.StatusCode.NOT_FOUND
    assert _refusal(node, node.create(["true"]), "true") is grpc.StatusCode.FAILED_PRECONDITION
    node.stop(container, 0)
    assert _refusal(node, container, "true") is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.extended
def test_the_container_ends_meanwhile(node: LocalNode, container: str) -> None:
    """A command that is running when its container ends is killed, and the call comes back."""
    call = node.cri.ExecSync.future(
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", "echo >up; exec sleep 1000"])
    )
    eventually((node.state / "containers" / container / "work/up").exists)
    node.stop(container, 0)
    assert call.exception(timeout=DEADLINE_SECONDS) is not None or call.result().exit_code == 137


@pytest.mark.extended
def test_many_at_once(node: LocalNode, container: str) -> None:
    """Commands at the same time do not mix their output."""
    requests = [
        cri.ExecSyncRequest(container_id=container, cmd=["sh", "-c", f"echo {n}; echo {-n} >&2; exit {n}"])
        for n in range(20)
    ]
    answers = [call.result() for call in [node.cri.ExecSync.future(request) for request in requests]]
    assert [(int(a.stdout), -int(a.stderr), a.exit_code) for a in answers] == [(n, n, n) for n in range(20)]


def _among_few_descriptors(case: str) -> None:
    """Run a case of `few_descriptors` in a process of its own."""
    path = os.pathsep.join(each for each in sys.path if each)
    done = subprocess.run(
        [sys.executable, "-m", few_descriptors.__name__, case],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.extended
def test_without_descriptors_nothing_is_kept_of_the_attempt() -> None:
    """Each failed probe leaked two to five descriptors, until the agent could open no more files."""
    _among_few_descriptors("attempt")


@pytest.mark.extended
def test_a_shim_that_is_gone_keeps_no_descriptors() -> None:
    """At whichever step the container has ended."""
    _among_few_descriptors("gone")


@pytest.mark.extended
def test_a_start_without_descriptors_keeps_none() -> None:
    """Sockets, specification and listener of a container that cannot be handed over are closed."""
    _among_few_descriptors("start")


def test_a_shim_without_descriptors_answers_and_lives_on() -> None:
    """The kernel drops the descriptors: the command is refused, the container goes on."""
    answers: list[dict[str, Any]] = []
    commands = Commands("", cast("ProcessSpec", {}), None)
    asker = cast("Connection", SimpleNamespace(send=answers.append))
    commands.start(asker, 7, Pid(1), [os.open(os.devnull, os.O_RDONLY)])
    assert answers == [{"id": 7, "error": "the shim may open no more files"}]


@pytest.mark.extended
def test_a_shim_that_can_start_no_process_answers() -> None:
    """Without a descriptor for its child's report a command is refused; it used to be the end of the container."""
    _among_few_descriptors("child")


@pytest.mark.extended
def test_commands_leave_no_descriptors_in_their_shim() -> None:
    """Each probe would, until no command of the container could be executed any more."""
    _among_few_descriptors("commands")


@pytest.mark.extended
def test_a_process_has_nothing_of_its_shims_signals_and_umask() -> None:
    """It could not be asked to end, and others could not read its files."""
    _among_few_descriptors("inherited")
