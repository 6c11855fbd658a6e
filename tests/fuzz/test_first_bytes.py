"""Malformed first bytes on the cloud's real ports open no connection, and a good node is served afterwards."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from websockets.sync.client import connect

from beehive.clock import RealClock
from modules.cloud.cloudhub.certificates.authority import Authority
from modules.cloud.cloudhub.certificates.enrolment import Enrolment
from modules.cloud.cloudhub.certificates.https import HttpsServer
from modules.cloud.websocket.link import FrameReceived, LinkEvent, LinkOpened
from modules.cloud.websocket.server import WebsocketServer, WebsocketSettings
from tests.fuzz.mutate import mutate
from tests.modules.cloud.cloudhub.certificates.made import NOW, YEAR, Unrefused
from tests.support.patience import PATIENCE

CASES = 150
_UPGRADE = (
    b"GET /p/edge-1/events HTTP/1.1\r\nHost: cloud\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nnode_id: edge-1\r\n"
)
_USE = b"ConnectionUse: msg\r\n\r\n"
_HELLO = bytes.fromhex("160301002f0100002b0303") + bytes(32) + bytes.fromhex("000002c02b0100")
_SEEDS = (_UPGRADE, _HELLO, b"GET /ca.crt HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc", b"SSH-2.0-x\r\n")


class Heard:
    """The events of the websocket server."""

    def __init__(self) -> None:
        self.events: list[LinkEvent] = []
        self.opened = threading.Event()

    def __call__(self, event: LinkEvent) -> None:
        self.events.append(event)
        if isinstance(event, LinkOpened):
            self.opened.set()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def links(heard: Heard) -> Iterator[WebsocketServer]:
    """The cloud's websocket without TLS."""
    settings = WebsocketSettings(
        address="127.0.0.1", port=0, node_limit=5, max_frame_bytes=1 << 20, write_timeout=PATIENCE
    )
    server = WebsocketServer(settings, heard, RealClock())
    server.start()
    yield server
    server.stop()


def say(address: tuple[str, int], data: bytes) -> bytes:
    """Send bytes and close; return the answer until the other side closes."""
    answer = b""
    with socket.create_connection(address, PATIENCE) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except (ConnectionError, OSError):
            return answer
    return answer


def test_nobody_opens_a_link_by_chance(links: WebsocketServer, heard: Heard) -> None:
    """Without the header `ConnectionUse` the server opens no link; a good node gets one afterwards."""
    for number in range(CASES):
        answer = say(links.address, mutate(Random(f"links/{number}"), _SEEDS)[:8192])
        assert b" 101 " not in answer
    assert heard.events == []
    headers = {"node_id": "edge-1", "ConnectionUse": "msg"}
    address = f"ws://127.0.0.1:{links.address[1]}/p/edge-1/events"
    with connect(address, additional_headers=headers, proxy=None, open_timeout=PATIENCE):
        assert heard.opened.wait(PATIENCE)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x81\x02{}",
        b"\xf1\x82\x00\x00\x00\x00{}",
        b"\x83\x82\x00\x00\x00\x00{}",
        b"\x81\xff\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00{}",
        b"\x80\x82\x00\x00\x00\x00{}",
        b"\x89\xfe\x00\x80\x00\x00\x00\x00" + bytes(128),
    ],
    ids=["unmasked", "reserved bits", "unknown opcode", "over the limit", "a fragment of nothing", "a long ping"],
)
def test_frames_that_no_client_sends_end_the_link(links: WebsocketServer, heard: Heard, frame: bytes) -> None:
    """They are no messages, and bytes after them are not read."""
    good = b"\x81\x82\x00\x00\x00\x00{}"
    with socket.create_connection(links.address, PATIENCE) as connection:
        connection.sendall(_UPGRADE + _USE)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.recv(1)
        assert b" 101 " in answer
        connection.sendall(frame + good)
        with suppress(ConnectionError):
            while connection.recv(65536):
                pass
    assert heard.opened.is_set()
    assert not any(isinstance(event, FrameReceived) for event in heard.events)


def test_the_server_of_certificates_outlives_strangers(tmp_path: Path) -> None:
    """Garbage instead of TLS, and garbage within it; the CA is handed out afterwards, and nothing else ever was."""
    authority = Authority.create(NOW)
    pair = tmp_path / "server.pem"
    pair.write_bytes(b"".join(authority.make_server_certificate(["127.0.0.1"], NOW)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    enrolment = Enrolment(authority, Unrefused(), YEAR)
    server = HttpsServer("127.0.0.1", 0, context, lambda request: enrolment.answer(request, NOW), RealClock())
    server.start()
    try:
        for number in range(CASES):
            say(server.address, mutate(Random(f"https/{number}"), _SEEDS)[:8192])
            answer = _within_tls(server.address, mutate(Random(f"within/{number}"), _SEEDS)[:8192])
            assert not answer.startswith(b"HTTP/1.1 200") or answer.endswith(authority.der)
        assert _within_tls(server.address, b"GET /ca.crt HTTP/1.1\r\nHost: a\r\n\r\n").endswith(authority.der)
    finally:
        server.stop()


def _within_tls(address: tuple[str, int], data: bytes) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    answer = b""
    with context.wrap_socket(socket.create_connection(address, PATIENCE)) as connection:
        try:
            connection.sendall(data)
            socket.socket.shutdown(connection, socket.SHUT_WR)
            while part := connection.recv(65536):
                answer += part
        except OSError:
            return answer
    return answer
