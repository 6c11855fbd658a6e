"""Frames, held against the `websockets` package and against the tables of RFC 6455."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame
from websockets.frames import Opcode as TheirOpcode
from websockets.server import ServerProtocol

from edgehub.errors import ProtocolError
from edgehub.framing import HEAD_BYTES, FrameReader, Opcode, Received, Skipped, close_payload, close_reason, frame


def theirs(opcode: Opcode, payload: bytes, *, final: bool = True) -> bytes:
    """A server's frame as `websockets` writes it."""
    return Frame(TheirOpcode(opcode), payload, final).serialize(mask=False)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """The bytes in pieces of the given sizes, the rest at the end."""
    pieces, start = [], 0
    for size in sizes:
        pieces.append(data[start : start + size])
        start += size
    return [*pieces, data[start:]]


def read(data: bytes, limit: int = 1 << 20, sizes: list[int] | None = None) -> list[Received | Skipped]:
    """All events of the bytes."""
    reader = FrameReader(limit)
    return [event for piece in cut(data, sizes or []) for event in reader.feed(piece)]


def test_the_worked_example_of_the_specification_is_read() -> None:
    """docs/protocol.md, "Framing": a server's text frame of 196 bytes begins 81 7e 00 c4."""
    payload = b'{"header":' + b" " * 186
    assert read(b"\x81\x7e\x00\xc4" + payload) == [Received(Opcode.TEXT, payload)]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 1 << 20])
def test_every_form_of_length_is_read_and_written(size: int) -> None:
    """7, 16 and 64 bits; what we write, `websockets` reads."""
    payload = b"a" * size
    assert read(theirs(Opcode.TEXT, payload)) == [Received(Opcode.TEXT, payload)]
    server = ServerProtocol(max_size=None)
    server.state = server.state.OPEN
    server.parser = super(ServerProtocol, server).parse()
    next(server.parser)
    server.receive_data(frame(Opcode.TEXT, payload))
    (event,) = server.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, bytes(event.data)) == (TheirOpcode.TEXT, payload)


def test_a_fragmented_message_with_control_frames_between_is_reassembled() -> None:
    """As gorilla sends what is over its buffer of 4096 bytes."""
    data = b"".join(
        (
            theirs(Opcode.TEXT, b"a" * 4096, final=False),
            theirs(Opcode.PING, b"p" * 125),
            theirs(Opcode.CONTINUATION, b"b" * 4096, final=False),
            theirs(Opcode.PONG, b""),
            theirs(Opcode.CONTINUATION, b""),
            theirs(Opcode.TEXT, b"c", final=False),
            theirs(Opcode.CLOSE, b""),
        )
    )
    expected = [
        Received(Opcode.PING, b"p" * 125),
        Received(Opcode.PONG, b""),
        Received(Opcode.TEXT, b"a" * 4096 + b"b" * 4096),
        Received(Opcode.CLOSE, b""),
    ]
    assert read(data) == expected


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[Received], list[int]]:
    """Messages fragmented anyhow with pings between, what they are, and how the bytes are cut."""
    data, expected = b"", []
    for payload in draw(st.lists(st.binary(max_size=400), max_size=8)):
        opcode = draw(st.sampled_from([Opcode.TEXT, Opcode.BINARY]))
        parts = cut(payload, draw(st.lists(st.integers(0, 150), max_size=4)))
        for index, part in enumerate(parts):
            kind = opcode if index == 0 else Opcode.CONTINUATION
            data += theirs(kind, part, final=index == len(parts) - 1)
            if index < len(parts) - 1 and draw(st.booleans()):
                ping = draw(st.binary(max_size=125))
                data += theirs(Opcode.PING, ping)
                expected.append(Received(Opcode.PING, ping))
        expected.append(Received(opcode, payload))
    return data, expected, draw(st.lists(st.integers(0, 200), max_size=30))


@given(streams())
def test_any_stream_is_read_however_it_is_cut(stream: tuple[bytes, list[Received], list[int]]) -> None:
    """Reading does not depend on how the bytes are cut."""
    data, expected, sizes = stream
    assert read(data, sizes=sizes) == expected


@given(streams(), st.integers(0, 300))
def test_messages_over_the_limit_are_skipped_and_the_others_read(
    stream: tuple[bytes, list[Received], list[int]], limit: int
) -> None:
    """Law: the limit takes away exactly the messages that are over it."""
    data, expected, sizes = stream
    wanted = [
        Skipped(event.payload[:HEAD_BYTES], len(event.payload))
        if event.opcode is not Opcode.PING and len(event.payload) > limit
        else event
        for event in expected
    ]
    assert read(data, limit, sizes) == wanted


@pytest.mark.parametrize("fragments", [1, 50, 100])
def test_a_message_over_the_limit_is_never_held_in_memory(fragments: int) -> None:
    """64 MiB pass through a reader that never holds more than a piece and the head."""
    reader, piece, size = FrameReader(1 << 20), b"x" * 65536, 64 << 20
    events: list[Received | Skipped] = []
    for index in range(fragments):
        length = size // fragments
        kind = Opcode.TEXT if index == 0 else Opcode.CONTINUATION
        first = kind | (0x80 if index == fragments - 1 else 0)
        events += reader.feed(bytes((first, 127)) + length.to_bytes(8, "big"))
        for start in range(0, length, len(piece)):
            events += reader.feed(piece[: min(len(piece), length - start)])
            assert len(reader._buffer) == 0
            assert len(reader._message) <= (1 << 20)
    assert events == [Skipped(b"x" * HEAD_BYTES, size // fragments * fragments)]
    assert list(reader.feed(theirs(Opcode.TEXT, b"next"))) == [Received(Opcode.TEXT, b"next")]


@pytest.mark.parametrize(
    ("data", "about"),
    [
        (b"\x83\x00", "unknown opcode 0x3"),
        (b"\x8b\x00", "unknown opcode 0xb"),
        (b"\xc1\x00", "not agreed on"),
        (b"\xa1\x00", "reserved bits"),
        (b"\x81\x80\x00\x00\x00\x00", "mask"),
        (b"\x09\x00", "control frame"),
        (b"\x89\x7e\x00\x80", "control frame"),
        (b"\x80\x00", "out of sequence"),
        (b"\x01\x01a\x81\x01b", "out of sequence"),
        (b"\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00", "63 bits"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "reserved bits"),
        (b"\x01\x01a" + b"\x00\x00" * 2000, "empty fragments"),
    ],
)
def test_a_violation_of_the_protocol_is_an_error_with_the_reason(data: bytes, about: str) -> None:
    """The rules of RFC 6455 §5.2 to §5.5 for what a server may send."""
    with pytest.raises(ProtocolError, match=about):
        read(data)


def test_empty_fragments_are_counted_in_one_message() -> None:
    """A cloud may send any number of messages that have a few."""
    message = b"\x01\x01a" + b"\x00\x00" * 900 + b"\x80\x00"
    assert read(message * 3) == [Received(Opcode.TEXT, b"a")] * 3


@given(st.binary(max_size=2000))
def test_no_two_frames_have_the_same_mask(payload: bytes) -> None:
    """Masks are drawn afresh (RFC 6455 §5.3); equal ones in a row are a chance of 1 in 2^64 for two pairs."""
    first, second, third = (frame(Opcode.TEXT, payload) for _ in range(3))
    assert not (payload and first == second == third)


def test_close_frames_carry_code_and_reason() -> None:
    """A reason is cut to the 123 bytes that fit; a close without a code is 1005."""
    assert close_reason(close_payload(1001, "going away")) == (1001, "going away")
    assert len(close_payload(1000, "x" * 500)) == 125
    assert close_reason(b"") == (1005, "")
    assert close_reason(b"\x03\xe8\xff") == (1000, "\ufffd")
