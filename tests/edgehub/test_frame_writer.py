"""The writer: order, pings behind what was sent, and what a pong confirms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgehub.frame_writer import CHUNK, PING_BYTES, PING_MESSAGES, PING_PAUSE, FrameWriter
from edgehub.framing import Opcode
from tests.edgehub.frames import client_frames


def test_messages_leave_in_order_with_one_ping_behind_them() -> None:
    """The ping asks how far the peer has read."""
    writer = FrameWriter()
    for payload in (b"a", b"b"):
        writer.put(payload)
    (first, second, ping) = client_frames(writer.next_bytes(0.0))
    assert (first, second) == ((Opcode.TEXT, b"a"), (Opcode.TEXT, b"b"))
    assert ping[0] is Opcode.PING
    assert writer.next_bytes(0.0) == b""
    assert writer.confirm(ping[1]) == 2
    assert writer.next_bytes(0.0) == b""


def test_only_one_ping_is_on_its_way() -> None:
    """What is sent meanwhile gets its own ping after the pong."""
    writer = FrameWriter()
    writer.put(b"a")
    ping = client_frames(writer.next_bytes(0.0))[-1]
    writer.put(b"b")
    assert client_frames(writer.next_bytes(0.0)) == [(Opcode.TEXT, b"b")]
    assert writer.confirm(ping[1]) == 1
    (second,) = client_frames(writer.next_bytes(PING_PAUSE))
    assert second[0] is Opcode.PING
    assert writer.confirm(second[1]) == 1


def test_small_messages_one_after_another_share_a_ping() -> None:
    """The next ping waits for the pause, and the link learns when it is due; a later message has it immediately."""
    writer = FrameWriter()
    writer.put(b"a")
    ping = client_frames(writer.next_bytes(10.0))[-1]
    dues = [writer.ping_due]
    assert writer.confirm(ping[1]) == 1
    for payload in (b"b", b"c"):
        writer.put(payload)
        assert client_frames(writer.next_bytes(10.01)) == [(Opcode.TEXT, payload)]
    dues.append(writer.ping_due)
    (second,) = client_frames(writer.next_bytes(10.0 + PING_PAUSE))
    assert second[0] is Opcode.PING
    assert writer.confirm(second[1]) == 2
    assert [*dues, writer.ping_due] == [None, 10.0 + PING_PAUSE, None], "none while one is unanswered, or without need"
    writer.put(b"d")
    assert [opcode for opcode, _ in client_frames(writer.next_bytes(20.0))] == [Opcode.TEXT, Opcode.PING]


@pytest.mark.parametrize(("number", "size"), [(PING_MESSAGES, 1), (2, PING_BYTES // 2)])
def test_many_unconfirmed_messages_or_bytes_are_asked_about_immediately(number: int, size: int) -> None:
    """A stream of messages is never slowed down by the pause."""
    writer = FrameWriter()
    writer.put(b"a")
    ping = client_frames(writer.next_bytes(0.0))[-1]
    writer.confirm(ping[1])
    frames = []
    for _ in range(number):
        writer.put(b"x" * size)
        frames += client_frames(writer.next_bytes(0.001))
    assert [opcode for opcode, _ in frames] == [Opcode.TEXT] * number + [Opcode.PING]
    assert writer.confirm(frames[-1][1]) == number
    writer.put(b"b")
    assert client_frames(writer.next_bytes(0.002)) == [(Opcode.TEXT, b"b")], "few again"


def test_a_pong_that_answers_nothing_confirms_nothing() -> None:
    """Unsolicited pongs are allowed (RFC 6455 §5.5.3), and repeated ones count once."""
    writer = FrameWriter()
    assert writer.confirm(b"") == 0
    writer.put(b"a")
    ping = client_frames(writer.next_bytes(0.0))[-1]
    assert writer.confirm(b"12345678") == 0
    assert writer.confirm(ping[1]) == 1
    assert writer.confirm(ping[1]) == 0


def test_the_newest_ping_of_the_peer_is_answered_first() -> None:
    """A flood of pings costs one pong."""
    writer = FrameWriter()
    writer.put(b"a")
    for number in range(1000):
        writer.answer_ping(str(number).encode())
    assert client_frames(writer.next_bytes(0.0))[:2] == [(Opcode.PONG, b"999"), (Opcode.TEXT, b"a")]
    assert not writer.next_bytes(0.0)


@given(st.lists(st.integers(1, CHUNK * 2), max_size=12))
def test_the_bytes_of_one_write_are_bounded(sizes: list[int]) -> None:
    """A chunk, or one larger message alone."""
    writer = FrameWriter()
    for size in sizes:
        writer.put(b"x" * size)
    seen: list[int] = []
    while data := writer.next_bytes(0.0):
        texts = [payload for opcode, payload in client_frames(data) if opcode is Opcode.TEXT]
        assert len(texts) == 1 or sum(map(len, texts)) <= CHUNK
        seen += map(len, texts)
    assert seen == sizes
