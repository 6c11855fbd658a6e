"""kubectl itself against the streaming server, over WebSocket and over SPDY."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from modules.runtimes.streaming import StreamingServer
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.front import Front
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on this machine")

TRANSPORTS = {
    "websocket": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}


class RealKubectl:
    """Runs kubectl against the front."""

    def __init__(self, port: int, home: Path, transport: str) -> None:
        self._words = ["kubectl", f"--server=http://127.0.0.1:{port}", "--namespace=default"]
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), **TRANSPORTS[transport]}

    def run(self, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run it to its end."""
        return subprocess.run([*self._words, *words], input=given, capture_output=True, check=False,
                              env=self._environment, timeout=PATIENCE)  # fmt: skip

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it."""
        return subprocess.Popen([*self._words, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self._environment)  # fmt: skip


@pytest.fixture(params=TRANSPORTS)
def kubectl(request: pytest.FixtureRequest, server: StreamingServer, tmp_path: Path) -> Iterator[RealKubectl]:
    """A kubectl for each transport."""
    with Front(server) as front:
        yield RealKubectl(front.port, tmp_path, request.param)


def test_exec_brings_output_errors_and_exit_code(kubectl: RealKubectl) -> None:
    """Each on its stream."""
    done = kubectl.run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    lines = done.stderr.splitlines()
    assert (done.stdout, lines[0], done.returncode) == (b"out\n", b"err", 3)
    assert not any(b"Unknown stream" in line for line in lines)


def test_exec_passes_input_to_its_end(kubectl: RealKubectl) -> None:
    """More than all buffers hold, both ways."""
    given = os.urandom(3 << 20)
    done = kubectl.run("exec", "-i", "web", "--", "cat", given=given)
    assert (done.returncode, done.stdout == given) == (0, True)


def test_a_command_that_cannot_run_has_the_reason(kubectl: RealKubectl) -> None:
    """The runtime's error reaches the user."""
    done = kubectl.run("exec", "web", "--", "/no/such/program")
    assert b"/no/such/program" in done.stderr
    assert done.returncode != 0


def test_attach_shows_new_output(kubectl: RealKubectl, backend: LocalBackend) -> None:
    """And its input reaches the container."""
    with kubectl.begin("attach", "-i", "web", "-c", "app") as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"hello\n")
        process.stdin.flush()
        assert backend.conmon.container.recv(100) == b"hello\n"
        backend.conmon.container.send(b"\x02to you")
        backend.conmon.container.send(b"\x03 too")
        backend.conmon.container.close()
        output, errors = process.communicate(timeout=PATIENCE)
    assert output == b"to you"
    assert errors.endswith(b" too")


def test_attach_ends_with_its_input_where_that_stays_open(kubectl: RealKubectl, backend: LocalBackend) -> None:
    """The container has all of it, goes on, and the client has what it has written so far."""
    backend.conmon.ends_with_stdin = True
    backend.conmon.container.send(b"\x02before")
    done = kubectl.run("attach", "-i", "web", "-c", "app", given=b"hello")
    assert (done.returncode, done.stdout) == (0, b"before")
    assert backend.conmon.container.recv(100) == b"hello"


def test_port_forward_reaches_a_port(kubectl: RealKubectl) -> None:
    """Several connections, one after another and at one time; the pod's end and the client's end arrive."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=echo, args=(listening,))
        thread.start()
        port = listening.getsockname()[1]
        with kubectl.begin("port-forward", "web", f":{port}") as process:
            assert process.stdout is not None
            local = int(process.stdout.readline().split()[2].rpartition(b":")[2])
            open_ones = [socket.create_connection(("127.0.0.1", local), timeout=PATIENCE) for _ in range(3)]
            for number, connection in enumerate(open_ones):
                text = b"%d" % number * 300_000
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
                with connection, connection.makefile("rb") as file:
                    assert file.read() == text
            process.kill()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def echo(listening: socket.socket) -> None:
    """Send back what comes, to each."""

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65_536):
                connection.sendall(data)

    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(connection,), daemon=True).start()
