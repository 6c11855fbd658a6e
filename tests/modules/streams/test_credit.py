"""The credit of a stream's sender, and the window of its receiver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.streams.credit import FIRST_CREDIT, FRAME_COST, ReceiveWindow, SendCredit
from modules.streams.frames import Frame, FrameError, FrameType, credit_frame, credit_of, decode


def test_a_silent_stream_is_granted_nothing_and_one_frame_too_many_is_no_overrun() -> None:
    """A thousand silent streams would be granted the memory of all; an HTTP parser may hold some bytes back."""
    credit = SendCredit()
    assert credit.room == FIRST_CREDIT - FRAME_COST
    credit.spend(0)
    assert credit.room == FIRST_CREDIT - 2 * FRAME_COST
    credit.spend(FIRST_CREDIT)
    assert credit.room == 0
    window = ReceiveWindow()
    assert window.grant(0, 1 << 20) == 0
    window.received(1)
    assert window.grant(0, FIRST_CREDIT) == 0, "few bytes are worth no frame"
    window.received(FIRST_CREDIT)
    assert not window.is_overrun
    window.received(FIRST_CREDIT)
    assert window.is_overrun


@given(
    most=st.integers(FIRST_CREDIT, 1 << 20),
    steps=st.lists(st.tuples(st.integers(1, 1 << 16), st.integers(0, 1 << 16)), max_size=100),
)
def test_no_more_waits_than_was_granted(most: int, steps: list[tuple[int, int]]) -> None:
    """Whatever the sender sends and the receiver passes on; and when all is passed on, the sender may go on."""
    credit, window, waiting = SendCredit(), ReceiveWindow(), 0
    for wanted, passed in steps:
        size = min(wanted, credit.room)
        if size:
            credit.spend(size)
            window.received(size)
            waiting += size + FRAME_COST
        waiting -= min(waiting, passed)
        credit.add(window.grant(waiting, most))
        assert waiting + window.outstanding <= most
        assert not window.is_overrun
    credit.add(window.grant(0, most))
    assert credit.room > 0


def test_a_sender_that_takes_no_notice_is_noticed() -> None:
    window = ReceiveWindow()
    window.received(2 * FIRST_CREDIT)
    assert window.is_overrun


def test_the_frame() -> None:
    frame = credit_frame(300, 70_000)
    assert frame.encode() == bytes.fromhex("ac02 40 f0a204")
    assert credit_of(decode(frame.encode())) == 70_000
    with pytest.raises(FrameError):
        credit_of(Frame(1, FrameType.CREDIT, b"\xff"))
