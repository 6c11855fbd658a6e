"""What one does at the node itself: logs, commands in containers, ports, over edgecore's own server."""

import fcntl
import json
import os
import pty
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beehive.sockets.unix_sockets import short_name
from modules.apimachinery.kinds import JsonObject
from tests.end_to_end import commands
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import RUN, container, is_ready, mount, pod, restarts_of
from tests.end_to_end.processes import REPOSITORY, run_program, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest, RuntimeUnderTest
from tests.support.patience import PATIENCE
from tests.support.ports import free_port


def command(machine: Machine, *arguments: str) -> list[str]:
    """`edgecore <arguments>` for the node of a machine."""
    what, *rest = arguments
    return [sys.executable, "-m", "modules.processes.edgecore", what, "--config", str(machine.edge.file), *rest]


def edgecore(machine: Machine, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs it to its end; as a process of its own if it connects its own streams, or ends containers."""
    what, *rest = arguments
    if what not in ("exec", "reset"):
        return commands.edgecore(what, "--config", str(machine.edge.file), *rest)
    return run_program("edgecore", what, "--config", str(machine.edge.file), *rest, given=given or "")


SCRIPT = f"echo oops >&2; until [ -e /host/go ]; do sleep 0.05; done; echo one; echo two; echo three; {RUN}"
"""Pauses in between: the order of the runtime's reads from two streams is not known."""


@pytest.mark.gives_its_machine_back
def test_pods_and_their_logs(machine: Machine, tmp_path: Path) -> None:
    """Once, followed to the end of the container, and of the container before."""
    host = {"name": "host", "hostPath": {"path": str(tmp_path)}}
    machine.cloud.apply(pod("p", container(SCRIPT, volumeMounts=[mount("host", "/host")]), volumes=(host,)))
    made = machine.cloud.pods.wait("p", is_ready)
    wait_until(lambda: machine.edge.lines(made) == ["oops"], "the first line")
    (tmp_path / "go").touch()
    wait_until(lambda: len(machine.edge.lines(made)) == 4, "all lines")
    listed = edgecore(machine, "pods").stdout.splitlines()
    assert [line.split()[:5] for line in listed[1:]] == [["default", "p", "1/1", "Running", "0"]]
    assert edgecore(machine, "logs", "p", "--tail", "2").stdout == "two\nthree\n"
    assert edgecore(machine, "logs", "default/p", "-c", "app", "--since", "10m").stdout == "oops\none\ntwo\nthree\n"
    assert machine.edge.get("/containerLogs/default/p/app?stream=Stderr") == (200, "oops\n")
    stamped = edgecore(machine, "logs", "p", "--timestamps").stdout.splitlines()[0].split()
    assert (stamped[0][:2], stamped[1]) == ("20", "oops")
    refused = edgecore(machine, "logs", "p", "-c", "other")
    assert (refused.returncode, "it has app" in refused.stderr) == (9, True)
    follower = subprocess.Popen(command(machine, "logs", "-f", "p"), cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    assert [follower.stdout.readline() for _ in range(4)] == ["oops\n", "one\n", "two\n", "three\n"]
    machine.cloud.delete("Pod", "p")
    follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0


@pytest.mark.gives_its_machine_back
def test_the_log_of_the_container_before(machine: Machine) -> None:
    machine.cloud.apply(pod("p", container("echo first; exit 3")))
    machine.cloud.pods.wait("p", lambda obj: restarts_of(obj) >= 1)
    wait_until(lambda: edgecore(machine, "logs", "-p", "p").stdout == "first\n", "the log before is served")


@pytest.mark.gives_its_machine_back
def test_answers_of_the_server_about_the_node(machine: Machine) -> None:
    """Nothing that acts is on the port."""
    machine.cloud.apply(pod("p"))
    machine.cloud.pods.wait("p", is_ready)
    running = json.loads(machine.edge.get("/runningpods")[1])["items"]
    assert [(each["metadata"]["name"], each["spec"]["containers"][0]["name"]) for each in running] == [("p", "app")]
    for path in ("/healthz", "/healthz/ping", "/healthz/syncloop"):
        assert machine.edge.get(path) == (200, "ok")
    configuration = json.loads(machine.edge.get("/configz")[1])["kubeletconfig"]
    assert configuration["readOnlyPort"] == machine.edge.port
    status, text = machine.edge.get("/exec/default/p/app?command=ls&output=1")
    assert (status, "/exec" in text) == (404, False)


def test_commands_in_a_container(runtime: RuntimeUnderTest, machine: Machine) -> None:
    """Output, errors, exit status; input; a terminal and its size; the streams of the container's own process."""
    reader = container("while read line; do echo got $line; done", name="reader", stdin=True)
    machine.cloud.apply(pod("p", container(), reader))
    machine.cloud.pods.wait("p", is_ready)
    done = edgecore(machine, "exec", "p", "-c", "app", "--", "sh", "-c", "echo out; echo 'two words' >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "two words\n", 7)
    copied = edgecore(machine, "exec", "-i", "p", "-c", "app", "--", "head", "-n", "1", given="to copy\nnot this\n")
    assert (copied.stdout, copied.returncode) == ("to copy\n", 0)
    large = edgecore(machine, "exec", "p", "-c", "app", "--", "sh", "-c", "yes | head -c 3000000")
    assert (len(large.stdout), large.returncode) == (3_000_000, 0)
    missing = edgecore(machine, "exec", "p", "-c", "app", "--", "no-such-program")
    assert (missing.returncode != 0, "no-such-program" in missing.stderr) == (True, True)
    several = edgecore(machine, "exec", "p", "--", "true")
    assert (several.returncode, several.stderr) == (0, 'Defaulted container "app" out of: app, reader\n')
    with terminal(command(machine, "exec", "-it", "p", "-c", "app", "--", "sh"), 91) as (keys, screen):
        screen.wait("# " if os.geteuid() == 0 or not isinstance(runtime, EmbeddedUnderTest) else "$ ")
        os.write(keys, b"stty size; tty\n")
        screen.wait("24 91")
        screen.wait("/dev/pts/")
        screen.resize(57)
        os.write(keys, b"stty size\n")
        screen.wait("24 57")
        os.write(keys, b"exit 5\n")
        assert screen.status() == 5
    attached = subprocess.Popen(
        command(machine, "attach", "-i", "p", "-c", "reader"),
        cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert attached.stdin is not None and attached.stdout is not None
    attached.stdin.write("hello\n")
    attached.stdin.flush()
    assert attached.stdout.readline() == "got hello\n"
    attached.kill()
    attached.communicate()


def web_server(runtime: RuntimeUnderTest, port: int) -> JsonObject:
    """A container that is ready when it serves a page; on the process runtime at a port of this machine."""
    script = f"mkdir -p www; echo hello from the pod > www/index.html; exec httpd -f -p {port} -h www"
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    if isinstance(runtime, EmbeddedUnderTest):
        script = f"echo hello from the pod > index.html; exec python3 -m http.server -b 127.0.0.1 {port}"
        probe = {"tcpSocket": {"port": port, "host": "127.0.0.1"}, "periodSeconds": 1}
        return container(script, readinessProbe=probe)
    return container(script, workingDir="/tmp", readinessProbe=probe)


def test_a_port_of_a_pod(runtime: RuntimeUnderTest, machine: Machine) -> None:
    """Through edgecore to the runtime's server and into the pod's network, as a WebSocket client does it."""
    port = free_port()
    machine.cloud.apply(pod("p", web_server(runtime, port)))
    machine.cloud.pods.wait("p", is_ready)
    assert "hello from the pod" in fetch(machine, port)
    answer = spdy(machine, "/exec/default/p/app?command=cat&input=1&output=1", "v4.channel.k8s.io")
    assert (answer[0], "x-stream-protocol-version: v4.channel.k8s.io" in answer[1:]) == ("http/1.1 101", True)
    answer = spdy(machine, "/portForward/default/p", "portforward.k8s.io")
    assert (answer[0], "upgrade: spdy/3.1" in answer[1:]) == ("http/1.1 101", True)


def spdy(machine: Machine, target: str, protocol: str) -> list[str]:
    """The head of the answer to an upgrade as older kubectls ask for it, in lower case."""
    upgrade = f"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: {protocol}\r\n"
    with socket.socket(socket.AF_UNIX) as connection, short_name(machine.edge.root / "edged" / "edged.sock") as name:
        connection.settimeout(PATIENCE)
        connection.connect(name)
        connection.sendall(f"POST {target} HTTP/1.1\r\nHost: node\r\n{upgrade}Content-Length: 0\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1) or pytest.fail(head.decode())
    first, *fields = head.decode().lower().split("\r\n")
    return [first[:12], *fields]


def fetch(machine: Machine, port: int) -> str:
    """The answer of an HTTP server in pod p, over `/portForward`."""
    from websockets.sync.client import unix_connect  # noqa: PLC0415 - containerd's tests only

    path = machine.edge.root / "edged" / "edged.sock"
    with short_name(path) as name:
        connection = unix_connect(
            name, f"ws://localhost/portForward/default/p?port={port}", subprotocols=["v4.channel.k8s.io"]
        )
    received = b""
    with connection:
        connection.send(b"\0GET /index.html HTTP/1.0\r\n\r\n")
        for message in connection:
            assert isinstance(message, bytes)
            assert message[0] == 0 or len(message) == 3, message[1:]
            received += message[1:] if message[0] == 0 else b""
            if b"pod" in received:
                break
    return received.decode(errors="replace")


class Screen:
    """What a program has written to its terminal."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes]) -> None:
        self._descriptor = descriptor
        self._process = process
        self._text = ""
        self._change = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, text: str) -> None:
        """Until it is there; what came before it counts no more."""
        with self._change:
            assert self._change.wait_for(lambda: text in self._text, PATIENCE), self._text
            self._text = self._text.partition(text)[2]

    def resize(self, columns: int) -> None:
        """Another width, announced to the program as the kernel would to a terminal's owner."""
        resize(self._descriptor, columns)
        self._process.send_signal(signal.SIGWINCH)

    def status(self) -> int:
        """Of the program, when it has ended."""
        status = self._process.wait(PATIENCE)
        self._thread.join(PATIENCE)
        return status

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._descriptor, 4096)
            except OSError:
                return
            with self._change:
                self._text += data.decode(errors="replace")
                self._change.notify_all()


@contextmanager
def terminal(arguments: list[str], columns: int) -> Iterator[tuple[int, Screen]]:
    """A program on a terminal of its own: where keys are typed, and its screen."""
    keys, side = pty.openpty()
    resize(keys, columns)
    process = subprocess.Popen(
        arguments, cwd=REPOSITORY, stdin=side, stdout=side, stderr=side, start_new_session=True,
    )  # fmt: skip
    os.close(side)
    try:
        yield keys, Screen(keys, process)
    finally:
        process.kill()
        process.wait()
        os.close(keys)


def resize(keys: int, columns: int) -> None:
    """Another width of the terminal."""
    fcntl.ioctl(keys, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


@pytest.mark.gives_its_machine_back
def test_only_the_owner_may_open_the_socket(machine: Machine) -> None:
    path = machine.edge.root / "edged" / "edged.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    with socket.socket(socket.AF_UNIX) as connection, short_name(path) as name:
        connection.connect(name)
        connection.sendall(b"GET /healthz HTTP/1.0\r\nOrigin: http://page\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
