"""Frames of the stream tunnel against the bytes measured on KubeEdge's wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.streams.frames import MAX_DATA, MAX_FRAME, SENT_DATA, Frame, FrameError, FrameType, data_frames, decode

NUMBERS = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("frame", "wire"),
    [
        (Frame(1, FrameType.LOGS, b'{"MessID":1,'), "01 00 7b 22 4d 65 73 73 49 44 22 3a 31 2c"),
        (Frame(1, FrameType.DATA, b"hi\n"), "01 03 68 69 0a"),
        (Frame(300, FrameType.DATA, b"hi"), "ac 02 03 68 69"),
        (Frame(16384, FrameType.DATA), "80 80 01 03"),
        (Frame(127, FrameType.DATA), "7f 03"),
        (Frame(5, FrameType.REMOVE), "05 04"),
        (Frame(0, FrameType.CLOSE, b"x"), "00 05 78"),
        (Frame(128, FrameType.ATTACH, b"{"), "80 01 06 7b"),
    ],
)
def test_bytes_of_kubeedge(frame: Frame, wire: str) -> None:
    """A frame has the bytes that KubeEdge's peers exchange, and is read from them."""
    assert frame.encode() == bytes.fromhex(wire)
    assert decode(bytes.fromhex(wire)) == frame


@given(NUMBERS, NUMBERS, st.binary(max_size=300))
def test_round_trip(connection: int, kind: int, data: bytes) -> None:
    """Every frame is read as it was written, also with a type that nobody knows and data that is no UTF-8."""
    assert decode(Frame(connection, kind, data).encode()) == Frame(connection, kind, data)


@pytest.mark.parametrize(
    "wire", [b"", b"\x01", b"\x80", b"\x80\x80", b"\x01\xff", b"\xff" * 12, b"\xff" * 9 + b"\x02\x00"]
)
def test_no_head(wire: bytes) -> None:
    """A message that ends within the head, or has a number of more than 64 bits, is refused."""
    with pytest.raises(FrameError):
        decode(wire)


def test_long_data_in_pieces() -> None:
    """Data leaves in frames of at most 32 KiB that make the whole again; no data makes no frame."""
    data = bytes(range(256)) * 300
    frames = list(data_frames(9, data))
    assert [len(frame.data) for frame in frames] == [SENT_DATA, SENT_DATA, len(data) - 2 * SENT_DATA]
    assert b"".join(frame.data for frame in frames) == data
    assert list(data_frames(9, b"")) == []
    assert len(Frame(2**64 - 1, 2**64 - 1, bytes(MAX_DATA)).encode()) == MAX_FRAME
