"""Asking over real sockets, against servers that behave well and badly."""

import contextlib
import errno
import os
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock, patch

import grpc
import pytest

from beehive.clock import Clock, RealClock
from beehive.sockets import dialling
from edged.cri.contract import ContainerId
from edged.errors import NetworkError, PlainAnswerError
from edged.probes import sockets as grpc_health
from edged.probes.model import ProbeKind, ProbeOutcome
from edged.probes.runner import ContainerProbeRunner, ProbeAttempt
from edged.probes.sockets import MAX_REDIRECTS, SocketNetwork
from edged.probes.targets import GrpcTarget, HttpTarget, TcpTarget
from tests.support.patience import PATIENCE

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
"""Seconds: longer than any of these takes when all is well."""
SHORT = 0.2

Serve = Callable[[socket.socket], None]


class Server:
    """Listens on a free port and hands each connection to `serve`; ends with the test."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                with contextlib.suppress(OSError):
                    self._serve(connection)

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        for each in (self._listener, *self._open):
            each.close()


@pytest.fixture
def network() -> Iterator[SocketNetwork]:
    clock = RealClock()
    yield SocketNetwork(clock)
    clock.close()


@pytest.fixture
def listen() -> Iterator[Callable[[Serve], Server]]:
    servers: list[Server] = []

    def start(serve: Serve) -> Server:
        servers.append(Server(serve))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def answers(*chunks: bytes) -> Serve:
    """Reads a request, sends the chunks, and leaves the connection open, as a server does that keeps alive."""

    def serve(connection: socket.socket) -> None:
        asked = b"?"
        while asked and not asked.endswith(b"\r\n\r\n"):
            asked = connection.recv(65536)
        for chunk in chunks:
            connection.sendall(chunk)

    return serve


def then_closes(serve: Serve) -> Serve:
    def closing(connection: socket.socket) -> None:
        serve(connection)
        connection.close()

    return closing


def target(port: int, path: str = "/") -> HttpTarget:
    return HttpTarget("http", "127.0.0.1", port, path)


@pytest.mark.parametrize(
    ("serve", "status"),
    [
        pytest.param(answers(OK), 200, id="length"),
        pytest.param(answers(OK[:20], OK[20:]), 200, id="in pieces"),
        pytest.param(answers(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"), 503, id="no body"),
        pytest.param(answers(b"HTTP/1.1 204 Nothing\r\n\r\n"), 204, id="no body possible"),
        pytest.param(answers(b"HTTP/1.1 100 Go on\r\n\r\n" + OK), 200, id="after a 100"),
        pytest.param(then_closes(answers(b"HTTP/1.0 200 OK\r\n\r\nold")), 200, id="until closed"),
        pytest.param(
            answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), 200, id="chunked"
        ),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 20000), 200, id="10 KiB of an endless body"),
        pytest.param(
            answers(b"HTTP/1.1 302 F\r\nLocation: http://else.where/\r\nContent-Length: 0\r\n\r\n"), 302, id="302"
        ),
    ],
)
def test_a_get_has_the_status_of_its_answer(
    network: SocketNetwork, listen: Callable[[Serve], Server], serve: Serve, status: int
) -> None:
    """The server need not close the connection for that."""
    assert network.http_get(target(listen(serve).port), PATIENCE) == status


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(answers(), id="says nothing"),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\n"), id="stops within the head"),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), id="stops within the body"),
    ],
)
def test_a_server_that_is_too_slow_is_not_waited_for(
    network: SocketNetwork, listen: Callable[[Serve], Server], serve: Serve
) -> None:
    with pytest.raises(NetworkError, match="not in time"):
        network.http_get(target(listen(serve).port), SHORT)


@pytest.mark.parametrize(
    "serve",
    [
        pytest.param(then_closes(answers()), id="closes at once"),
        pytest.param(then_closes(answers(b"HTTP/1.1 200")), id="closes within the head"),
        pytest.param(answers(b"SSH-2.0-x\r\n\r\n"), id="another protocol"),
        pytest.param(answers(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000), id="a head without end"),
    ],
)
def test_an_invalid_answer_is_an_error(network: SocketNetwork, listen: Callable[[Serve], Server], serve: Serve) -> None:
    with pytest.raises(NetworkError):
        network.http_get(target(listen(serve).port), PATIENCE)


def test_a_trickle_does_not_outlast_the_limit(network: SocketNetwork, listen: Callable[[Serve], Server]) -> None:
    """Each byte comes in time; the whole does not."""
    clock = RealClock()

    def serve(connection: socket.socket) -> None:
        pause = threading.Event()
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not pause.wait(0.02):
            connection.sendall(b"H")

    begin = clock.monotonic()
    with pytest.raises(NetworkError, match="not in time"):
        network.http_get(target(listen(serve).port), SHORT)
    assert clock.monotonic() - begin < PATIENCE
    clock.close()


def test_redirects_are_followed_and_not_for_ever(network: SocketNetwork, listen: Callable[[Serve], Server]) -> None:
    hops = iter(range(MAX_REDIRECTS))

    def serve(connection: socket.socket) -> None:
        hop = next(hops, None)
        step = OK if hop is None else f"HTTP/1.1 302 F\r\nLocation: /{hop}\r\nContent-Length: 0\r\n\r\n".encode()
        then_closes(answers(step))(connection)

    assert network.http_get(target(listen(serve).port), PATIENCE) == 200
    asked: list[socket.socket] = []

    def circle(connection: socket.socket) -> None:
        asked.append(connection)
        then_closes(answers(b"HTTP/1.1 302 F\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"))(connection)

    with pytest.raises(NetworkError, match="redirects"):
        network.http_get(target(listen(circle).port), PATIENCE)
    assert len(asked) == MAX_REDIRECTS + 1


def test_redirects_have_one_limit_together(listen: Callable[[Serve], Server]) -> None:
    clock = Mock(monotonic=Mock(return_value=0.0))

    def slow(connection: socket.socket) -> None:
        clock.monotonic.return_value += PATIENCE / 2
        then_closes(answers(b"HTTP/1.1 302 F\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"))(connection)

    with pytest.raises(NetworkError, match="not in time"):
        SocketNetwork(clock).http_get(target(listen(slow).port), PATIENCE)


def test_a_server_that_ends_within_its_body_has_answered(
    network: SocketNetwork, listen: Callable[[Serve], Server]
) -> None:
    server = listen(then_closes(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")))
    assert network.http_get(target(server.port), PATIENCE) == 200


def test_a_server_without_tls_is_not_waited_for_in_the_handshake(
    network: SocketNetwork, listen: Callable[[Serve], Server]
) -> None:
    """It reads, and says nothing."""

    def silent(connection: socket.socket) -> None:
        connection.recv(65536)

    server = listen(silent)
    with pytest.raises(NetworkError, match="not in time"):
        network.http_get(HttpTarget("https", "127.0.0.1", server.port, "/"), SHORT)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_https_does_not_look_at_the_certificate(
    network: SocketNetwork, listen: Callable[[Serve], Server], tmp_path: Path
) -> None:
    pem = tmp_path / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=x",
         "-keyout", str(tmp_path / "key.pem"), "-out", str(pem)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, tmp_path / "key.pem")
    names: list[str | None] = []
    context.sni_callback = lambda _connection, name, _context: names.append(name)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as encrypted:
            answers(OK)(encrypted)

    port = listen(serve).port
    for host in ("127.0.0.1", "localhost"):
        assert network.http_get(HttpTarget("https", host, port, "/"), PATIENCE) == 200
    assert names == [None, "localhost"], "an address is no server name"


def test_https_to_a_server_without_it_fails(network: SocketNetwork, listen: Callable[[Serve], Server]) -> None:
    port = listen(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")).port
    with pytest.raises(PlainAnswerError):
        network.http_get(HttpTarget("https", "127.0.0.1", port, "/"), PATIENCE)


@pytest.mark.parametrize(
    "ask",
    [
        lambda network: network.http_get(HttpTarget("http", "10.86.0.7", 80, "/"), PATIENCE),
        lambda network: network.grpc_serves(GrpcTarget("10.86.0.7", 50051), PATIENCE),
    ],
    ids=["http", "grpc"],
)
def test_the_connection_of_a_probe_that_fails_is_closed(ask: Callable[[SocketNetwork], object]) -> None:
    """A pod's probes may fail for months."""
    connection, pod = socket.socketpair()
    pod.close()
    with contextlib.closing(RealClock()) as clock, pytest.raises(NetworkError):
        ask(SocketNetwork(clock, lambda *_: connection))
    assert connection.fileno() == -1


def test_a_probe_has_all_of_its_time() -> None:
    """Most have one second."""
    connection, pod = socket.socketpair()
    with pod:
        pod.sendall(OK)
        network = SocketNetwork(Mock(monotonic=Mock(return_value=5.0)), lambda *_: connection)
        assert network.http_get(HttpTarget("http", "10.86.0.7", 80, "/"), 1) == 200


def test_tcp_only_opens_a_connection(network: SocketNetwork, listen: Callable[[Serve], Server]) -> None:
    server = listen(lambda _connection: None)
    network.tcp_connect(TcpTarget("127.0.0.1", server.port), PATIENCE)
    server.close()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(NetworkError, match="refused"):
            network.tcp_connect(TcpTarget("127.0.0.1", taken.getsockname()[1]), PATIENCE)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "0177.0.0.1", "2130706433", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1"],  # noqa: S104
)
def test_a_host_that_a_pod_chose_is_not_this_machine(
    network: SocketNetwork, listen: Callable[[Serve], Server], host: str
) -> None:
    """A restricted pod's probe switched a device at a mapper's port, which asks nobody of this machine who it is."""
    asked = list[socket.socket]()
    server = listen(asked.append)
    for ask in (
        lambda: network.http_get(HttpTarget("http", host, server.port, "/", is_guarded=True), PATIENCE),
        lambda: network.tcp_connect(TcpTarget(host, server.port, is_guarded=True), PATIENCE),
    ):
        with pytest.raises(NetworkError, match=r"leave out host|address"):
            ask()
    network.tcp_connect(TcpTarget("127.0.0.1", server.port), PATIENCE)
    server.close()
    assert len(asked) <= 1, "nobody but the last one has connected"


def test_a_name_is_asked_at_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may mean another one a moment later."""
    answers_of = iter([[*addresses("192.0.2.1")], [*addresses("127.0.0.1")]])
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: next(answers_of))
    connect, clock = Mock(), RealClock()
    SocketNetwork(clock, connect).tcp_connect(TcpTarget("rebinding.example", 80, is_guarded=True), PATIENCE)
    clock.close()
    assert connect.call_args.args[:2] == ("192.0.2.1", 80)


def test_a_name_is_asked_at_each_of_its_addresses_that_may_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the time; what may not be asked has none of it."""
    names = ["127.0.0.1", "192.0.2.1", "192.0.2.2", "169.254.169.254"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*addresses(*names)])
    clock, connect = Mock(monotonic=Mock(return_value=5.0)), Mock(side_effect=[TimeoutError("one"), Mock()])
    SocketNetwork(clock, connect).tcp_connect(TcpTarget("two.example", 80, is_guarded=True), 3.0)
    assert [(each.args[0], each.args[3]) for each in connect.call_args_list] == [("192.0.2.1", 1.5), ("192.0.2.2", 3.0)]
    connect.side_effect = ConnectionRefusedError("the last one")
    with pytest.raises(NetworkError, match="the last one"):
        SocketNetwork(clock, connect).tcp_connect(TcpTarget("two.example", 80, is_guarded=True), 3.0)


def test_a_redirect_of_a_guarded_host_is_checked_again(
    listen: Callable[[Serve], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name may lead to this machine a moment later, and its port be another program's."""
    asked = list[socket.socket]()
    neighbour = listen(asked.append)
    leads = f"HTTP/1.1 302 Found\r\nLocation: http://rebinding.example:{neighbour.port}/on\r\nContent-Length: 0\r\n\r\n"
    first, clock = listen(answers(leads.encode())), RealClock()
    answers_of = iter([[*addresses("192.0.2.1")], [*addresses("127.0.0.1")]])
    found = socket.create_connection(("127.0.0.1", first.port), PATIENCE)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: next(answers_of))
    network = SocketNetwork(clock, Mock(return_value=found))
    with pytest.raises(NetworkError, match="leave out host"):
        network.http_get(HttpTarget("http", "rebinding.example", 80, "/", is_guarded=True), PATIENCE)
    clock.close()
    neighbour.close()
    assert not asked


def test_pods_on_the_machines_network_reach_what_they_name(listen: Callable[[Serve], Server]) -> None:
    """Of the runtime for plain processes: such a pod reaches it itself, also when the machine's address has changed."""
    server, clock = listen(answers(OK)), RealClock()
    network = SocketNetwork(clock, isolates=False)
    assert network.http_get(HttpTarget("http", "localhost", server.port, "/", is_guarded=True), PATIENCE) == 200
    network.tcp_connect(TcpTarget("127.0.0.1", server.port, is_guarded=True), PATIENCE)
    clock.close()


def addresses(*hosts: str) -> Iterator[tuple[object, ...]]:
    return ((socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 80)) for host in hosts)


@pytest.mark.parametrize("host", ["", "no such host", "a" * 300, "..", "a\0b"])
def test_an_unknown_host_is_a_network_error(network: SocketNetwork, host: str) -> None:
    with pytest.raises(NetworkError):
        network.http_get(HttpTarget("http", host, 1, "/"), PATIENCE)


class Health(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A health service: serves "", not "db", and never answers about "slow"."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return grpc.unary_unary_rpc_method_handler(self._check) if details.method == grpc_health.METHOD else None

    def _check(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if request == grpc_health.encode_request("slow"):
            self.over.wait(PATIENCE)
        if request == grpc_health.encode_request("unknown"):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such service")
        return b"\x08\x01" if request == b"" else b"\x08\x02"


@pytest.fixture
def health_port() -> Iterator[int]:
    server, service = grpc.server(ThreadPoolExecutor(2)), Health()
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    service.over.set()
    server.stop(None).wait()


def test_grpc_serves_by_its_health_service(network: SocketNetwork, health_port: int) -> None:
    assert network.grpc_serves(GrpcTarget("127.0.0.1", health_port), PATIENCE)
    assert not network.grpc_serves(GrpcTarget("127.0.0.1", health_port, "db"), PATIENCE)


@pytest.mark.parametrize(
    ("service", "seconds", "code"), [("slow", SHORT, "DEADLINE_EXCEEDED"), ("unknown", PATIENCE, "NOT_FOUND")]
)
def test_grpc_without_a_good_answer_is_an_error(
    network: SocketNetwork, health_port: int, service: str, seconds: float, code: str
) -> None:
    with pytest.raises(NetworkError, match=code):
        network.grpc_serves(GrpcTarget("127.0.0.1", health_port, service), seconds)


def test_grpc_over_connections_of_others(health_port: int) -> None:
    """As to pods in a network namespace: gRPC, which connects by itself, is led over them."""
    made: list[tuple[str, int]] = []

    def connect(host: str, port: int, clock: Clock, seconds: float) -> socket.socket:
        made.append((host, port))
        return dialling.connect("127.0.0.1", health_port, clock, seconds)

    with contextlib.closing(RealClock()) as clock:
        network = SocketNetwork(clock, connect)
        assert network.grpc_serves(GrpcTarget("10.86.0.7", 50051), PATIENCE)
        assert not network.grpc_serves(GrpcTarget("10.86.0.7", 50051, "db"), PATIENCE)
        assert made == [("10.86.0.7", 50051)] * 2
        refusing = SocketNetwork(clock, lambda *_: socket.create_connection(("127.0.0.1", 1)))
        with pytest.raises(NetworkError):
            refusing.grpc_serves(GrpcTarget("10.86.0.7", 50051), PATIENCE)


def test_grpc_where_nobody_listens_is_an_error(network: SocketNetwork) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(NetworkError, match="UNAVAILABLE"):
            network.grpc_serves(GrpcTarget("127.0.0.1", taken.getsockname()[1]), PATIENCE)


def test_the_health_messages_are_protobuf() -> None:
    assert grpc_health.encode_request("") == b""
    assert grpc_health.encode_request("db") == b"\x0a\x02db"
    assert grpc_health.encode_request("x" * 127)[:2] == b"\x0a\x7f"
    assert grpc_health.encode_request("x" * 128)[:3] == b"\x0a\x80\x01"
    assert grpc_health.encode_request("x" * 200)[:3] == b"\x0a\xc8\x01"
    assert grpc_health.is_serving(b"\x08\x01")
    assert grpc_health.is_serving(b"\x08\x01\x12\x01x"), "newer servers may say more"
    assert not any(grpc_health.is_serving(answer) for answer in (b"", b"\x08\x02", b"\x08\x00"))


@pytest.mark.parametrize(
    "target", [TcpTarget("127.0.0.1", 1), HttpTarget("http", "127.0.0.1", 1, "/"), GrpcTarget("127.0.0.1", 1)]
)
def test_an_agent_that_is_short_of_descriptors_knows_nothing_about_the_container(
    target: TcpTarget | HttpTarget | GrpcTarget,
) -> None:
    """All containers would be restarted at the same time, which gives no descriptor back."""
    clock = RealClock()
    runtime = Mock()
    runner = ContainerProbeRunner(runtime, SocketNetwork(clock))
    failure = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with patch("socket.socket", side_effect=failure):
        result = runner.run(ProbeAttempt(ProbeKind.LIVENESS, ContainerId("c"), target, 60))
    clock.close()
    assert result.outcome is ProbeOutcome.UNKNOWN
    assert "Too many open files" in result.text
