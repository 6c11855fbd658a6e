"""One connection without the server's thread: its deadlines, when it is read, and what a refused one leaves."""

import socket
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, cast

import pytest
from websockets.frames import Frame, Opcode

from modules.cloud.websocket import connection as module
from modules.cloud.websocket.connection import (
    OPENING_SECONDS,
    READ_BYTES,
    UpgradeCallbacks,
    WebsocketConnection,
    WebsocketLink,
)
from modules.cloud.websocket.handshake import Refusal
from modules.cloud.websocket.wire import PlainWire

REQUEST = (
    b"GET /e632/n1/events HTTP/1.1\r\nHost: cloud\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
WRITE_TIMEOUT = 60.0


class Full:
    """A socket whose buffer has no room, in the place of the connection's."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real

    def send(self, data: bytes) -> int:
        """Send nothing."""
        raise BlockingIOError

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class Node:
    """A node, and its connection at time 0."""

    def __init__(self, refusal: Refusal | None = None, *, apart: int = 0) -> None:
        self.peer, accepted = socket.socketpair()
        self.kept: list[bytes] = []
        callbacks = UpgradeCallbacks(lambda *_: refusal, lambda _: None, lambda: None)
        self.link = WebsocketLink(lambda _: None)
        self.connection = WebsocketConnection(
            cast("socket.socket", _Tcp(accepted)), "peer", PlainWire(), self.link, callbacks,
            max_frame_bytes=1 << 20, now=0.0,
        )  # fmt: skip
        head = len(REQUEST) - apart
        for part in filter(None, (REQUEST[:head], REQUEST[head:])):
            self.says(part)

    def says(self, data: bytes, now: float = 0.0) -> None:
        """Send bytes, which are read."""
        self.peer.sendall(data)
        self.connection.read(now, memoryview(bytearray(READ_BYTES)), lambda _, frame, __: self.kept.append(frame))

    def close(self) -> None:
        """Close both ends."""
        self.connection.close()
        self.peer.close()


class _Tcp:
    """A socket of a pair that has TCP's options."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real

    def setsockopt(self, *_: int) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.fixture
def node() -> Iterator[Node]:
    made = Node()
    assert made.connection.is_open
    yield made
    made.close()


def text(content: bytes, *, fin: bool = True) -> bytes:
    """Return a frame of a node."""
    return Frame(Opcode.TEXT, content, fin).serialize(mask=True)


@pytest.mark.parametrize("apart", range(5))
def test_a_request_whose_last_bytes_come_apart_is_one(apart: int) -> None:
    node = Node(apart=apart)
    node.says(Frame(Opcode.TEXT, b"{}").serialize(mask=True))
    node.close()
    assert node.kept == [b"{}"]


def test_a_node_for_which_nothing_waits_is_never_too_slow(node: Node) -> None:
    assert not node.connection.is_overdue(1e6, WRITE_TIMEOUT)


def test_what_a_node_does_not_take_holds_it_back(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the answers before it asks more, and each ping would add a pong."""
    monkeypatch.setattr(module, "_WAITING_BYTES", 10)
    node.link.send(b"0123456789")
    is_read = [node.connection.may_be_read]
    node.connection.write(1.0)
    is_read.append(node.connection.may_be_read)
    monkeypatch.setattr(module, "_UNSENT_BYTES", 1)
    node.connection.socket = cast("socket.socket", Full(node.connection.socket))
    node.link.send(b"x")
    node.connection.write(2.0)
    assert [*is_read, node.connection.may_be_read] == [False, True, False]
    assert not node.connection.is_overdue(1.0 + WRITE_TIMEOUT, WRITE_TIMEOUT)
    assert node.connection.is_overdue(2.1 + WRITE_TIMEOUT, WRITE_TIMEOUT)


def test_of_a_node_that_is_refused_nothing_is_kept(node: Node) -> None:
    node.says(text(b"the beginning", fin=False))
    assert node.connection.unfinished_bytes
    node.connection.refuse(1008, "revoked", 5.0)
    assert node.connection.unfinished_bytes == 0
    node.says(text(b"more"), 5.0)
    assert (node.kept, node.connection.unfinished_bytes) == ([], 0)
    assert node.connection.is_overdue(7.0, WRITE_TIMEOUT)


def test_a_client_that_is_refused_has_a_moment_to_read_why() -> None:
    """Not the time of one that may open its websocket."""
    node = Node(Refusal(HTTPStatus.FORBIDDEN, "no\n", "test"))
    assert b"403" in node.peer.recv(4096)
    assert node.connection.is_overdue(OPENING_SECONDS / 2, WRITE_TIMEOUT)
    node.close()


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_long_reason_is_cut_and_follows_what_waits(node: Node, *, is_refused: bool) -> None:
    """A close frame has 123 bytes for it; what waits for a node that is refused is not sent."""
    node.peer.recv(4096)
    reason = "x" + "é" * 300
    node.link.send(b"waits")
    if is_refused:
        node.connection.refuse(1008, reason, 5.0)
    else:
        node.link.end(1008, reason)
        node.connection.end(5.0)
    sent = node.peer.recv(4096)
    assert (b"waits" in sent) is not is_refused
    assert sent.endswith(reason[:60].encode() + "…".encode())
    node.connection.close()
    with pytest.raises(ConnectionError, match="is closed"):
        node.link.send(b"too late")


def test_of_what_waits_for_a_slow_node_a_portion_is_encoded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PORTION", 150)
    node.connection.socket = cast("socket.socket", Full(node.connection.socket))
    for _ in range(5):
        node.link.send(b"x" * 100)
    node.connection.write(1.0)
    assert len(node.link.waiting) == 3


def test_a_node_that_ends_tls_ends_its_connection(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last message counts."""
    monkeypatch.setattr(PlainWire, "is_ended", True)
    with pytest.raises(ConnectionError):
        node.says(text(b"last"))
    assert node.kept == [b"last"]
