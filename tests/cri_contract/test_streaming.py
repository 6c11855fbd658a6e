"""critest: Streaming, by SPDY as critest speaks it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from beehive.http.spdy import SpdyConnection, StreamData, StreamEnd
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client, refused
from tests.edged.oci.streaming.clients import SpdyClient, connected
from tests.support.ports import free_port

_SECONDS = 60.0


class _Session:
    """A SPDY connection: its streams by kind, and what they have brought."""

    def __init__(self, connection: socket.socket, url: str, protocol: str) -> None:
        connection.settimeout(_SECONDS)
        self._client = SpdyClient(connection, url, protocol)
        assert " 101 " in self._client.head.splitlines()[0], self._client.head
        self.received: dict[str, bytes] = {}
        self._kinds: dict[int, str] = {}
        self._ended: set[str] = set()

    @property
    def _spdy(self) -> SpdyConnection:
        return self._client.spdy

    def open(self, *kinds: str, **headers: str) -> None:
        for kind in kinds:
            self._kinds[self._spdy.open_stream({"streamtype": kind, **headers})] = kind
        self._client.flush()

    def send(self, kind: str, data: bytes, *, last: bool = False) -> None:
        (stream,) = (number for number, each in self._kinds.items() if each == kind)
        self._spdy.send(stream, data, last=last)
        self._client.flush()

    def until(self, kind: str, text: bytes) -> None:
        while text not in self.received.get(kind, b""):
            assert self._receive(), f"the connection has ended: {self.received}"

    def until_end(self, *kinds: str) -> dict[str, bytes]:
        while not self._ended.issuperset(kinds):
            if not self._receive():
                break
        return self.received

    def _receive(self) -> bool:
        data = self._client.connection.recv(65_536)
        for event in self._spdy.receive(data):
            if isinstance(event, StreamData):
                kind = self._kinds[event.stream]
                self.received[kind] = self.received.get(kind, b"") + event.data
            elif isinstance(event, StreamEnd):
                self._ended.add(self._kinds[event.stream])
        return bool(data)


@contextmanager
def _session(url: str, protocol: str = "v4.channel.k8s.io") -> Iterator[_Session]:
    assert url.startswith("http://")
    with connected(url) as connection:
        yield _Session(connection, url, protocol)


def _exec_url(client: Client, container: str, *command: str, **streams: Any) -> str:
    return str(client.runtime.Exec(cri.ExecRequest(container_id=container, cmd=command, **streams)).url)


def test_exec(client: Client) -> None:
    """critest: Streaming: runtime should support exec with tty=false and stdin=false; the output is exact."""
    url = _exec_url(client, client.start(*LOOP), "echo", "-n", "hello", stdout=True, stderr=True)
    with _session(url) as session:
        session.open("error", "stdout", "stderr")
        received = session.until_end("stdout", "stderr", "error")
    assert received["stdout"] == b"hello"
    assert b'"status":"Success"' in received["error"].replace(b" ", b"")
    assert received.get("stderr", b"") == b""


def test_exec_exit_code(client: Client) -> None:
    """The code of a command that fails comes as `details.causes`, its errors on the stream for them."""
    command = ("sh", "-c", "echo oops >&2; exit 3")
    url = _exec_url(client, client.start(*LOOP), *command, stdout=True, stderr=True)
    with _session(url) as session:
        session.open("error", "stdout", "stderr")
        received = session.until_end("stdout", "stderr", "error")
    assert received["stderr"] == b"oops\n"
    assert b'"NonZeroExitCode"' in received["error"]
    assert b'"message":"3"' in received["error"].replace(b" ", b"")


def test_exec_with_terminal_and_input(client: Client) -> None:
    """critest: Streaming: runtime should support exec with tty=true and stdin=true."""
    url = _exec_url(client, client.start(*LOOP), "sh", tty=True, stdin=True, stdout=True)
    with _session(url) as session:
        session.open("error", "stdin", "stdout", "resize")
        session.send("resize", b'{"Width":91,"Height":33}\n')
        session.send("stdin", b"echo hel''lo; stty size\n")
        session.until("stdout", b"hello\r\n")
        session.until("stdout", b"33 91\r\n")
        session.send("stdin", b"exit\n")
        session.until_end("error")


def test_exec_with_input_that_ends(client: Client) -> None:
    """The end of the client's input is the command's."""
    url = _exec_url(client, client.start(*LOOP), "wc", "-c", stdin=True, stdout=True, stderr=True)
    with _session(url) as session:
        session.open("error", "stdin", "stdout", "stderr")
        session.send("stdin", b"x" * 100_000, last=True)
        assert session.until_end("stdout", "error")["stdout"] == b"100000\n"


def test_attach(client: Client) -> None:
    """critest: Streaming: runtime should support attach; what is typed reaches the shell, its answer comes back."""
    container = client.start("sh", stdin=True, stdin_once=True)
    request = cri.AttachRequest(container_id=container, stdin=True, stdout=True, stderr=True)
    with _session(client.runtime.Attach(request).url) as session:
        session.open("error", "stdin", "stdout", "stderr")
        session.send("stdin", b"echo -n hello\n")
        session.until("stdout", b"hello")
        session.send("stdin", b"exit 5\n")
        received = session.until_end("stdout")
    assert received["stdout"] == b"hello"
    assert client.ended(container).status.exit_code == 5


def _fetch(client: Client, pod: str, port: int) -> bytes:
    """The answer of a web server in a pod through forwarded ports."""
    url = client.runtime.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[port])).url
    with _session(url, "portforward.k8s.io") as session:
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
    """A port on which nothing listens is told on the stream for errors; the connection serves others on."""
    pod, port = client.pod(network=True), free_port()
    client.start(*LOOP, pod=pod)
    url = client.runtime.PortForward(cri.PortForwardRequest(pod_sandbox_id=pod, port=[port])).url
    with _session(url, "portforward.k8s.io") as session:
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
    with _session(url) as session:
        session.open("error", "stdout")
        session.until_end("error")
    with connected(url) as connection:
        assert " 404 " in SpdyClient(connection, url, "v4.channel.k8s.io").head.splitlines()[0]


def test_sessions_side_by_side(client: Client) -> None:
    """Several sessions of one container do not mix their streams."""
    container = client.start(*LOOP)

    def say(number: int) -> bytes:
        url = _exec_url(client, container, "sh", "-c", f"echo {number}; echo {number}", stdout=True)
        with _session(url) as session:
            session.open("error", "stdout")
            return session.until_end("stdout", "error")["stdout"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(say, range(8))) == [f"{number}\n{number}\n".encode() for number in range(8)]
