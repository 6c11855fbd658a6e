"""exec, attach and port-forward on Docker Engine, as a client of Kubernetes sees them (WebSocket, v5)."""

import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode
from tests.modules.runtimes.process.node import eventually
from tests.modules.runtimes.stream_client import CLOSE, RESIZE, STDERR, STDIN, STDOUT, streaming_session

pytestmark = pytest.mark.slow


def _exec(node: DockerNode, container: str, *command: str, **streams: bool) -> str:
    asked = {"stdout": True, "stderr": not streams.get("tty"), **streams}
    return str(node.cri.Exec(cri.ExecRequest(container_id=container, cmd=command, **asked)).url)


@pytest.fixture
def container(node: DockerNode) -> str:
    """A container that reads its input."""
    return node.shell("while read line; do echo said $line; done", cri.ContainerConfig(stdin=True))


def test_a_command_with_all_streams(node: DockerNode, container: str) -> None:
    """Input, output, errors and the exit code pass, more than all buffers hold; the end of the input ends it."""
    script = "wc -c; head -c 3000000 /dev/zero; echo err >&2; exit 3"
    with streaming_session(_exec(node, container, "sh", "-c", script, stdin=True)) as session:
        for _ in range(40):
            session.send(STDIN, bytes(25_000))
        session.send(CLOSE, bytes([STDIN]))
        status = session.status()
    assert session.received[STDOUT] == b"1000000\n" + bytes(3_000_000)
    assert session.received[STDERR] == b"err\n"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_a_command_with_a_terminal(node: DockerNode, container: str) -> None:
    """It has a terminal of the client's size with an echo; a missing terminal is an error."""
    with streaming_session(_exec(node, container, "sh", tty=True, stdin=True)) as session:
        session.send(RESIZE, b'{"Width":91,"Height":33}\n')
        session.send(STDIN, b"sleep 0.2; stty size; tty\n")
        session.until(STDOUT, b"/dev/pts/")
        session.send(STDIN, b"exit 4\n")
        status = session.status()
    assert b"33 91\r\n" in session.received[STDOUT]
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]
    with streaming_session(_exec(node, container, "/bin/nosuch", tty=True)) as session:
        status = session.status()
    assert (status["status"], "nosuch" in status["message"]) == ("Failure", True)


def test_a_client_that_goes(node: DockerNode, container: str) -> None:
    """The command ends with its client."""
    with streaming_session(_exec(node, container, "sh", "-c", "echo up; exec sleep 4321")) as session:
        session.until(STDOUT, b"up")
        assert b"4321" in node.execute(container, "ps").stdout
    eventually(lambda: b"4321" not in node.execute(container, "ps").stdout)


def test_attaching(node: DockerNode, container: str) -> None:
    """The client's input reaches the container's first process, whose output reaches the client and the log."""
    url = node.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)).url
    with streaming_session(url) as session:
        session.send(STDIN, b"hello\n")
        session.until(STDOUT, b"said hello\n")
    node.logged(container, "said hello")
    assert node.status(container).state == cri.CONTAINER_RUNNING
