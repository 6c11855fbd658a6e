"""Links over TLS: which clients may connect, as which node; both directions work together."""

import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from beehive.clock import RealClock
from beehive.codec import encode
from beehive.message import Message
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.authority_files import AuthorityFiles, open_authority
from modules.cloud.cloudhub.certificates.contexts import websocket_context
from modules.cloud.cloudhub.counters import CloudHubCounters
from modules.cloud.websocket.link import FrameReceived, Link, LinkClosed, LinkEvent, LinkOpened
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from tests.modules.cloud.cloudhub.certificates.made import YEAR, chain
from tests.support.patience import PATIENCE

CLOCK = RealClock()
NOW = CLOCK.now()
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: c\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nnode_id: n1\r\nConnectionUse: msg\r\n\r\n"
)


class Cloud:
    """The websocket server with TLS, and what happens on its links."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = AuthorityFiles(directory / "tls")
        self.authority = open_authority(self.files, ["127.0.0.1"], NOW - YEAR)
        self.links: list[Link] = []
        self.counters = CloudHubCounters()
        self.ended = 0
        self.frames: list[str] = []
        self._changed = threading.Condition()
        settings = WebsocketSettings(
            address="127.0.0.1", port=0, node_limit=10, max_frame_bytes=4 * 1024 * 1024, write_timeout=PATIENCE
        )
        context = websocket_context(self.files)
        self.server = WebsocketServer(settings, self._deliver, CLOCK, ssl_context=context, counters=self.counters)
        self.server.start()

    def _deliver(self, event: LinkEvent) -> None:
        with self._changed:
            match event:
                case LinkOpened():
                    self.links.append(event.link)
                case LinkClosed():
                    self.ended += 1
                case FrameReceived():
                    self.frames.append(str(event.message.content_as(str)))
                    event.link.handled(event.size)
            self._changed.notify_all()

    def wait(self, condition: str) -> None:
        """Until something holds: `links`, `ended`, or a number of frames."""
        with self._changed:
            wanted = {"links": lambda: bool(self.links), "ended": lambda: self.ended > 0}
            assert self._changed.wait_for(wanted.get(condition, lambda: len(self.frames) >= int(condition)), PATIENCE)

    def context(self, node: str = "", authority: Authority | None = None, seconds: float = 2 * YEAR) -> ssl.SSLContext:
        """TLS of an edge with a node's certificate; without a node it has no certificate."""
        context = ssl.create_default_context(cafile=str(self.files.authority))
        if node:
            path = self.directory / f"{node}.pem"
            path.write_bytes(chain(authority or self.authority, node, NOW - YEAR, seconds))
            context.load_cert_chain(path)
        return context

    @contextmanager
    def node(self, name: str, context: ssl.SSLContext) -> Iterator[ClientConnection]:
        headers = {"Node_id": name, "Project_id": "e632", "Connectionuse": "msg"}
        host, port = self.server.address
        address = f"wss://{host}:{port}/e632/{name}/events"
        with connect(
            address, ssl=context, additional_headers=headers, compression=None, max_size=None, ping_interval=None,
            open_timeout=PATIENCE, close_timeout=1,
        ) as connection:  # fmt: skip
            yield connection


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    started = Cloud(tmp_path)
    yield started
    started.server.stop()


def message(text: str) -> bytes:
    return encode(Message.new(CLOCK, source="edged", resource="default/configmap/c", operation="query", content=text))


def for_each(texts: Iterable[str], do: Callable[[str], None]) -> None:
    for text in texts:
        do(text)


def test_both_directions_at_once_lose_nothing(cloud: Cloud) -> None:
    """Messages of up to 100 KB, 100 each way, written by two threads while two read: all come, in order."""
    texts = [str(number) * (number * 300) for number in range(1, 101)]
    with cloud.node("n1", cloud.context("n1")) as node:
        cloud.wait("links")
        writer = threading.Thread(target=for_each, args=(texts, lambda text: cloud.links[0].send(message(text))))
        sender = threading.Thread(target=for_each, args=(texts, lambda text: node.send(message(text), text=True)))
        writer.start()
        sender.start()
        came = [node.recv(timeout=PATIENCE, decode=False) for _ in texts]
        writer.join(PATIENCE)
        sender.join(PATIENCE)
        cloud.wait("100")
    assert cloud.frames == texts
    assert [re.findall(rb'"content":"(\d+)"', frame)[0].decode() for frame in came] == texts


def test_a_node_has_the_name_of_its_certificate(cloud: Cloud) -> None:
    """Another name in the header node_id is refused with both names."""
    with pytest.raises(InvalidStatus) as refused, cloud.node("n2", cloud.context("n1")):
        pass
    assert refused.value.response.status_code == 403
    assert cloud.counters.refused_connections == {"certificate of another node": 1}
    assert refused.value.response.body == b"wrong node: the certificate is that of n1, the header node_id says n2\n"
    assert not cloud.links


@pytest.mark.parametrize(
    ("case", "alert"),
    [("none", "CERTIFICATE_REQUIRED"), ("foreign", "UNKNOWN_CA|DECRYPT_ERROR"), ("expired", "CERTIFICATE_EXPIRED")],
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_without_a_valid_certificate_there_is_no_link(
    cloud: Cloud, case: str, alert: str, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client reads the alert that says why, and never a reset instead of it; here, however slow it is."""
    monkeypatch.setattr("modules.cloud.websocket.connection._CLOSE_TIMEOUT", PATIENCE)
    if case == "none":
        context = cloud.context()
    elif case == "foreign":
        context = cloud.context("n1", Authority.create(NOW - YEAR))
    else:
        context = cloud.context("n1", seconds=60.0)
    context.maximum_version = version
    if version is ssl.TLSVersion.TLSv1_2 and case == "none":
        alert = "HANDSHAKE_FAILURE"  # 1.2 has no alert of its own for it
    for _ in range(5):
        with (
            socket.create_connection(cloud.server.address, timeout=PATIENCE) as plain,
            pytest.raises(ssl.SSLError, match=alert),
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            secure.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)
            secure.recv(1)
    assert not cloud.links
    assert cloud.counters.refused_connections == {"TLS": 5}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="Python's ssl cannot ask for short records")
def test_a_client_that_wants_short_records_gets_all_of_a_message(cloud: Cloud) -> None:
    """512 bytes at most in each, asked for by `openssl s_client`."""
    cloud.context("n1")
    host, port = cloud.server.address
    command = ["openssl", "s_client", "-quiet", "-maxfraglen", "512", "-connect", f"{host}:{port}"]
    command += ["-cert", str(cloud.directory / "n1.pem"), "-key", str(cloud.directory / "n1.pem")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(UPGRADE)
        client.stdin.flush()
        cloud.wait("links")
        cloud.links[0].send(message("x" * 20_000 + "!"))
        got = b""
        while b'!"' not in got and (part := os.read(client.stdout.fileno(), 65536)):
            got += part
        client.kill()
    assert b"x" * 20_000 + b"!" in got


def test_a_link_that_the_cloud_closes_ends_at_both_sides(cloud: Cloud) -> None:
    """The node's read ends, and so does the server's thread."""
    with cloud.node("n1", cloud.context("n1")) as node:
        cloud.wait("links")
        cloud.links[0].close()
        with pytest.raises(ConnectionClosed):
            node.recv(timeout=PATIENCE)
    cloud.wait("ended")


def test_a_node_that_goes_away_ends_its_link(cloud: Cloud) -> None:
    """Without any good-bye, as when its process dies."""
    with cloud.node("n1", cloud.context("n1")) as node:
        cloud.wait("links")
        socket.socket.shutdown(node.socket, socket.SHUT_RDWR)
        cloud.wait("ended")


def test_a_node_that_does_not_read_costs_no_more_than_the_write_timeout(cloud: Cloud) -> None:
    """A blocking SSLSocket would wait for ever."""
    cloud.server._write_timeout = 1.0
    big = message("x" * 1_000_000)
    with (
        socket.create_connection(cloud.server.address, timeout=PATIENCE) as plain,
        cloud.context("n1").wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(UPGRADE)
        cloud.wait("links")
        with pytest.raises(OSError, match=r"."):
            for _ in range(1000):
                cloud.links[0].send(big)
        cloud.links[0].close()
        cloud.wait("ended")


def test_a_node_that_ends_tls_has_ended_its_link(cloud: Cloud) -> None:
    """Its TCP connection is still open."""
    with (
        socket.create_connection(cloud.server.address, timeout=2 * PATIENCE) as plain,
        cloud.context("n1").wrap_socket(plain, server_hostname="127.0.0.1") as secure,
    ):
        secure.sendall(UPGRADE)
        cloud.wait("links")
        with suppress(OSError):
            secure.unwrap()
        cloud.wait("ended")


def test_silence_and_nonsense_hold_up_nobody(cloud: Cloud) -> None:
    """A silent client and one without TLS, and the next node is served."""
    silent = [socket.create_connection(cloud.server.address, timeout=PATIENCE) for _ in range(3)]
    try:
        silent[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
        silent[1].sendall(b"\x16\x03\x01\x00\x05\x01")
        with cloud.node("n1", cloud.context("n1")) as node:
            node.send(message("here"), text=True)
            cloud.wait("1")
    finally:
        for connection in silent:
            connection.close()
