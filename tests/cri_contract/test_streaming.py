"""critest: Streaming. critest speaks SPDY, kubectl since 1.31 WebSocket."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import grpc
import pytest

from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.cri_contract.sessions import Session, spdy_session, web_socket_session
from tests.modules.runtimes.streaming.clients import SpdyClient, connected
from tests.support.ports import free_port

_Connect = Callable[[str], AbstractContextManager[Session]]

both = pytest.mark.parametrize(
    "session_at", [pytest.param(spdy_session, id="spdy"), pytest.param(web_socket_session, id="websocket")]
)


def _exec_url(client: Client, container: str, *command: str, **streams: Any) -> str:
    return str(client.runtime.Exec(cri.ExecRequest(container_id=container, cmd=command, **streams)).url)


@both
def test_exec(client: Client, session_at: _Connect) -> None:
    """critest: Streaming: runtime should support exec with tty=false and stdin=false; the output is exact."""
    url = _exec_url(client, client.start(*LOOP), "echo", "-n", "hello", stdout=True, stderr=True)
    with session_at(url) as session:
        session.open("error", "stdout", "stderr")
        received = session.until_end("stdout", "stderr", "error")
    assert received["stdout"] == b"hello"
    assert b'"status":"Success"' in received["error"].replace(b" ", b"")
    assert received.get("stderr", b"") == b""


@both
def test_exec_exit_code(client: Client, session_at: _Connect) -> None:
    """The code of a command that fails comes as `details.causes`, its errors on the stream for them."""
    command = ("sh", "-c", "echo oops >&2; exit 3")
    url = _exec_url(client, client.start(*LOOP), *command, stdout=True, stderr=True)
    with session_at(url) as session:
        session.open("error", "stdout", "stderr")
        received = session.until_end("stdout", "stderr", "error")
    assert received["stderr"] == b"oops\n"
    assert b'"NonZeroExitCode"' in received["error"]
    assert b'"message":"3"' in received["error"].replace(b" ", b"")


@both
def test_exec_with_terminal_and_input(client: Client, session_at: _Connect) -> None:
    """critest: Streaming: runtime should support exec with tty=true and stdin=true."""
    url = _exec_url(client, client.start(*LOOP), "sh", tty=True, stdin=True, stdout=True)
    end = b"\r" if client.kind.name == "runc" else b"\r\n"  # runc's lines may end with two carriage returns
    with session_at(url) as session:
        session.open("error", "stdin", "stdout", "resize")
        session.send("resize", b'{"Width":91,"Height":33}\n')
        session.send("stdin", b"echo hel''lo; stty size\n")
        session.until("stdout", b"hello" + end)
        session.until("stdout", b"33 91" + end)
        session.send("stdin", b"exit\n")
        session.until_end("error")


@both
def test_exec_with_input_that_ends(client: Client, session_at: _Connect) -> None:
    """The end of the client's input is the command's."""
    url = _exec_url(client, client.start(*LOOP), "wc", "-c", stdin=True, stdout=True, stderr=True)
    with session_at(url) as session:
        session.open("error", "stdin", "stdout", "stderr")
        session.send("stdin", b"x" * 100_000, last=True)
        assert session.until_end("stdout", "error")["stdout"] == b"100000\n"


@both
def test_attach(client: Client, session_at: _Connect) -> None:
    """critest: Streaming: runtime should support attach; what is typed reaches the shell, its answer comes back."""
    container = client.start("sh", stdin=True, stdin_once=True)
    request = cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    with session_at(client.runtime.Attach(request).url) as session:
        session.open("error", "stdin", "stdout", "stderr")
        session.send("stdin", b"echo -n hello\n")
        session.until("stdout", b"hello")
        session.send("stdin", b"exit 5\n")
        received = session.until_end("stdout")
    assert received["stdout"] == b"hello"
    assert client.ended(container).status.exit_code == 5


@both
def test_attach_ends_with_the_clients_input(client: Client, session_at: _Connect) -> None:
    """Without `stdinOnce` and a terminal the container goes on with its input open for the next client, as containerd
    and CRI-O have it (pkg/cri/io, internal/oci/runtime_oci.go).
    """
    container = client.start("sh", stdin=True)
    request = cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    for text in (b"hello", b"again"):
        with session_at(client.runtime.Attach(request).url) as session:
            session.open("error", "stdin", "stdout", "stderr")
            session.send("stdin", b"echo -n " + text + b"\n")
            session.until("stdout", text)
            session.send("stdin", b"", last=True)
            session.until_end("stdout")
    with session_at(client.runtime.Attach(request).url) as session:
        session.open("error", "stdin", "stdout", "stderr")
        session.send("stdin", b"exit 5\n")
        session.until_end("stdout")
    assert client.ended(container).status.exit_code == 5


def _fetch(client: Client, pod: str, port: int) -> bytes:
    """The answer of a web server in a pod through forwarded ports."""
    url = client.runtime.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[port])).url
    with spdy_session(url, "portforward.k8s.io") as session:
        session.open("error", "data", port=str(port), requestid="0")
        session.send("data", b"GET / HTTP/1.0\r\n\r\n")
        return session.until_end("data").get("data", b"")


def _listens(client: Client, container: str, port: int) -> None:
    wait = f"until grep -q ':{port:04X} ' /proc/net/tcp /proc/net/tcp6; do usleep 10000; done"
    client.execute(container, "sh", "-c", wait)


def test_port_forward(client: Client) -> None:
    """critest: Streaming: runtime should support portforward."""
    pod = client.pod(network=True, port_mappings=[cri.PortMapping(container_port=80)])
    _listens(client, client.start(image="web", pod=pod), 80)
    assert b"the page of the contract" in _fetch(client, pod, 80)


def test_port_forward_of_the_machine(client: Client) -> None:
    """critest: Streaming: runtime should support portforward in host network."""
    port, pod = free_port(), client.pod()
    command = ("httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", "/www")
    _listens(client, client.start(*command, image="web", pod=pod), port)
    assert b"the page of the contract" in _fetch(client, pod, port)


def test_port_forward_to_nobody(client: Client) -> None:
    """The error of a port without a listener comes on the error stream; the connection goes on with others."""
    pod, port = client.pod(network=True), free_port()
    client.start(*LOOP, pod=pod)
    url = client.runtime.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[port])).url
    with spdy_session(url, "portforward.k8s.io") as session:
        session.open("error", "data", port=str(port), requestid="0")
        assert str(port).encode() in session.until_end("error")["error"]


@pytest.mark.parametrize("streams", [{}, {"stdout": True, "stderr": True, "tty": True}], ids=["none", "tty-and-stderr"])
@pytest.mark.parametrize("method", ["Exec", "Attach"])
def test_streams_that_contradict(client: Client, method: str, streams: dict[str, bool]) -> None:
    """A session without any stream, or with a stream of errors beside a terminal, is refused as a wrong request."""
    container = client.start(*LOOP)
    command = {"cmd": ["true"]} if method == "Exec" else {}
    request = getattr(cri, f"{method}Request")(container_id=container, **command, **streams)
    assert refused(getattr(client.runtime, method), request).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_an_address_works_once(client: Client) -> None:
    """The address of a session is random and serves one connection: a second one is refused."""
    url = _exec_url(client, client.start(*LOOP), "true", stdout=True)
    with spdy_session(url) as session:
        session.open("error", "stdout")
        session.until_end("error")
    with connected(url) as connection:
        assert " 404 " in SpdyClient(connection, url, "v4.channel.k8s.io").head.splitlines()[0]


def test_sessions_side_by_side(client: Client) -> None:
    """Several sessions of one container do not mix their streams."""
    container = client.start(*LOOP)

    def say(number: int) -> bytes:
        url = _exec_url(client, container, "sh", "-c", f"echo {number}; echo {number}", stdout=True)
        with spdy_session(url) as session:
            session.open("error", "stdout")
            return session.until_end("stdout", "error")["stdout"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(say, range(8))) == [f"{number}\n{number}\n".encode() for number in range(8)]
