"""Keepalives overtake the frames of their connection, and take no place in its window."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from beehive import Message, RealClock
from beehive.codec import encode
from modules.cloud.websocket.connection import UpgradeCallbacks, WebsocketConnection, WebsocketLink
from modules.cloud.websocket.incoming_frames import IncomingFrames
from modules.cloud.websocket.wire import PlainWire

KEEPALIVE = encode(Message.new(RealClock(), source="n1", resource="node", operation="keepalive", content="ping"))


@pytest.fixture
def connection() -> Iterator[WebsocketConnection]:
    """A connection of which nothing is read."""
    callbacks = UpgradeCallbacks(lambda *_: None, lambda _: None, lambda: None)
    link = WebsocketLink(lambda _: None)
    made = WebsocketConnection(socket.socket(), "peer", PlainWire(), link, callbacks, max_frame_bytes=1000, now=0.0)
    yield made
    made.close()


def test_many_keepalives_leave_room_for_messages(connection: WebsocketConnection) -> None:
    """One in a second is delivered; cloudhub counts only delivered ones as handled. Older messages stay in order."""
    delivered: list[bytes] = []
    frames = IncomingFrames(lambda _, frame: delivered.append(frame), lambda: False, 1 << 20)
    for message in (b"first", b"second"):
        frames.keep(connection, message, 10.0)
    for _ in range(100):
        frames.keep(connection, KEEPALIVE, 10.0)
    assert delivered == [KEEPALIVE]
    connection.link.handled(len(KEEPALIVE))
    assert connection.link.has_room
    assert list(connection.unread) == [b"first", b"second"]
    assert connection.unread_bytes == len(b"firstsecond")
    frames.keep(connection, KEEPALIVE, 11.0)
    assert delivered == [KEEPALIVE] * 2
