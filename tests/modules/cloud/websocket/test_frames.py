"""A node's messages are the same however their bytes are divided, and as the library websockets reads them."""

import random
import socket
from collections.abc import Iterator

import pytest
from websockets.exceptions import PayloadTooBig, ProtocolError
from websockets.frames import DATA_OPCODES, Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from modules.cloud.websocket.connection import UpgradeCallbacks, WebsocketConnection, WebsocketLink
from modules.cloud.websocket.frames import text_head
from modules.cloud.websocket.wire import PlainWire

MOST = 4096
REQUEST = (
    b"GET /p/n1/events HTTP/1.1\r\nHost: c\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.fixture
def connection() -> Iterator[WebsocketConnection]:
    callbacks = UpgradeCallbacks(lambda _connection, _request: None, lambda _connection: None, lambda: None)
    link = WebsocketLink(lambda _link: None)
    made = WebsocketConnection(socket.socket(), "peer", PlainWire(), link, callbacks, max_frame_bytes=MOST, now=0.0)
    yield made
    made.close()


def frame(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True, mask: bool = True) -> bytes:
    """The bytes of a client's frame."""
    return Frame(opcode, data, fin).serialize(mask=mask)


def messages(connection: WebsocketConnection, sent: bytes) -> list[bytes]:
    """The messages that are complete with these bytes."""
    found: list[bytes] = []
    connection._read_messages(sent, 0.0, lambda _connection, message, _now: found.append(message))
    return found


def read(connection: WebsocketConnection, sent: bytes, source: random.Random) -> list[bytes]:
    """The messages in bytes that come in parts of any size."""
    found: list[bytes] = []
    while sent:
        size = source.choice((1, 2, 3, 5, 8, 100, 16_384))
        found += messages(connection, sent[:size])
        sent = sent[size:]
    return found


def read_by_library(sent: bytes) -> tuple[list[bytes], Exception | None]:
    """The messages in bytes, as websockets alone reads them, and why it fails the connection."""
    protocol = ServerProtocol(max_size=MOST)
    protocol.receive_data(sent)
    found, message = [], b""
    for event in protocol.events_received():
        if isinstance(event, Request):
            protocol.send_response(protocol.accept(event))
        elif isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            message += event.data
            if event.fin:
                found.append(message)
                message = b""
    return found, protocol.parser_exc


def stream(source: random.Random) -> bytes:
    """Frames as a client may send them; now and then one is wrong."""
    sent = bytearray()
    for _ in range(source.randrange(1, 12)):
        data = source.randbytes(source.choice((0, 1, 125, 126, 127, 500, 4000)))
        match source.randrange(16):
            case 0 | 1:
                sent += frame(data[:100], source.choice((Opcode.PING, Opcode.PONG)))
            case 2 | 3 | 4:
                sent += frame(data, fin=False) + frame(data[:90], Opcode.PING) + frame(data[:96], Opcode.CONT)
            case 5:
                sent += frame(data, source.choice((Opcode.CONT, Opcode.TEXT)), fin=source.random() < 0.5)
            case 6 if source.random() < 0.3:
                sent += source.choice((frame(data, mask=False), frame(bytes(MOST + 1)), b"\xff" + data))
            case 7 if source.random() < 0.3:
                sent += frame(b"\x03\xe8bye", Opcode.CLOSE)
            case number:
                sent += frame(data, Opcode.TEXT if number % 2 else Opcode.BINARY)
    return bytes(sent)


@pytest.mark.parametrize("seed", range(200))
def test_messages_are_as_the_library_reads_them(connection: WebsocketConnection, seed: int) -> None:
    """Fragments, pings, frames of any length, bytes right behind the request, and whatever is no frame of a client."""
    source = random.Random(seed)  # noqa: S311 - reproducible on purpose
    sent = REQUEST + stream(source)
    expected, why = read_by_library(sent)
    assert read(connection, sent, source) == expected
    assert type(connection._protocol.parser_exc) is type(why)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (frame(b"a", mask=False), ProtocolError),
        (frame(bytes(MOST + 1))[:20], PayloadTooBig),
        (frame(b"a", fin=False) + frame(b"b"), ProtocolError),
        (b"\xf1" + frame(b"a")[1:], ProtocolError),
    ],
    ids=["unmasked", "too long", "a message within another", "reserved bits"],
)
def test_what_is_no_message_fails_the_connection_at_once(
    connection: WebsocketConnection, sent: bytes, why: type[Exception]
) -> None:
    assert messages(connection, REQUEST + frame(b"first") + sent) == [b"first"]
    assert isinstance(connection._protocol.parser_exc, why)
    assert messages(connection, frame(b"later")) == []


def test_the_bytes_of_an_unfinished_frame_are_counted(connection: WebsocketConnection) -> None:
    assert messages(connection, REQUEST + frame(b"x" * 1000)[:600]) == []
    assert connection.unfinished_bytes == 600


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 100_000])
def test_a_text_is_framed_as_the_library_does_it(size: int) -> None:
    assert text_head(size) + b"x" * size == frame(b"x" * size, mask=False)
