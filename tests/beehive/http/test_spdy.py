"""Frames of SPDY/3.1, from both sides."""

import struct
import tracemalloc
import zlib

import pytest

from beehive.http.spdy import (
    DICTIONARY,
    MOST_BYTES,
    ConnectionEnd,
    HeaderBlockError,
    HeaderUnpacker,
    SpdyConnection,
    SpdyError,
    SpdyEvent,
    StreamData,
    StreamEnd,
    StreamOpened,
    counted,
)


def data(stream: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(content)) + content


def control(kind: int, content: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(content)) + content


FRAMES = (
    control(2, struct.pack(">I", 1) + b"\xff\xff") + data(1, b"one") + data(3, b"", 1) + data(1, b"two", 1)
    + control(4, b"\0" * 4) + control(2, struct.pack(">I", 5), 1) + control(3, struct.pack(">II", 7, 1))
    + control(7, struct.pack(">II", 7, 0))
)  # fmt: skip
EVENTS: list[SpdyEvent] = [
    StreamData(1, b"one"), StreamEnd(3), StreamData(1, b"two"), StreamEnd(1), StreamEnd(5),
    StreamEnd(7, reset=True), ConnectionEnd(),
]  # fmt: skip


def opened(streams: int) -> SpdyConnection:
    """With so many open streams."""
    connection = SpdyConnection()
    for _ in range(streams):
        connection.open_stream({"streamtype": "data"})
    connection.unsent.clear()
    return connection


def joined(events: list[SpdyEvent]) -> list[SpdyEvent]:
    """With the pieces of one stream's data in one."""
    found: list[SpdyEvent] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, StreamData) and isinstance(last, StreamData) and last.stream == event.stream:
            found[-1] = StreamData(event.stream, last.data + event.data)
        else:
            found.append(event)
    return found


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_frames_may_arrive_in_any_pieces(step: int) -> None:
    connection = opened(2)
    found: list[SpdyEvent] = []
    for at in range(0, len(FRAMES), step):
        found += connection.receive(FRAMES[at : at + step])
    assert joined(found) == EVENTS
    assert not connection.unsent


def test_a_ping_is_answered_and_a_stream_of_the_server_is_refused() -> None:
    connection = SpdyConnection()
    assert not list(connection.receive(control(6, struct.pack(">I", 2)) + control(6, struct.pack(">I", 1))))
    assert bytes(connection.unsent) == control(6, struct.pack(">I", 2))
    connection.unsent.clear()
    assert not list(connection.receive(control(1, struct.pack(">IIH", 2, 0, 0))))
    assert bytes(connection.unsent) == control(3, struct.pack(">II", 2, 5))


def test_a_server_answers_the_pings_of_a_client() -> None:
    """They have odd numbers; an even one would be the answer to a ping of the server."""
    connection = SpdyConnection(is_server=True)
    assert not list(connection.receive(control(6, struct.pack(">I", 2)) + control(6, struct.pack(">I", 1))))
    assert bytes(connection.unsent) == control(6, struct.pack(">I", 1))


@pytest.mark.parametrize(
    "frames",
    [
        b"HTTP/1.1 400",
        data(5, b"x"),
        data(2, b"x"),
        struct.pack(">HHI", 0x8002, 2, 4),
        struct.pack(">HHI", 0x8003, 2, 1 << 20),
        control(6, b"\0"),
    ],
)
def test_bytes_that_are_not_spdy_are_an_error(frames: bytes) -> None:
    with pytest.raises(SpdyError):
        list(opened(2).receive(frames))


def test_streams_are_opened_as_a_server_reads_them() -> None:
    """Header blocks are compressed over all frames of the connection."""
    client, server = SpdyConnection(), SpdyConnection(is_server=True)
    ids = [client.open_stream({"streamtype": f"s{n}", "Port": "80"}, ended=n == 1) for n in range(3)]
    client.send(ids[0], b"x" * 40_000, last=True)
    events = joined(list(server.receive(bytes(client.unsent))))
    assert ids == [1, 3, 5]
    assert events[:3] == [StreamOpened(id_, {"streamtype": f"s{n}", "port": "80"}, n == 1) for n, id_ in enumerate(ids)]
    assert events[3:] == [StreamData(1, b"x" * 40_000), StreamEnd(1)]


def test_a_server_accepts_answers_and_resets() -> None:
    """The client sees a reply's headers as nothing, data as data, and a reset as the end."""
    client, server = SpdyConnection(), SpdyConnection(is_server=True)
    first, second = client.open_stream({"a": "b"}), client.open_stream({"a": "c"})
    assert len(list(server.receive(bytes(client.unsent)))) == 2
    server.accept(first)
    server.send(first, b"hello", last=True)
    server.reset(second)
    assert list(client.receive(bytes(server.unsent))) == [
        StreamData(first, b"hello"), StreamEnd(first), StreamEnd(second, reset=True),
    ]  # fmt: skip


def test_the_dictionary_equals_the_specifications() -> None:
    """zlib names a dictionary by its checksum; this one is in every SPDY/3 stream."""
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)
    packed = zlib.compressobj(zdict=DICTIONARY)
    block = struct.pack(">I", 1) + b"".join(map(counted, ("streamtype", "data")))
    text = packed.compress(block) + packed.flush(zlib.Z_SYNC_FLUSH)
    assert HeaderUnpacker().unpack(text) == {"streamtype": "data"}


def syn_stream(stream: int, block: bytes) -> bytes:
    return control(1, struct.pack(">IIH", stream, 0, 0) + block)


def packed(text: bytes) -> bytes:
    made = zlib.compressobj()
    return made.compress(text) + made.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    "frames",
    [
        syn_stream(2, b""), syn_stream(1, b"no zlib"), syn_stream(1, b""), control(1, b"\0" * 4),
        syn_stream(1, packed(b"\0" * (MOST_BYTES + 1))), syn_stream(1, packed(b"\0\0\0\x01")),
        syn_stream(1, packed(struct.pack(">I", 65))), syn_stream(1, packed(struct.pack(">II", 1, 1 << 31))),
        syn_stream(1, packed(b"\0" * 5)), syn_stream(1, zlib.compress(b"\0" * 4)),
        data(1, b"x"),
    ],
)  # fmt: skip
def test_frames_that_a_client_may_not_send_are_an_error(frames: bytes) -> None:
    """Among them a header block that exceeds its bound when unpacked."""
    with pytest.raises(SpdyError):
        list(SpdyConnection(is_server=True).receive(frames))


@pytest.mark.parametrize("second", [1, 3])
def test_numbers_of_streams_grow(second: int) -> None:
    made = zlib.compressobj()
    blocks = [made.compress(b"\0" * 4) + made.flush(zlib.Z_SYNC_FLUSH) for _ in range(2)]
    server = SpdyConnection(is_server=True)
    assert list(server.receive(syn_stream(3, blocks[0]))) == [StreamOpened(3, {}, ended=False)]
    with pytest.raises(SpdyError):
        list(server.receive(syn_stream(second, blocks[1])))


def test_a_header_block_is_not_unpacked_beyond_its_bound() -> None:
    """A kilobyte may have a megabyte in it."""
    block = packed(b"\0" * (64 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(HeaderBlockError):
            HeaderUnpacker().unpack(block)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_answers_do_not_pile_up() -> None:
    connection = SpdyConnection()
    with pytest.raises(SpdyError, match="more answers than it takes"):
        for _ in range(1 << 10):
            list(connection.receive(control(6, struct.pack(">I", 2)) * 100))


def test_a_connection_has_a_largest_number_of_streams() -> None:
    connection = SpdyConnection()
    with pytest.raises(SpdyError, match="too many"):
        for _ in range(20_000):
            connection.open_stream({"streamtype": "data"})
