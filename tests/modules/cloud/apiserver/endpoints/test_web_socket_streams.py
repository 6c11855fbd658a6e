"""Logs and watches in messages of a WebSocket."""

import base64
import os
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import connect

from beehive.clock import RealClock
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from beehive.http.request import Request
from beehive.http.responses import Peer, Reply, Stream
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.apiserver.endpoints.web_socket_streams import in_web_socket, wants_web_socket, without_upgrade
from tests.support.patience import PATIENCE


class Site:
    """A server whose every path is one stream of given pieces, which may then wait, or break off."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.waits = self.breaks = False
        self.done = threading.Event()
        self.clock = RealClock()
        self._wake = os.eventfd(0)
        self.server = HttpServer(listen_tcp("127.0.0.1", 0), self, self.clock, max_body=1000)
        self.server.start()

    def serve(self, request: Request) -> Reply:
        """The stream, in messages."""
        assert wants_web_socket(request)
        assert not without_upgrade(request).header("upgrade")
        try:
            return in_web_socket(request, Stream("text/plain", self._said, self.done.set), self.clock)
        except ApiStatusError as error:
            return error.response()

    def _said(self, peer: Peer) -> Generator[bytes, None, None]:
        yield from self.pieces
        if self.breaks:
            raise ConnectionAbortedError("the node has gone")
        while self.waits and not peer.gone_within(PATIENCE, self._wake):
            pass

    def url(self, path: str) -> str:
        return f"ws://127.0.0.1:{self.server.port}{path}"

    def close(self) -> None:
        self.server.stop()
        self.clock.close()
        os.close(self._wake)


@pytest.fixture
def site() -> Iterator[Site]:
    with closing(Site()) as made:
        yield made


@pytest.mark.parametrize("protocol", [None, "binary.k8s.io", "base64.binary.k8s.io"])
def test_a_log_in_each_protocol(site: Site, protocol: str | None) -> None:
    """kube-apiserver's first message is empty."""
    site.pieces = [b"first\n", b"\xff\n"]
    offered: Any = [protocol] if protocol else None
    with connect(site.url("/log"), subprotocols=offered) as client:
        assert client.subprotocol == protocol
        messages = list(client)
    if protocol and "base64" in protocol:
        assert [base64.b64decode(each) for each in messages] == [b"", *site.pieces]
    else:
        assert messages == [b"", *site.pieces]
    assert site.done.wait(PATIENCE)


def test_a_watch_has_a_text_for_each_event(site: Site) -> None:
    """Whatever the pieces are."""
    site.pieces = [b'{"a":1}\n{"b":', b"2}\n", b'{"c":3}\n']
    with connect(site.url("/pods?watch=true")) as client:
        assert list(client) == ['{"a":1}', '{"b":2}', '{"c":3}']


def test_pings_are_answered_and_a_close_ends_the_stream(site: Site) -> None:
    site.waits = True
    with connect(site.url("/log"), ping_interval=None) as client:
        assert client.recv(timeout=PATIENCE) == b""
        assert client.ping().wait(PATIENCE)
        client.send("nothing that means anything")
        assert client.ping().wait(PATIENCE)
        client.close()
        with pytest.raises(ConnectionClosedOK):
            client.recv(timeout=PATIENCE)
    assert site.done.wait(PATIENCE)


def test_a_client_that_goes_ends_the_stream(site: Site) -> None:
    site.waits = True
    with connect(site.url("/log"), ping_interval=None, close_timeout=0) as client:
        client.recv(timeout=PATIENCE)
        client.socket.close()
    assert site.done.wait(PATIENCE)


def test_a_log_that_breaks_off_is_not_closed_in_order(site: Site) -> None:
    site.pieces, site.breaks = [b"first"], True
    with connect(site.url("/log")) as client:
        assert [client.recv(timeout=PATIENCE) for _ in range(2)] == [b"", b"first"]
        with pytest.raises(ConnectionClosedError):
            client.recv(timeout=PATIENCE)
    assert site.done.wait(PATIENCE)


def test_another_protocol_is_refused(site: Site) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        connect(site.url("/log"), subprotocols=["v4.channel.k8s.io"]),  # type: ignore[list-item]
    ):
        pass
    assert refused.value.response.status_code == 400
    assert site.done.wait(PATIENCE)


@pytest.mark.parametrize(
    ("method", "parts", "query", "headers", "wants"),
    [
        ("GET", ("pods", "p", "log"), (), (("upgrade", "WebSocket"),), True),
        ("GET", ("pods",), (("watch", "true"),), (("upgrade", "websocket"),), True),
        ("GET", ("pods",), (), (("upgrade", "websocket"),), False),
        ("GET", ("pods", "p", "log"), (), (("upgrade", "SPDY/3.1"),), False),
        ("GET", ("pods", "p", "log"), (), (), False),
        ("GET", ("pods", "p", "exec"), (), (("upgrade", "websocket"),), False),
        ("POST", ("pods", "p", "log"), (), (("upgrade", "websocket"),), False),
    ],
)
def test_what_is_asked_for(
    method: str,
    parts: tuple[str, ...],
    query: tuple[tuple[str, str], ...],
    headers: tuple[tuple[str, str], ...],
    wants: bool,
) -> None:
    request = Request(method=method, target="/", parts=parts, query=query, headers=headers)
    assert wants_web_socket(request) is wants
