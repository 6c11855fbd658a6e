"""`edgecore port-forward`: where it listens, and what it carries."""

import errno
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

import pytest

from modules.apimachinery.types import Pod, from_value
from modules.processes.common.pod_commands import port_forward
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.common.pod_commands.errors import NodeError
from modules.processes.common.pod_commands.port_forward import (
    PortPair,
    SpdyPorts,
    addresses_of,
    listen,
    port_pair,
)
from tests.modules.processes.common.pod_commands.spdy_server import FIN, SpdyPeer, SpdySocket, accept_streams

POD = from_value(Pod, {"spec": {"containers": [{"name": "a", "ports": [{"name": "web", "containerPort": 8080}]}]}})


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("80", PortPair(80, 80)),
        ("8000:80", PortPair(8000, 80)),
        (":80", PortPair(0, 80)),
        ("0:80", PortPair(0, 80)),
        ("8000:web", PortPair(8000, 8080)),
        ("web", PortPair(8080, 8080)),
    ],
)
def test_ports(text: str, pair: PortPair) -> None:
    assert port_pair(text, POD) == pair


@pytest.mark.parametrize("text", ["", ":", "x", "x:80", "80:x", "65536", "80:0", "-1", "80:80:80"])
def test_other_texts_than_ports(text: str) -> None:
    with pytest.raises(NodeError, match="no ports"):
        port_pair(text, POD)


def test_addresses() -> None:
    assert addresses_of("localhost") == ("127.0.0.1", "::1")
    assert addresses_of("127.0.0.1, ::") == ("127.0.0.1", "::")
    with pytest.raises(NodeError, match="no address"):
        addresses_of("example.org")


def test_it_prints_its_address(capsys: pytest.CaptureFixture[str]) -> None:
    """On both of localhost's addresses where the machine has them, on one port."""
    with ExitStack() as stack:
        routes = listen(PortPair(0, 80), ("127.0.0.1", "::1"), stack)
        port = routes[0].listening.getsockname()[1]
        assert f"Forwarding from 127.0.0.1:{port} -> 80\n" in capsys.readouterr().out
        with pytest.raises(NodeError, match=r"already in use .*:80 takes any free one"):
            listen(PortPair(port, 80), ("127.0.0.1", "::1"), stack)
        with pytest.raises(NodeError, match=r"cannot listen on 192\.0\.2\.1"):
            listen(PortPair(0, 80), ("192.0.2.1",), stack)


@pytest.mark.parametrize(
    ("errors", "local", "heard"),
    [
        ({"::1": errno.EADDRNOTAVAIL}, 8000, 1),
        ({"::1": errno.EADDRINUSE}, 8000, 0),
        ({"::1": errno.EADDRINUSE}, 0, 1),
        ({"127.0.0.1": errno.EADDRNOTAVAIL, "::1": errno.EADDRNOTAVAIL}, 8000, 0),
    ],
)
def test_one_of_the_addresses_of_localhost_may_be_missing_but_not_in_use(
    monkeypatch: pytest.MonkeyPatch, errors: dict[str, int], local: int, heard: int
) -> None:
    """Another process would get what is meant for the pod."""

    def bind(_listening: socket.socket, address: str, _port: int) -> None:
        if address in errors:
            raise OSError(errors[address], "of this test")

    monkeypatch.setattr(port_forward, "_bind", bind)
    with ExitStack() as stack, nullcontext() if heard else pytest.raises(NodeError, match="cannot listen on"):
        assert len(listen(PortPair(local, 80), ("127.0.0.1", "::1"), stack)) == heard


def carried(ports: SpdyPorts, port: int, given: bytes) -> tuple[bytes, list[BaseException]]:
    """What a client gets that sends something and ends its side, and what went wrong."""
    ours, theirs = socket.socketpair()
    errors: list[BaseException] = []

    def carry() -> None:
        try:
            ports.carry(theirs, port)
        except (NodeError, OSError) as error:
            errors.append(error)
        finally:
            theirs.close()

    thread = threading.Thread(target=carry)
    thread.start()
    sender = threading.Thread(target=_send, args=(ours, given))
    sender.start()
    received = b""
    with ours, suppress(ConnectionResetError):  # of a port that took nothing of what was sent
        while data := ours.recv(65_536):
            received += data
    sender.join()
    thread.join()
    return received, errors


def _send(connection: socket.socket, given: bytes) -> None:
    try:
        connection.sendall(given)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _echo(connection: socket.socket, _target: str) -> None:
    """Sends the port, then echoes until the client's side ends; then ends its own."""
    peer = SpdyPeer(connection)
    first, second = accept_streams(peer, 2)
    assert first.flags & FIN and {**first.headers, "streamtype": "data"} == second.headers
    peer.data("data", second.headers["port"].encode() + b":")
    while (frame := peer.read()) is not None and frame.kind == 0:
        peer.data("data", frame.content)
        if frame.flags & FIN:
            break
    peer.data("error", b"", last=True)
    peer.data("data", b"bye", last=True)


def _refuse(connection: socket.socket, _target: str) -> None:
    peer = SpdyPeer(connection)
    accept_streams(peer, 2)
    peer.data("error", b"connection refused: \x1b[31mred", last=True)
    peer.data("data", b"", last=True)


def _hang_up(connection: socket.socket, _target: str) -> None:
    connection.shutdown(socket.SHUT_RDWR)


def _leave(connection: socket.socket, _target: str) -> None:
    """Gives the data up in the middle."""
    peer = SpdyPeer(connection)
    accept_streams(peer, 2)
    peer.data("data", b"not all")
    peer.control(3, struct.pack(">II", peer.streams["data"], 5))
    peer.data("error", b"", last=True)


def test_a_pod_that_is_left_looks_broken_off(tmp_path: Path) -> None:
    """Its client would take what it has had for all."""
    with SpdySocket(tmp_path / "s", _leave):
        _, errors = carried(SpdyPorts(NodeClient(tmp_path / "s"), "/x"), 80, b"GET")
    assert isinstance(errors[0], ConnectionResetError)


def test_a_connection_into_a_pod(tmp_path: Path) -> None:
    """Much of it, and each side may end its direction."""
    given = bytes(range(256)) * 8000
    with SpdySocket(tmp_path / "s", _echo) as node:
        received, errors = carried(SpdyPorts(NodeClient(tmp_path / "s"), "/portForward/ns/p"), 80, given)
    assert (received == b"80:" + given + b"bye", errors, node.targets) == (True, [], ["/portForward/ns/p"])


@pytest.mark.parametrize(("behaviour", "says"), [(_refuse, r"refused: \\x1b\[31mred"), (_hang_up, None)])
def test_a_port_that_does_not_answer(
    tmp_path: Path, behaviour: Callable[[socket.socket, str], None], says: str | None
) -> None:
    with SpdySocket(tmp_path / "s", behaviour):
        received, errors = carried(SpdyPorts(NodeClient(tmp_path / "s"), "/x"), 80, b"GET")
    assert received == b""
    if says is not None:
        with pytest.raises(NodeError, match=says):
            raise errors[0]
