"""A tunnel server and a stream server on this machine, with certificates of two authorities."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import websocket_context
from modules.cloud.cloudstream.opening import NodeStreams, OtherTunnels
from modules.cloud.cloudstream.stream_service import StreamService
from modules.cloud.cloudstream.tunnel_server import TunnelServer
from modules.cloud.cloudstream.tunnels import Tunnels
from tests.modules.cloud.cloudhub.certificates.made import OPENSSL_LAG, chain
from tests.modules.cloud.cloudstream.edges import Edge, edge_at
from tests.support.clocks import StandingClock
from tests.support.patience import PATIENCE

API_SERVER = "kube-apiserver-kubelet-client"


class Pods:
    """The API server's pods: each is on the node of its namespace."""

    def call(self, call: ApiCall) -> ApiResult:
        if call.name == "none":
            return ApiResult(refusal={"code": 404, "message": 'pods "none" not found'})
        return ApiResult({"metadata": {"name": call.name}, "spec": {"nodeName": call.namespace}})


class Site:
    """Both servers. The authority of the nodes is also the API server's, to keep the tests short; with others, they
    are asked for nodes without a tunnel here.
    """

    def __init__(self, directory: Path, clock: StandingClock, others: OtherTunnels | None = None) -> None:
        self.clock = clock
        self.directory = directory
        self.files = AuthorityFiles(directory / "tls")
        self.authority = open_authority(self.files, ["127.0.0.1"], clock.now())
        self.tunnels = Tunnels(clock)
        context = websocket_context(self.files)
        self.server = TunnelServer("127.0.0.1", 0, 10, self.tunnels, lambda _: None, clock, ssl_context=context)
        self.tunnels.port = self.server.address[1]
        self.server.start()
        service = StreamService(Pods(), NodeStreams(self.tunnels, clock, others), self.tunnels, [API_SERVER])
        self.streams = HttpServer(listen_tcp("127.0.0.1", 0), service, clock, context=context)
        self.streams.start()
        self.client_context = self.of_user()
        """Of `client`."""

    def close(self) -> None:
        self.streams.stop()
        self.server.stop()

    def of_node(self, name: str) -> ssl.SSLContext:
        """The TLS of a node."""
        return self._client(f"{name}.pem", chain(self.authority, name, self.clock.now() - 60, 3600.0))

    def of_user(self, name: str = API_SERVER) -> ssl.SSLContext:
        """The TLS of an API server, or of another client."""
        return self._client(
            "user.pem", b"".join(self.authority.make_administrator_certificate(name, self.clock.now() - OPENSSL_LAG))
        )

    def of_nobody(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.files.authority))
        context.check_hostname = False
        return context

    @contextmanager
    def edge(self, name: str = "n1", certificate: str = "", **more: str) -> Iterator[Edge]:
        """A node with its tunnel, once the cloud has it."""
        context = self.of_node(certificate or name)
        with edge_at(self.server.address[1], name, context, "127.0.0.1", **more) as edge:
            yield edge

    @contextmanager
    def client(self, request: str, **headers: str) -> Iterator[socket.socket]:
        """A connection of the API server with a sent request."""
        with self._connected() as connection:
            lines = [
                f"{request} HTTP/1.1",
                "Host: 127.0.0.1:10351",
                *(f"{key}: {text}" for key, text in headers.items()),
            ]
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            yield connection

    def _connected(self) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self.streams.port), PATIENCE)
        return self.client_context.wrap_socket(raw, suppress_ragged_eofs=False)

    def _client(self, name: str, pem: bytes) -> ssl.SSLContext:
        context = self.of_nobody()
        (self.directory / name).write_bytes(pem)
        context.load_cert_chain(self.directory / name)
        return context


def read_until(connection: socket.socket, end: bytes) -> bytes:
    """What comes up to these bytes."""
    found = b""
    while not found.endswith(end):
        data = connection.recv(1 if b"\r\n" in end else 65536)
        assert data, found
        found += data
    return found


def read_all(connection: socket.socket) -> tuple[bytes, bool]:
    """What comes, and whether the connection ends with TLS's farewell."""
    found = bytearray()
    try:
        while data := connection.recv(65536):
            found += data
    except (ssl.SSLEOFError, ConnectionResetError):
        return bytes(found), False
    return bytes(found), True
