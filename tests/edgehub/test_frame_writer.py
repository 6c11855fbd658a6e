"""The writer: order, pings behind what was sent, and what a pong confirms."""

from hypothesis import given
from hypothesis import strategies as st

from edgehub.frame_writer import CHUNK, FrameWriter
from edgehub.framing import Opcode
from tests.edgehub.frames import client_frames


def test_messages_leave_in_order_with_one_ping_behind_them() -> None:
    """The ping asks how far the peer has read."""
    writer = FrameWriter()
    for payload in (b"a", b"b"):
        writer.put(payload)
    (first, second, ping) = client_frames(writer.next_bytes())
    assert (first, second) == ((Opcode.TEXT, b"a"), (Opcode.TEXT, b"b"))
    assert ping[0] is Opcode.PING
    assert writer.next_bytes() == b""
    assert writer.confirm(ping[1]) == 2
    assert writer.next_bytes() == b""


def test_only_one_ping_is_on_its_way() -> None:
    """What is sent meanwhile gets its own ping after the pong."""
    writer = FrameWriter()
    writer.put(b"a")
    ping = client_frames(writer.next_bytes())[-1]
    writer.put(b"b")
    assert client_frames(writer.next_bytes()) == [(Opcode.TEXT, b"b")]
    assert writer.confirm(ping[1]) == 1
    (second,) = client_frames(writer.next_bytes())
    assert second[0] is Opcode.PING
    assert writer.confirm(second[1]) == 1


def test_a_pong_that_answers_nothing_confirms_nothing() -> None:
    """Unsolicited pongs are allowed (RFC 6455 §5.5.3), and repeated ones count once."""
    writer = FrameWriter()
    assert writer.confirm(b"") == 0
    writer.put(b"a")
    ping = client_frames(writer.next_bytes())[-1]
    assert writer.confirm(b"12345678") == 0
    assert writer.confirm(ping[1]) == 1
    assert writer.confirm(ping[1]) == 0


def test_the_newest_ping_of_the_peer_is_answered_first() -> None:
    """A flood of pings costs one pong."""
    writer = FrameWriter()
    writer.put(b"a")
    for number in range(1000):
        writer.answer_ping(str(number).encode())
    assert client_frames(writer.next_bytes())[:2] == [(Opcode.PONG, b"999"), (Opcode.TEXT, b"a")]


@given(st.lists(st.integers(1, CHUNK * 2), max_size=12))
def test_what_is_made_ready_at_once_is_bounded(sizes: list[int]) -> None:
    """A chunk, or one larger message alone."""
    writer = FrameWriter()
    for size in sizes:
        writer.put(b"x" * size)
    seen: list[int] = []
    while data := writer.next_bytes():
        texts = [payload for opcode, payload in client_frames(data) if opcode is Opcode.TEXT]
        assert len(texts) == 1 or sum(map(len, texts)) <= CHUNK
        seen += map(len, texts)
    assert seen == sizes
