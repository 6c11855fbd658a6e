"""What edgecore relies on of conmon: signals, the control FIFO, pieces of lines, and the end with commands inside."""

import itertools
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from modules.runtimes.oci import processes
from modules.runtimes.oci.crun.conmon import BUNDLE, conmon_pid
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode, control_groups
from tests.modules.runtimes.process.node import eventually, wait_for_death
from tests.modules.runtimes.stream_client import streaming_session
from tests.support.slow import one_in

_READ_BYTES = 8192
"""conmon's reads have this size."""
_ORDERS = [
    order
    for order in itertools.permutations(("exec", "leave", "detach", "kill"))
    if order.index("exec") < order.index("detach")
]

pytestmark = pytest.mark.skipif(shutil.which("conmon") is None, reason="conmon is not installed")


def _directory(node: OciNode, container: str) -> Path:
    return node.state / "containers" / container


def _conmon(node: OciNode, container: str) -> int:
    pid = conmon_pid(_directory(node, container))
    assert pid is not None
    return pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
@pytest.mark.extended
def test_a_signal_to_conmon_is_passed_on(node: OciNode, number: signal.Signals) -> None:
    """The container may end by it as it likes, and its end is recorded as any other."""
    name = number.name.removeprefix("SIG")
    container = node.shell(f"trap 'echo got {name}; exit 7' {name}; echo up; while :; do sleep 0.02; done")
    node.logged(container, "up")
    os.kill(_conmon(node, container), number)
    assert node.ended(container).exit_code == 7
    assert [text for *_, text in node.log(container)] == ["up", f"got {name}"]


@pytest.fixture
def stopped(node: OciNode) -> Iterator[str]:
    """A container whose conmon stands still, and whose control FIFO is full."""
    container = node.shell("echo up; exec sleep 1000")
    node.logged(container, "up")
    pid = _conmon(node, container)
    os.kill(pid, signal.SIGSTOP)
    fifo = os.open(_directory(node, container) / BUNDLE / "ctl", os.O_WRONLY | os.O_NONBLOCK)
    try:
        while True:
            os.write(fifo, b"1 24 80\n" * 512)
    except BlockingIOError:
        pass
    finally:
        os.close(fifo)
    try:
        yield container
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_full_control_fifo_holds_nobody_up(node: OciNode, stopped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is not reopened, with a reason; it is once conmon reads again. Nothing else of the node waits."""
    monkeypatch.setattr(processes, "_REOPEN_SECONDS", 0.5)  # conmon loses what follows so many commands
    log = Path(node.status(stopped).log_path)
    log.rename(log.with_name("old"))
    request = cri.ReopenContainerLogRequest(container_id=stopped)
    with pytest.raises(grpc.RpcError) as refusal:
        node.cri.ReopenContainerLog(request)
    assert "conmon does not read its commands" in str(refusal.value)
    assert node.run("echo other") == "other\n"
    os.kill(_conmon(node, stopped), signal.SIGCONT)

    def is_reopened() -> bool:
        try:
            node.cri.ReopenContainerLog(request)
        except grpc.RpcError:
            return False
        return log.exists()

    eventually(is_reopened)


def test_long_lines_come_in_pieces(node: OciNode) -> None:
    """None is longer than a read of conmon's; all but the last of a line are partial, and so is an unfinished rest."""
    container = node.shell("head -c 50000 /dev/zero | tr '\\0' x; echo; echo whole; printf rest")
    node.ended(container)
    entries = node.log(container)
    tags = [tag for _, tag, _ in entries]
    end_of_line = tags.index("F")
    pieces = [text for *_, text in entries[: end_of_line + 1]]
    assert max(map(len, pieces)) <= _READ_BYTES
    assert "".join(pieces) == "x" * 50_000
    assert entries[end_of_line + 1 :] == [("stdout", "F", "whole"), ("stdout", "P", "rest")]


@pytest.mark.parametrize("order", one_in(4, _ORDERS), ids="-".join)
@pytest.mark.extended
def test_a_container_with_commands_ends(node: OciNode, order: tuple[str, ...]) -> None:
    """Whatever comes first: a command of a client, one that leaves a process behind, the client's going, the end.

    A process in a container that nobody reaps would hold up its end for ever (zap_pid_ns_processes).
    """
    container = node.shell("exec sleep 1000")
    init = node.pid(container)
    with ExitStack() as client:
        for step in order:
            if step == "exec":
                _begin_command(node, container, client)
            elif step == "leave":
                _leave_process(node, container)
            elif step == "detach":
                client.close()
            else:
                os.kill(init, signal.SIGKILL)
                assert node.ended(container).exit_code == 128 + signal.SIGKILL
        wait_for_death(init)
        node.cri.RemoveContainer(cri.RemoveContainerRequest(container_id=container))
    assert container not in node.states()
    assert [group for group in control_groups(node.directory.name) if group.name == container] == []


def _begin_command(node: OciNode, container: str, client: ExitStack) -> None:
    """Execute a command that goes on as long as its client stays, if the container runs."""
    with _refused_after_the_end():
        request = cri.ExecRequest(container_id=container, cmd=["sh", "-c", "echo up; sleep 2002"], stdout=True)
        session = client.enter_context(streaming_session(node.cri.Exec(request).url))
        session.until(1, b"up")


def _leave_process(node: OciNode, container: str) -> None:
    """Execute a command that ends and leaves a process, if the container runs."""
    with _refused_after_the_end():
        node.execute(container, "sh", "-c", "sleep 2000 >/dev/null 2>&1 & exit 0")


@contextmanager
def _refused_after_the_end() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        assert isinstance(error, grpc.Call)
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
