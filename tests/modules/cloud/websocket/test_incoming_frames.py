"""Received frames on their way to cloudhub: keepalives overtake the others, and a closed connection loses none."""

import socket
from collections.abc import Iterator

import pytest

from beehive import Message, RealClock
from beehive.codec import encode
from modules.cloud.websocket import incoming_frames
from modules.cloud.websocket.connection import _PASSED_FRAMES, UpgradeCallbacks, WebsocketConnection, WebsocketLink
from modules.cloud.websocket.incoming_frames import _FRAME_COST, _UNCHECKED, IncomingFrames
from modules.cloud.websocket.message_budget import FREE_BYTES
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
    assert connection.link.admits()
    assert list(connection.unread) == [b"first", b"second"]
    assert connection.unread_bytes == len(b"firstsecond")
    frames.keep(connection, KEEPALIVE, 11.0)
    assert delivered == [KEEPALIVE] * 2


def test_frames_wait_while_the_inboxes_are_full(connection: WebsocketConnection) -> None:
    delivered: list[bytes] = []
    full = True
    frames = IncomingFrames(lambda _, frame: delivered.append(frame), lambda: full, 1 << 20)
    frames.keep(connection, b"one", 0.0)
    frames.update(connection, 0.0)
    frames.dispatch()
    assert delivered == []
    full = False
    frames.dispatch()
    assert delivered == [b"one"]
    assert not frames.waiting


def test_the_frames_of_a_closed_connection_are_delivered_and_leave_the_budget(connection: WebsocketConnection) -> None:
    """The node may know that they arrived."""
    delivered: list[bytes] = []
    frames = IncomingFrames(lambda _, frame: delivered.append(frame), lambda: False, 1 << 20)
    large = bytes(FREE_BYTES + 1000)
    for frame in (b"one", large):
        frames.keep(connection, frame, 0.0)
    frames.update(connection, 0.0)
    assert frames._budget.counted_bytes
    frames.end(connection)
    assert delivered == [b"one", large]
    assert frames._budget.counted_bytes == 0
    assert not frames.waiting


def test_a_large_message_is_as_old_as_its_own_beginning(connection: WebsocketConnection) -> None:
    """And not as that of the one before, with whose end it came."""
    frames = IncomingFrames(lambda *_: None, lambda: True, 1 << 20)
    connection.unfinished_bytes = FREE_BYTES + 1
    frames.received(connection, 0.0)
    frames.keep(connection, bytes(FREE_BYTES + 2), 29.0)
    frames.received(connection, 29.0)
    assert frames._budget.unfinished == {connection: 29.0}


def test_nothing_of_a_link_that_cloudhub_has_closed_is_delivered(connection: WebsocketConnection) -> None:
    delivered: list[bytes] = []
    frames = IncomingFrames(lambda _, frame: delivered.append(frame), lambda: False, 1 << 20)
    frames.keep(connection, b"one", 0.0)
    connection.link.close()
    frames.end(connection)
    assert delivered == []


def test_a_message_that_is_handled_before_the_server_waits_for_it_is_not_waited_for(
    connection: WebsocketConnection,
) -> None:
    """Nobody would wake the server."""

    class HandledBetween(WebsocketLink):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "is_held" and value:
                self.handled(1)
            super().__setattr__(name, value)

    connection.link = HandledBetween(lambda _: None)
    for _ in range(_PASSED_FRAMES + 1):
        connection.unread.append(b"x")
    for _ in range(_PASSED_FRAMES):
        connection.pass_on()
    assert connection.link.admits()


def test_only_a_connection_that_waits_is_woken(connection: WebsocketConnection) -> None:
    woken: list[WebsocketLink] = []
    connection.link = WebsocketLink(woken.append)
    for _ in range(_PASSED_FRAMES + 1):
        connection.unread.append(b"x")
    for _ in range(_PASSED_FRAMES):
        connection.pass_on()
    assert not connection.link.admits()
    connection.link.handled(1)
    assert woken == [connection.link]
    connection.pass_on()
    connection.link.handled(1)
    assert woken == [connection.link]


def test_what_has_waited_has_left_when_the_last_message_is_taken() -> None:
    link, drained = WebsocketLink(lambda _: None), list[int]()
    link.drained = lambda: drained.append(len(link.waiting))
    for _ in range(3):
        link.send(b"{}")
    assert [link.pop() for _ in range(3)] == [b"{}"] * 3
    assert drained == [0]


def test_a_portion_is_delivered_and_the_inboxes_are_looked_at_meanwhile(
    connection: WebsocketConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivered: list[bytes] = []

    def deliver(of: WebsocketConnection, frame: bytes) -> None:
        delivered.append(frame)
        of.link.handled(len(frame))

    frames = IncomingFrames(deliver, lambda: len(delivered) == _UNCHECKED, 1 << 20)
    for _ in range(2 * _UNCHECKED + 3):
        frames.keep(connection, b"", 0.0)
    frames.update(connection, 0.0)
    for number in (_UNCHECKED, _UNCHECKED):
        frames.dispatch()
        assert len(delivered) == number, "they are full"
    delivered.clear()
    monkeypatch.setattr(incoming_frames, "_PORTION", 3 * _FRAME_COST)
    frames.dispatch()
    assert len(delivered) == 3


def test_a_connection_with_a_large_message_is_read_no_further_than_others(connection: WebsocketConnection) -> None:
    frames = IncomingFrames(lambda *_: None, lambda: True, 1 << 20)
    connection.unfinished_bytes = FREE_BYTES + 1
    assert frames.update(connection, 0.0)
    for _ in range(64):
        frames.keep(connection, b"{}", 0.0)
    connection.unfinished_bytes = FREE_BYTES + 1
    assert not frames.update(connection, 0.0)
