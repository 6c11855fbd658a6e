"""Clients that are slow, talk nonsense, or go."""

import select
import socket
import struct
import threading
from contextlib import ExitStack, suppress
from itertools import islice

import pytest

from beehive.clock import RealClock
from beehive.http.spdy import StreamEnd
from modules.runtimes.streaming import StreamingServer
from modules.runtimes.streaming.command_session import MOST_BEHIND, OPEN_SECONDS
from modules.runtimes.streaming.ending import MOST_ANSWERS
from modules.runtimes.streaming.server import MOST_CONNECTIONS
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.clients import SocketClient, SpdyClient, connected, echo_request
from tests.support.patience import PATIENCE

_SPDY_PING = struct.pack(">HHI", 0x8003, 6, 4) + struct.pack(">I", 1)
_WEB_SOCKET_PING = b"\x89\xfd\0\0\0\0" + b"x" * 125
_MOST_TAKEN = 16 * 1024 * 1024
_BLOCKED_MILLISECONDS = 2000


def test_a_client_that_stays_behind_is_left_and_the_container_goes_on(
    server: StreamingServer, backend: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """conmon blocks while its client does not read: the server reads on, for a bounded time, and then goes."""
    monkeypatch.setattr("modules.runtimes.streaming.command_session.STALL_SECONDS", 0.2)
    monkeypatch.setattr("modules.runtimes.streaming.ending.FLUSH_SECONDS", 0.2)
    url = server.attach_url(cri.AttachRequest(container_id="c", stdout=True))
    with connected(url) as connection:
        client = SpdyClient(connection, url, "v4.channel.k8s.io")
        client.open("error", "stdout")
        backend.conmon.container.settimeout(PATIENCE)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(100 * MOST_BEHIND // 8192):
                backend.conmon.container.send(b"\x02" + b"x" * 8191)
        assert backend.conmon.closed.wait(PATIENCE)


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff" * 100,
        struct.pack(">HHI", 0x8003, 1, 0xFFFFFF),
        struct.pack(">II", 9, 5) + b"abcde",
        struct.pack(">HHI", 0x8003, 6, 4) + struct.pack(">I", 3),
    ],
)
def test_noise_ends_a_session_and_no_other(server: StreamingServer, noise: bytes) -> None:
    """The server serves on."""
    url = server.exec_url(echo_request())
    with connected(url) as connection:
        SpdyClient(connection, url, "v4.channel.k8s.io")
        connection.sendall(noise)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(100):
            pass
    url = server.exec_url(echo_request())
    with connected(url) as connection:
        client = SpdyClient(connection, url, "v4.channel.k8s.io")
        _, output = client.open("error", "stdout")
        assert client.texts()[output] == b"hello"


def test_stop_cuts_the_streams(backend: LocalBackend) -> None:
    """Commands whose clients are cut end."""
    clock = RealClock()
    server = StreamingServer(backend, clock)
    server.start()
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["sleep", "1000"], stdout=True))
    with connected(url) as connection:
        client = SpdyClient(connection, url, "v4.channel.k8s.io")
        client.open("error", "stdout")
        assert backend.begun.wait(PATIENCE)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join()
    clock.close()
    assert backend.processes[0].wait() == -9


@pytest.mark.parametrize("is_web_socket", [False, True])
@pytest.mark.parametrize("kind", ["exec", "portforward"])
def test_pings_without_end_are_not_answered_without_end(
    server: StreamingServer, monkeypatch: pytest.MonkeyPatch, kind: str, is_web_socket: bool
) -> None:
    """A client that takes no answers is read no more: the server takes no 16 MiB of it."""
    assert MOST_ANSWERS <= 2 << 20
    for session in ("command_session", "port_session"):
        monkeypatch.setattr(f"modules.runtimes.streaming.{session}.MOST_ANSWERS", 1 << 18)
    if kind == "exec":
        url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["sleep", "1000"], stdout=True))
    else:
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
    with connected(url) as connection:
        if is_web_socket:
            SocketClient(connection, url, "SPDY/3.1+portforward.k8s.io", "v5.channel.k8s.io")
        else:
            client = SpdyClient(connection, url)
            client.open("error", "stdout", port="1") if kind == "exec" else None
        assert _taken(connection, _WEB_SOCKET_PING if is_web_socket else _SPDY_PING) < _MOST_TAKEN


def _taken(connection: socket.socket, ping: bytes) -> int:
    """Send until the server takes nothing more; return how many bytes it has taken, at most some `_MOST_TAKEN`."""
    connection.settimeout(0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    data = ping * 1000
    poll = select.poll()
    poll.register(connection, select.POLLOUT)
    taken = 0
    while taken < _MOST_TAKEN and poll.poll(_BLOCKED_MILLISECONDS):
        try:
            taken += connection.send(data[taken % len(ping) :])
        except (BlockingIOError, ConnectionError):
            break
    return taken


def test_other_texts_than_base64_end_a_session(server: StreamingServer, backend: LocalBackend) -> None:
    """And its command."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["cat"], stdin=True, stdout=True))
    with connected(url) as connection:
        client = SocketClient(connection, url, "v4.base64.channel.k8s.io")
        client.send(b"0not base64!")
        assert list(client.messages()) == [b"1"]
    assert backend.processes[0].wait() == -9


def test_a_client_that_sends_no_request_is_left(server: StreamingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ten seconds."""
    monkeypatch.setattr("modules.runtimes.streaming.connection.HEAD_SECONDS", 0.1)
    with (
        connected(server.exec_url(echo_request())) as connection,
        suppress(BrokenPipeError, ConnectionResetError),  # it was left before it said anything
    ):
        connection.sendall(b"POST /exec")
        assert connection.recv(1000) == b""


class _StandingClock(RealClock):
    """A clock that a test sets."""

    seconds = 0.0

    def monotonic(self) -> float:
        """See `Clock`."""
        return self.seconds


def test_a_client_that_opens_no_streams_is_left(backend: LocalBackend) -> None:
    """It has thirty seconds, whatever it sends meanwhile."""
    clock = _StandingClock()
    server = StreamingServer(backend, clock)
    server.start()
    url = server.exec_url(echo_request())
    with connected(url) as connection:
        client = SpdyClient(connection, url, "v4.channel.k8s.io")
        client.open("stdout", "nonsense", "stdout")
        ends = (event.stream for event in client.events() if isinstance(event, StreamEnd))
        assert list(islice(ends, 2)) == [3, 5]
        clock.seconds = OPEN_SECONDS
        with suppress(BrokenPipeError, ConnectionResetError):  # it was left before it said more
            client.open("nonsense")
            assert list(ends) in ([], [7])
    server.stop()
    clock.close()


def test_connections_that_ask_for_nothing_make_room(server: StreamingServer) -> None:
    """Any process of the node's network can make them."""
    url = server.exec_url(cri.ExecRequest(container_id="c", cmd=["cat"], stdin=True, stdout=True))
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(url)) for _ in range(MOST_CONNECTIONS + 1)]
        assert silent[0].recv(100) == b""
        client = SpdyClient(stack.enter_context(connected(url)), url, "v4.channel.k8s.io")
        for _ in range(MOST_CONNECTIONS):
            stack.enter_context(connected(url))
        error, stdin, output = client.open("error", "stdin", "stdout")
        client.spdy.send(stdin, b"still served", last=True)
        client.flush()
        assert client.texts()[output] == b"still served"
        assert error
