"""exec, attach and port-forward on Docker Engine, as a client of Kubernetes sees them (WebSocket, v5)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.docker.node import DockerNode
from tests.modules.runtimes.process.node import DEADLINE_SECONDS, eventually

_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255

pytestmark = pytest.mark.slow


class _Session:
    """One connection; what it received so far, by channel."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.received: dict[int, bytes] = {}

    def send(self, channel: int, data: bytes) -> None:
        self._connection.send(bytes([channel]) + data)

    def until(self, channel: int, text: bytes) -> None:
        """Receive until a channel has had this text."""
        while text not in self.received.get(channel, b""):
            self._receive()

    def status(self) -> dict[str, Any]:
        """Receive to the end, and return the status."""
        while not self.received.get(_ERROR):
            self._receive()
        status: dict[str, Any] = json.loads(self.received[_ERROR])
        return status

    def _receive(self) -> None:
        message = self._connection.recv(DEADLINE_SECONDS)
        assert isinstance(message, bytes)
        if message:
            self.received[message[0]] = self.received.get(message[0], b"") + message[1:]


@contextmanager
def _session(url: str) -> Iterator[_Session]:
    address = url.replace("http://", "ws://")
    with connect(address, subprotocols=[Subprotocol("v5.channel.k8s.io")], compression=None) as connection:
        yield _Session(connection)


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
    with _session(_exec(node, container, "sh", "-c", script, stdin=True)) as session:
        for _ in range(40):
            session.send(_STDIN, bytes(25_000))
        session.send(_CLOSE, bytes([_STDIN]))
        status = session.status()
    assert session.received[_STDOUT] == b"1000000\n" + bytes(3_000_000)
    assert session.received[_STDERR] == b"err\n"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_a_command_with_a_terminal(node: DockerNode, container: str) -> None:
    """It has a terminal of the client's size with an echo; a missing terminal is an error."""
    with _session(_exec(node, container, "sh", tty=True, stdin=True)) as session:
        session.send(_RESIZE, b'{"Width":91,"Height":33}\n')
        session.send(_STDIN, b"sleep 0.2; stty size; tty\n")
        session.until(_STDOUT, b"/dev/pts/")
        session.send(_STDIN, b"exit 4\n")
        status = session.status()
    assert b"33 91\r\n" in session.received[_STDOUT]
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]
    with _session(_exec(node, container, "/bin/nosuch", tty=True)) as session:
        status = session.status()
    assert (status["status"], "nosuch" in status["message"]) == ("Failure", True)


def test_a_client_that_goes(node: DockerNode, container: str) -> None:
    """The command ends with its client."""
    with _session(_exec(node, container, "sh", "-c", "echo up; exec sleep 4321")) as session:
        session.until(_STDOUT, b"up")
        assert b"4321" in node.execute(container, "ps").stdout
    eventually(lambda: b"4321" not in node.execute(container, "ps").stdout)


def test_attaching(node: DockerNode, container: str) -> None:
    """The client's input reaches the container's first process, whose output reaches the client and the log."""
    url = node.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)).url
    with _session(url) as session:
        session.send(_STDIN, b"hello\n")
        session.until(_STDOUT, b"said hello\n")
    node.logged(container, "said hello")
    assert node.status(container).state == cri.CONTAINER_RUNNING
