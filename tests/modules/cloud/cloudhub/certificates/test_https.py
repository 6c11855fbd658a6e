"""The HTTPS server, spoken to by the standard library's client."""

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from socketserver import ThreadingTCPServer
from unittest.mock import patch

import pytest
from cryptography import x509

from beehive.clock import RealClock
from modules.cloud.cloudhub.certificates import join_tokens
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import https_context
from modules.cloud.cloudhub.certificates.enrolment import Enrolment, EnrolmentResponse
from modules.cloud.cloudhub.certificates.https import MAX_CONNECTIONS, HttpsServer
from tests.modules.cloud.cloudhub.certificates.made import NOW, YEAR, Unrefused, chain, csr
from tests.support.clocks import StandingClock
from tests.support.failing import Failing
from tests.support.patience import PATIENCE

NODES = {"n1"}
CLOCK = RealClock()
TODAY = CLOCK.now()
"""Certificates are verified by OpenSSL, which knows the real time only."""


class _DatedClock(StandingClock):
    """At the moment of the recorded answers."""

    def now(self) -> float:
        return NOW


class Server:
    """A server with an authority of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = _DatedClock()
        self.files = AuthorityFiles(directory / "tls")
        self.authority = open_authority(self.files, ["127.0.0.1"], TODAY - YEAR)
        enrolment = Enrolment(self.authority, Unrefused(NODES), 3 * YEAR)
        context = https_context(self.files)
        self.server = HttpsServer("127.0.0.1", 0, context, lambda request: enrolment.answer(request, TODAY), self.clock)
        self.server.start()

    def client(self, chain: Path | None = None) -> ssl.SSLContext:
        """TLS of an edge that has the CA, and perhaps a certificate."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if chain is not None:
            context.load_cert_chain(chain)
        return context

    @contextmanager
    def connection(self) -> Iterator[ssl.SSLSocket]:
        """TLS to the server."""
        with (
            socket.create_connection(self.server.address, timeout=PATIENCE) as plain,
            self.client().wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            yield secure

    def get(
        self, path: str, headers: dict[str, str] | None = None, body: bytes | None = None, chain: Path | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPSConnection(*self.server.address, timeout=PATIENCE, context=self.client(chain))
        with closing(connection):
            connection.request("GET", path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()

    def token(self) -> str:
        claims = join_tokens.Claims(TODAY + 60)
        return join_tokens.issue(self.authority.der, self.authority.token_key, claims).partition(".")[2]

    def chain_of(self, authority: Authority, node: str, seconds: float = 2 * YEAR) -> Path:
        """A file with a node's certificate and key."""
        path = self.directory / f"{node}.pem"
        path.write_bytes(chain(authority, node, TODAY - YEAR, seconds))
        return path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server whose clients have read its last word before it closes the connection, however slow they are."""
    monkeypatch.setattr("beehive.http.lingering_close.LINGERING_SECONDS", PATIENCE)
    made = Server(tmp_path)
    yield made
    made.server.stop()


def test_the_ca_is_given_to_anybody_with_the_headers_of_a_recorded_cloudcore(server: Server) -> None:
    """DER, its length, the date; and the connection is closed."""
    status, headers, body = server.get("/ca.crt")
    assert (status, body) == (200, server.authority.der)
    assert headers == {
        "Date": "Fri, 20 Nov 2026 01:54:27 GMT",
        "Content-Length": str(len(body)),
        "Content-Type": "application/octet-stream",
        "Connection": "close",
    }


def test_a_get_with_a_body_and_a_token_gets_a_certificate(server: Server) -> None:
    """As Go's client sends it: Nodename for NodeName."""
    headers = {"Authorization": f"Bearer {server.token()}", "Nodename": "n1"}
    status, _, body = server.get("/edge.crt", headers, csr("n1"))
    assert status == 200
    assert server.authority.has_signed(x509.load_der_x509_certificate(body))


def test_a_client_certificate_gets_the_next(server: Server) -> None:
    """Rotation: no token; for another node it is refused by name."""
    chain = server.chain_of(server.authority, "n1")
    assert server.get("/edge.crt", {"NodeName": "n1"}, csr("n1"), chain)[0] == 200
    status, _, body = server.get("/edge.crt", {"NodeName": "n2"}, csr("n2"), chain)
    assert (status, body) == (401, b"wrong node: the client certificate is that of n1, the request is for n2")


@pytest.mark.parametrize(("foreign", "alert"), [(True, "UNKNOWN_CA|DECRYPT_ERROR"), (False, "EXPIRED")])
def test_a_certificate_that_proves_nothing_is_an_alert_with_the_reason(
    server: Server, *, foreign: bool, alert: str
) -> None:
    """Of another authority, or of the year before: the handshake fails, with the cause."""
    authority = Authority.create(TODAY - YEAR) if foreign else server.authority
    chain = server.chain_of(authority, "n1", 2 * YEAR if foreign else 60.0)
    with pytest.raises(ssl.SSLError, match=alert):
        server.get("/edge.crt", {"NodeName": "n1"}, csr("n1"), chain)


def test_anybody_may_ask_whether_a_node_is_registered(server: Server) -> None:
    assert [server.get(f"/node/{name}")[::2] for name in ("n1", "n2")] == [
        (200, b"Node found"),
        (404, b"Node not found"),
    ]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Content-Length: 1048577", 413),
        (b"Content-Length: 99999999999999999999", 413),
        (b"Content-Length: -1", 400),
        (b"Content-Length: x", 400),
        (b"Transfer-Encoding: chunked", 411),
    ],
)
def test_bodies_without_a_bound_are_not_read(server: Server, headers: bytes, status: int) -> None:
    """The answer comes immediately, and the server goes on serving."""
    with server.connection() as secure:
        secure.sendall(b"GET /edge.crt HTTP/1.1\r\nHost: c\r\n" + headers + b"\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 %d " % status)
    assert server.get("/ca.crt")[0] == 200


def test_no_body_is_read_for_who_has_neither_token_nor_certificate(server: Server) -> None:
    """The refusal comes before the announced megabyte."""
    with server.connection() as secure:
        secure.sendall(b"GET /edge.crt HTTP/1.1\r\nHost: c\r\nNodeName: n1\r\nContent-Length: 1048576\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 401 ")


def test_a_client_that_sends_on_reads_its_refusal(server: Server) -> None:
    status, _, body = server.get("/edge.crt", body=b"x" * (3 << 20))
    assert (status, body) == (413, b"a body has at most 1048576 bytes")


def test_clients_that_say_nothing_or_nonsense_hold_up_nobody(server: Server) -> None:
    """Three silent clients and one without TLS, and the next is served."""
    silent = [socket.create_connection(server.server.address, timeout=PATIENCE) for _ in range(4)]
    silent[0].sendall(b"GET / HTTP/1.0\r\n\r\n")
    try:
        assert server.get("/ca.crt")[0] == 200
    finally:
        for connection in silent:
            connection.close()


def test_connections_that_have_ended_take_no_room(server: Server) -> None:
    """More of them than may be open at a time."""
    for _ in range(2 * MAX_CONNECTIONS + 1):
        with socket.create_connection(server.server.address, timeout=PATIENCE) as client:
            client.sendall(b"no TLS" * 10)
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while client.recv(100):
                    pass
    assert server.get("/ca.crt")[0] == 200


def test_a_connection_for_which_there_is_no_thread_takes_no_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ThreadingTCPServer, "process_request", Failing(0, RuntimeError()).call(lambda *_: None))
        with socket.create_connection(server.server.address, timeout=PATIENCE) as client, suppress(ConnectionError):
            assert not client.recv(1)
    assert len(server.server._server.connections) == 0


def test_many_may_come_at_once(server: Server) -> None:
    """All of them are connected before the first is accepted."""
    context = https_context(server.files)
    late = HttpsServer("127.0.0.1", 0, context, lambda _: pytest.fail("asked"), server.clock)
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(late.address, timeout=PATIENCE))
        late.start()
        late.stop()


def test_a_client_that_is_gone_before_its_turn_is_no_failure_of_the_server(server: Server) -> None:
    """Python refuses to begin TLS on a connection that was reset, with bytes in it."""
    failures: list[object] = []
    context = https_context(server.files)
    late = HttpsServer("127.0.0.1", 0, context, lambda _: EnrolmentResponse(HTTPStatus.OK, b""), server.clock)
    with socket.create_connection(late.address, timeout=PATIENCE) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with patch.object(threading, "excepthook", failures.append):
        late.start()
        following = http.client.HTTPSConnection(*late.address, timeout=PATIENCE, context=server.client())
        with closing(following):
            following.request("GET", "/ca.crt")
            assert following.getresponse().status == 200
        late.stop()
        for thread in threading.enumerate():
            if "process_request_thread" in thread.name:
                thread.join(PATIENCE)
    assert not failures


def test_a_connection_can_be_ended_while_it_shakes_hands(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    shake = ssl.SSLSocket.do_handshake

    def shake_ended(secure: ssl.SSLSocket, *how: bool) -> None:
        if secure.server_side:
            server.server._server.connections.end_all()
        shake(secure, *how)

    monkeypatch.setattr(ssl.SSLSocket, "do_handshake", shake_ended)
    with pytest.raises(OSError), server.connection():
        pass


@pytest.mark.parametrize("addresses", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_dripping_clients_hold_up_nobody(server: Server, addresses: int) -> None:
    """64 connections that send a byte now and then; a joining node is served immediately."""
    with ExitStack() as stack:
        dripping = [
            stack.enter_context(
                socket.create_connection(
                    server.server.address, timeout=PATIENCE, source_address=(f"127.0.0.{2 + number % addresses}", 0)
                )
            )
            for number in range(64)
        ]
        for drop in dripping[-8:]:
            drop.sendall(b"\x16")
        for _ in range(3):
            assert server.get("/ca.crt")[0] == 200
        assert dripping[0].recv(1) == b"", "the oldest has gone"


def _drips_until_the_end(secure: ssl.SSLSocket) -> bool:
    """Sends a byte a second, so that no reading of the server takes long; whether it ends the connection."""
    secure.settimeout(1.0)
    for _ in range(int(PATIENCE)):
        try:
            return secure.recv(1) == b""
        except TimeoutError:
            with suppress(OSError):
                secure.sendall(b"x")
        except OSError:
            return True
    return False


def test_a_request_has_one_deadline_however_slowly_it_comes(server: Server) -> None:
    with server.connection() as secure:
        secure.sendall(b"GET /ca.crt HTTP/1.1\r\nHost:")
        server.clock.go(11.0)
        assert _drips_until_the_end(secure)
    assert server.get("/ca.crt")[0] == 200


@pytest.mark.parametrize("lines", [[b"X: " + b"x" * 40_000], [b"X: " + b"x" * 1000] * 50])
def test_headers_have_a_bound(server: Server, lines: list[bytes]) -> None:
    with server.connection() as secure:
        secure.sendall(b"GET /ca.crt HTTP/1.1\r\nHost: c\r\n" + b"\r\n".join(lines) + b"\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 431 ")


def test_the_server_does_not_speak_tls_1_1(server: Server) -> None:
    """1.2 with an ECDHE-ECDSA suite is the oldest that KubeEdge takes."""
    context = server.client()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        socket.create_connection(server.server.address, timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        cipher = secure.cipher()
    assert cipher is not None
    assert cipher[0].startswith("ECDHE-ECDSA-")
    assert https_context(server.files).minimum_version == ssl.TLSVersion.TLSv1_2
