"""Commands beside a container's main process: output, time-outs, what they leave behind, clients that give up."""

import os
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import grpc
import pytest

from edged.embedded.execution import OUTPUT_LIMIT, _Command
from edged.embedded.link import Answer, ShepherdLink
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


def test_too_slow(node: LocalNode, container: str) -> None:
    """A command that exceeds its time is killed with its process group, and said to have been too slow."""
    command = ["sh", "-c", "sleep 1000 & echo $$ $! >pids; wait"]
    assert _refusal(node, container, *command, timeout=3) is grpc.StatusCode.DEADLINE_EXCEEDED
    for pid in (node.state / "containers" / container / "work/pids").read_text().split():
        wait_for_death(int(pid))


def test_client_gone(node: LocalNode, container: str) -> None:
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


def test_what_goes_on_writing_keeps_no_command_from_having_ended() -> None:
    """A process that it left behind fills the pipe faster than it is emptied: that would take for ever."""
    answer: Future[Answer] = Future()
    link = SimpleNamespace(begin=lambda *_, **__: (1, answer))
    with _Command(cast("ShepherdLink", link), ["x"]) as command, Path("/dev/zero").open("rb") as endless:
        os.dup2(endless.fileno(), command.stdout.read_end)
        answer.set_result({"exit_code": 0})
        gathering = threading.Thread(target=command.gather, args=(None,), daemon=True)
        gathering.start()
        gathering.join(20)
        assert not gathering.is_alive()
        assert len(command.stdout.kept) <= 2 * 1024 * 1024


def test_what_it_leaves_behind(node: LocalNode, container: str) -> None:
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
