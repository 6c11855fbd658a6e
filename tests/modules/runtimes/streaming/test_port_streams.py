"""Forwarded ports, over each form."""

import socket
import struct
import threading
from pathlib import Path

import pytest

from beehive.http.spdy import StreamData, StreamEnd
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces, connect_in_namespace
from modules.runtimes.streaming import StreamingServer, connect_to_loopback, port_session
from protos.cri.v1 import api_pb2 as cri
from tests.modules.runtimes.oci.network.machine import needs_root
from tests.modules.runtimes.streaming.backend import LocalBackend
from tests.modules.runtimes.streaming.clients import SocketClient, SpdyClient, connected
from tests.support.failing import Failing
from tests.support.patience import PATIENCE
from tests.support.ports import needs_ipv6


def test_a_port_over_web_socket_channels(server: StreamingServer) -> None:
    """Each channel begins with its port; a failure comes on the error channel."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        port, nobody = listening.getsockname()[1], deaf.getsockname()[1]
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s", port=[port, nobody]))
        with connected(url) as connection:
            client = SocketClient(connection, url, "v4.channel.k8s.io")
            messages = client.messages()
            begun = [next(messages) for _ in range(4)]
            assert begun == [bytes([n]) + each.to_bytes(2, "little")
                             for n, each in enumerate((port, port, nobody, nobody))]  # fmt: skip
            assert b"Connection refused" in next(messages)
            client.send(b"\0question")
            with listening.accept()[0] as pod:
                assert pod.recv(100) == b"question"
                pod.sendall(b"answer")
            assert next(messages) == b"\0answer"
            assert list(messages) == []


def test_streams_of_a_port_may_come_in_any_order(server: StreamingServer) -> None:
    """Also without a name, and with data before the stream of errors; a second one of a kind is an error."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url) as connection:
            client = SpdyClient(connection, url, "portforward.k8s.io")
            (first,) = client.open("data", port=port, requestID="1")
            client.spdy.send(first, b"early")
            client.open("error", port=port, requestID="1")
            with listening.accept()[0] as pod:
                assert pod.recv(100) == b"early"
                pod.shutdown(socket.SHUT_WR)
                assert next(event for event in client.events() if isinstance(event, StreamEnd)).stream == first
                client.spdy.reset(first)
                client.flush()
                assert pod.recv(100) == b""
            client.open("error", "data", port=port)
            listening.accept()[0].close()
            client.open("error", "error", port=port, requestID="2")
            assert all(isinstance(event, (StreamData, StreamEnd)) for event in client.events())


def test_a_port_that_takes_nothing_holds_its_client_only(server: StreamingServer) -> None:
    """What is held for it is bounded."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url) as connection:
            client = SpdyClient(connection, url, "portforward.k8s.io")
            _, stream = client.open("error", "data", port=port, requestID="1")
            with listening.accept()[0]:
                connection.settimeout(0.2)
                client.spdy.send(stream, b"x" * (64 << 20))
                with pytest.raises(TimeoutError):
                    client.flush()


@needs_ipv6
def test_a_port_of_this_machine_is_reached_at_either_loopback() -> None:
    """127.0.0.1 first, then ::1."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        with (
            socket.create_server(("::1", port), family=socket.AF_INET6),
            connect_to_loopback(port) as connection,
        ):
            assert connection.getpeername()[0] == "::1"
        listening.listen()
        with connect_to_loopback(port) as connection:
            assert connection.getpeername()[0] == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        connect_to_loopback(1)


@needs_root
def test_a_port_of_a_sandbox_is_reached_in_its_network(tmp_path: Path) -> None:
    """And nowhere else."""
    namespaces = PodNamespaces(tmp_path / "ns")
    try:
        netns = namespaces.pin("a", network=True, ipc=False, uts=False, hostname="", sysctls={}).network
        assert netns is not None
        with in_network_namespace(netns, lambda: socket.create_server(("127.0.0.1", 0))) as listening:
            port = listening.getsockname()[1]
            with connect_in_namespace(netns, port), listening.accept()[0]:
                pass
            namespaces.unpin("a")
            with pytest.raises(FileNotFoundError):
                connect_in_namespace(netns, port)
    finally:
        namespaces.remove()


def test_a_broken_port_forward_is_reported(server: StreamingServer) -> None:
    """A reset of the connection in the pod is an error of it, and the others go on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url) as connection:
            client = SpdyClient(connection, url, "portforward.k8s.io")
            error, _ = client.open("error", "data", port=port, requestID="1")
            pod, _ = listening.accept()
            pod.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            pod.close()
            said = next(event for event in client.events() if isinstance(event, StreamData))
            assert (said.stream, b"reset" in said.data) == (error, True)
            client.open("error", "data", port=port, requestID="2")
            listening.accept()[0].close()
            for wrong in ({"port": "0"}, {"port": "x"}, {}):
                (stream,) = client.open("data", **wrong)
                assert StreamEnd(stream, reset=True) in client.events()


@pytest.mark.parametrize("bound", ["MOST_OF_A_CLIENT", "_places"])
def test_forwarded_connections_take_so_many_descriptors(
    server: StreamingServer, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """A client with one port forwarding could take all of edgecore's, and its databases, probes and pods with them."""
    if bound == "_places":
        monkeypatch.setattr(server, bound, threading.Semaphore(2))
    else:
        monkeypatch.setattr(port_session, bound, 2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        port = str(listening.getsockname()[1])
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url) as connection:
            client = SpdyClient(connection, url, "portforward.k8s.io")
            for number in range(2):
                client.open("error", "data", port=port, requestID=str(number))
            pods = [listening.accept()[0] for _ in range(2)]
            error, _ = client.open("error", "data", port=port, requestID="2")
            said = next(event for event in client.events() if isinstance(event, StreamData))
            assert (said.stream, b"too many connections" in said.data) == (error, True)
            pods[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            pods.pop(0).close()
            assert b"reset" in next(event for event in client.events() if isinstance(event, StreamData)).data
            client.open("error", "data", port=port, requestID="3")
            for each in (*pods, listening.accept()[0]):
                each.close()


@pytest.mark.parametrize(
    "error", [None, ConnectionRefusedError("of this test"), RuntimeError("can't start new thread")]
)
def test_the_place_of_a_forwarded_connection_comes_back(
    server: StreamingServer, backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    """Whether its client has gone, or it could not be made: in the end no port would be forwarded any more."""
    places = threading.Semaphore(1)
    monkeypatch.setattr(server, "_places", places)
    if error is not None:
        monkeypatch.setattr(backend, "port_forward", Failing(0, error).call(backend.port_forward))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
        url = server.port_forward_url(cri.PortForwardRequest(pod_sandbox_id="s"))
        with connected(url) as connection:
            client = SpdyClient(connection, url, "portforward.k8s.io")
            client.open("error", "data", port=port, requestID="1")
            if error is None:
                listening.accept()[0].close()
            elif isinstance(error, OSError):
                assert any(isinstance(event, StreamData) for event in client.events())
            else:  # the session ends with it
                assert not any(isinstance(event, StreamData) for event in client.events())
        assert places.acquire(timeout=PATIENCE if error is None else 0)
    assert not places.acquire(blocking=False)
