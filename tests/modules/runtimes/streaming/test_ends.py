"""The end of a stream whose client is behind: it has all of the output and the exit code, or an end without a status.

The connections' buffers are small and the output is larger, so that the server has bytes to send when the command ends.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from beehive import RealClock
from beehive.simulation import Simulation
from edged.server.streaming import relay
from modules.runtimes.streaming import StreamingServer, ending
from modules.runtimes.streaming.command_session import MOST_BEHIND, CommandSession
from modules.runtimes.streaming.link import SocketLink
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.clients import SocketClient, SpdyClient, connected
from tests.support.failing import Failing, PlannedError
from tests.support.patience import PATIENCE

_OUTPUT = MOST_BEHIND // 2
"""Bytes of a command that ends although nobody reads them, also in base64."""
_BUFFER = 16 * 1024
_COMMAND = ["sh", "-c", f"head -c {_OUTPUT} /dev/zero; exit 7"]
_WEB_SOCKETS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_OF_A_PORT = 128 * 1024
"""Bytes of a pod, which the server holds."""
_FEW = 100
"""Bytes that a client takes at a time."""


@pytest.fixture(autouse=True)
def _small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's kernel holds little for a client."""

    def made(connection: socket.socket, first: bytes = b"") -> SocketLink:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        return SocketLink(connection, first)

    monkeypatch.setattr("modules.runtimes.streaming.connection.SocketLink", made)


@pytest.fixture
def at_the_end(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a session has ended, and the rest is sent."""
    begun = threading.Event()

    def linger(*given: Any, **more: Any) -> None:
        begun.set()
        ending.linger(*given, **more)

    for each in ("command_session", "port_session"):
        monkeypatch.setattr(f"modules.runtimes.streaming.{each}.linger", linger)
    return begun


def test_a_session_that_fails_closes_its_command() -> None:
    """A runtime has few places for commands, and each has descriptors."""
    closed: list[bool] = []

    def close() -> None:
        closed.append(True)

    process = SimpleNamespace(stdin=None, stdout=None, stderr=None, close=close)
    process.kill = Failing(0).call(close)
    link = SimpleNamespace(send=Failing(0, MemoryError()).call(close), fileno=lambda: 0)
    channels: Any = SimpleNamespace(link=link, complete=True)
    request: Any = SimpleNamespace(kind="attach", target="c1", tty=False, stdin=False)
    backend: Any = SimpleNamespace(attach=lambda *_, **__: process)
    with pytest.raises(PlannedError):
        CommandSession(channels, request, backend, Simulation(1).clock).run()
    assert closed == [True]


@pytest.fixture(params=["the runtime", "the node"])
def exec_url(request: pytest.FixtureRequest, server: StreamingServer) -> Iterator[str]:
    """The address of a command, at the runtime or behind the relay of the node's server."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=_COMMAND, stdout=True))
    if request.param == "the runtime":
        yield url
        return
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_relay_one, args=(listening, server.port))
        thread.start()
        yield url.replace(f":{server.port}/", f":{listening.getsockname()[1]}/")
        thread.join(PATIENCE)
        assert not thread.is_alive()


def _relay_one(listening: socket.socket, port: int) -> None:
    client, _ = listening.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
    with client, socket.create_connection(("127.0.0.1", port)) as runtime:
        runtime.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        with suppress(ConnectionError):
            relay(client, runtime, b"", RealClock(), 3600.0)


def _begun(connection: socket.socket, url: str, protocol: str) -> SocketClient:
    """A client of a WebSocket, whose command runs."""
    client = SocketClient(connection, url, protocol)
    if "v5" in protocol:
        client.answer_pings()
    return client


@pytest.mark.parametrize("protocol", _WEB_SOCKETS)
def test_a_web_socket_that_is_read_late_is_whole(exec_url: str, at_the_end: threading.Event, protocol: str) -> None:
    """Our own close, which waits behind the output, is no end of the client."""
    with connected(exec_url, _BUFFER) as connection:
        client = _begun(connection, exec_url, protocol)
        assert at_the_end.wait(PATIENCE)
        connection.recv(_FEW, socket.MSG_PEEK)
        messages = list(client.messages())
        client.flush()
    lengths = [len(each) for each in messages if each[:1] in (b"\1", b"1")]
    if "base64" in protocol:
        assert sum((length - 1) // 4 * 3 for length in lengths) >= _OUTPUT
    else:
        assert sum(length - 1 for length in lengths) == _OUTPUT
    assert b'"7"' in messages[-1] or "base64" in protocol
    assert client.protocol.close_rcvd is not None


def test_spdy_that_is_read_late_is_whole(exec_url: str, at_the_end: threading.Event) -> None:
    """All of the output, and the exit code."""
    with connected(exec_url, _BUFFER) as connection:
        client = SpdyClient(connection, exec_url, "v4.channel.k8s.io")
        error, output = client.open("error", "stdout")
        assert at_the_end.wait(PATIENCE)
        texts = client.texts()
    assert len(texts[output]) == _OUTPUT
    assert b'"7"' in texts[error]


@pytest.mark.parametrize("protocol", ["spdy", *_WEB_SOCKETS])
def test_a_client_that_has_ended_its_side_has_the_rest(
    exec_url: str, at_the_end: threading.Event, protocol: str
) -> None:
    """It sends no more; it may read on."""
    with connected(exec_url, _BUFFER) as connection:
        client = SpdyClient(connection, exec_url, "v4.channel.k8s.io") if protocol == "spdy" else None
        if client is not None:
            client.open("error", "stdout")
        messages = _begun(connection, exec_url, protocol) if client is None else None
        assert at_the_end.wait(PATIENCE)
        connection.shutdown(socket.SHUT_WR)
        if client is not None:
            assert len(client.texts()[3]) == _OUTPUT
        if messages is not None:
            assert [frame.opcode for frame in messages.frames()][-1] == 8, "closed"


@pytest.mark.parametrize("protocol", ["spdy", *_WEB_SOCKETS])
@pytest.mark.parametrize("is_gone", [False, True])
def test_a_client_that_takes_nothing_is_left(
    server: StreamingServer,
    at_the_end: threading.Event,
    backend: LocalBackend,
    monkeypatch: pytest.MonkeyPatch,
    protocol: str,
    is_gone: bool,
) -> None:
    """After the idle time, or at once if it is gone. Its connection is reset: kubectl takes an end of SPDY without
    a status for success.
    """
    if not is_gone:
        monkeypatch.setattr(ending, "IDLE_SECONDS", 0.1)
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=_COMMAND, stdout=True))
    with connected(url, _BUFFER) as connection:
        if protocol == "spdy":
            client = SpdyClient(connection, url, "v4.channel.k8s.io")
            client.open("error", "stdout")
        else:
            _begun(connection, url, protocol)
        assert at_the_end.wait(PATIENCE)
        [thread] = [each for each in threading.enumerate() if each.name == "streaming-connection"]
        if is_gone:
            connection.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        if not is_gone:
            with pytest.raises(ConnectionResetError):
                while connection.recv(_OUTPUT):
                    pass
    assert backend.processes[0].wait() == 7


def test_a_client_that_goes_ends_a_command_that_writes(server: StreamingServer, backend: LocalBackend) -> None:
    """Also while it is behind."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["cat", "/dev/zero"], stdout=True))
    with connected(url, _BUFFER) as connection:
        _begun(connection, url, "v5.channel.k8s.io")
        assert backend.begun.wait(PATIENCE)
        connection.recv(_FEW)
    assert backend.processes[0].wait() == -9


def test_a_client_that_closes_in_order_ends_a_command_at_once(server: StreamingServer, backend: LocalBackend) -> None:
    """Its last input and its close may come in one piece, and it waits for the server's end (RFC 6455 §7.1.1)."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["sleep", "1000"], stdin=True, stdout=True))
    with connected(url) as connection:
        client = _begun(connection, url, "v4.channel.k8s.io")
        assert backend.begun.wait(PATIENCE)
        client.protocol.send_binary(b"\0text")
        client.protocol.send_close(1000)
        connection.sendall(b"".join(client.protocol.data_to_send()))
        assert [frame.opcode for frame in client.frames()][-1] == 8
    assert backend.processes[0].wait() == -9


def test_a_port_over_channels_that_is_read_late_is_whole(server: StreamingServer, at_the_end: threading.Event) -> None:
    """The WebSocket is closed behind the last bytes of the pod."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s", port=[port]))
        with connected(url, _BUFFER) as connection:
            client = SocketClient(connection, url, "v4.channel.k8s.io")
            pod, _ = listening.accept()
            with pod:
                pod.settimeout(PATIENCE)
                pod.sendall(bytes(_OF_A_PORT))
                pod.shutdown(socket.SHUT_WR)
                assert at_the_end.wait(PATIENCE)
                received = sum(len(each) - 1 for each in client.messages() if each[:1] == b"\0")
    assert received == _OF_A_PORT + 2, "and the number of the port"


def test_a_port_that_takes_no_more_has_answered_before(server: StreamingServer) -> None:
    """As a server of HTTP that refuses a long body: it answers, and ends without reading it."""
    answer = bytes(_OF_A_PORT)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url, _BUFFER) as connection:
            client = SpdyClient(connection, url)
            client.open("error", "data", port=str(port))
            pod, _ = listening.accept()
            client.spdy.send(3, b"first")
            client.flush()
            with pod:
                assert pod.recv(_FEW) == b"first"
                pod.sendall(answer)
                client.spdy.send(3, b"second")
                client.flush()
                pod.recv(1)
            client.spdy.send(3, b"third")
            client.flush()
            connection.shutdown(socket.SHUT_WR)
            assert client.texts()[3] == answer
