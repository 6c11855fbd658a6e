"""exec, attach and port-forward of the OCI runtime, as a client of Kubernetes sees them (WebSocket, v5)."""

import re
import socket
import threading

import grpc
import pytest
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.node import OciNode
from tests.modules.runtimes.process.node import eventually
from tests.modules.runtimes.stream_client import CLOSE, RESIZE, STDERR, STDIN, STDOUT, Session, streaming_session

_LOOP = "exec sleep 1000"


def _exec(node: OciNode, container: str, *command: str, **streams: bool) -> str:
    asked = {"stdout": True, "stderr": not streams.get("tty"), **streams}
    return str(node.cri.Exec(cri.ExecRequest(container_id=container, cmd=command, **asked)).url)


def test_a_command_with_all_streams(node: OciNode) -> None:
    """Input, output, errors and the exit code pass; the end of the input ends the command."""
    container = node.shell(_LOOP)
    with streaming_session(_exec(node, container, "sh", "-c", "cat; echo err >&2; exit 3", stdin=True)) as session:
        session.send(STDIN, b"hello\n")
        session.until(STDOUT, b"hello\n")
        session.send(CLOSE, bytes([STDIN]))
        status = session.status()
    assert session.received[STDERR] == b"err\n"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_a_command_with_a_terminal(node: OciNode) -> None:
    """It has a terminal of the client's size, which echoes what is typed, and ends lines as terminals do."""
    container = node.shell(_LOOP)
    with streaming_session(_exec(node, container, "sh", tty=True, stdin=True)) as session:
        session.send(RESIZE, b'{"Width":91,"Height":33}\n')
        session.send(STDIN, b"stty size; tty\n")
        session.until(STDOUT, b"/dev/pts/")
        session.send(STDIN, b"exit 4\n")
        status = session.status()
    assert b"33 91\r\n" in session.received[STDOUT]
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("nosuch", "executable file not found in $PATH"),
        ("/no/such", "stat /no/such: no such file or directory"),
        ("/etc/passwd", "permission denied"),
    ],
)
@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
def test_a_command_that_cannot_be_executed(node: OciNode, program: str, reason: str, *, tty: bool) -> None:
    """It did not run, so it has no exit code and no output; the reason has runc's words, which clients look for."""
    container = node.shell(_LOOP)
    with streaming_session(_exec(node, container, program, tty=tty)) as session:
        status = session.status()
    assert (status["status"], status["reason"]) == ("Failure", "InternalError")
    assert status["message"].endswith(f'unable to start container process: exec: "{program}": {reason}')
    assert session.received.get(STDERR, b"") == b""
    with pytest.raises(grpc.RpcError, match=re.escape(f'exec: "{program}": {reason}')):
        node.execute(container, program)


def test_a_client_that_goes_ends_its_command(node: OciNode) -> None:
    """Nobody would read what it writes, nor end it."""
    container = node.shell(_LOOP)
    with streaming_session(_exec(node, container, "sh", "-c", "echo up; exec sleep 4321")) as session:
        session.until(STDOUT, b"up")
    eventually(lambda: b"4321" not in node.execute(container, "ps").stdout)


def test_an_attached_shell(node: OciNode) -> None:
    """What the client types reaches the first process, and what that answers reaches client and log."""
    container = node.start(node.create(["sh"], cri.ContainerConfig(stdin=True)))
    request = cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    with streaming_session(node.cri.Attach(request).url) as session:
        session.send(STDIN, b"echo $((40 + 2))\n")
        session.until(STDOUT, b"42\n")
        session.send(STDIN, b"echo oops >&2; exit\n")
        session.until(STDERR, b"oops\n")
        assert session.status()["status"] == "Success"
    assert node.ended(container).exit_code == 0
    assert [text for *_, text in node.log(container)] == ["42", "oops"]


def test_an_attached_terminal(node: OciNode) -> None:
    """It has the size that a client sets; input and output pass; the container's log has the output."""
    container = node.shell("stty size; read line; echo got $line; tty", cri.ContainerConfig(tty=True, stdin=True))
    url = node.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True, tty=True)).url
    with streaming_session(url) as session:
        session.send(RESIZE, b'{"Width":100,"Height":30}')
        session.send(STDIN, b"text\n")
        session.until(STDOUT, b"got text\r\n")
    assert node.ended(container).exit_code == 0
    said = [text.rstrip("\r") for _, _, text in node.log(container)]
    assert {"text", "got text"} <= set(said)
    assert any(line.startswith("/dev/") for line in said)


@pytest.mark.slow
def test_much_output_and_input_that_is_not_taken(node: OciNode) -> None:
    """A container that reads late gets all, a writing one is not held up, and its log is whole."""
    container = node.shell("seq 1 20000; cat | wc -c", cri.ContainerConfig(stdin=True, stdin_once=True))
    url = node.cri.Attach(cri.AttachRequest(container_id=container, stdin=True, stdout=True)).url
    with streaming_session(url) as session:
        for _ in range(40):
            session.send(STDIN, bytes(10_000))
        session.send(CLOSE, bytes([STDIN]))
        session.until(STDOUT, b"400000")
    assert node.ended(container).exit_code == 0
    written = "".join(text + "\n" * (tag == "F") for _, tag, text in node.log(container))
    assert written.split() == [*map(str, range(1, 20_001)), "400000"]


def test_a_port_of_the_machine(node: OciNode) -> None:
    """A pod on the machine's network has the machine's ports."""
    pod = node.pod()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"got " + connection.recv(100))

        served = threading.Thread(target=answer)
        served.start()
        url = node.cri.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[port])).url
        address = f"{url.replace('http://', 'ws://')}?port={port}"
        with connect(address, subprotocols=[Subprotocol("v4.channel.k8s.io")], compression=None) as connection:
            session = Session(connection)
            session.send(0, b"ping")
            session.until(0, b"got ping")
        served.join()


@pytest.mark.parametrize("method", ["Exec", "Attach"])
def test_what_does_not_run_has_no_streams(node: OciNode, method: str) -> None:
    """It is refused immediately, before a client connects."""
    container = node.create(["true"])
    request = getattr(cri, f"{method}Request")(container_id=container, stdout=True)
    with pytest.raises(grpc.RpcError) as refusal:
        getattr(node.cri, method)(request)
    assert refusal.value.code() is grpc.StatusCode.FAILED_PRECONDITION
