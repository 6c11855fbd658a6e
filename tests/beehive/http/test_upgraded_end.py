"""Whether an upgraded connection has been cut."""

import struct

import pytest
from websockets.frames import Frame, Opcode

from beehive.http.spdy import SpdyConnection
from beehive.http.upgraded_end import UpgradedEnd

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nupgrade: %s\r\n\r\n"
GOAWAY = struct.pack(">HHIII", 0x8003, 7, 8, 0, 0)
RESETS = b"".join(struct.pack(">HHIII", 0x8003, 3, 8, stream, 5) for stream in (1, 3, 5))


def output(*, ends: bool) -> bytes:
    """A command's output and status over SPDY, as our runtime sends them; the client has opened a stream of input."""
    server = SpdyConnection(is_server=True)
    client = SpdyConnection()
    error, stdin, stdout = (client.open_stream({"streamtype": kind}) for kind in ("error", "stdin", "stdout"))
    list(server.receive(bytes(client.unsent)))
    for stream in (error, stdin, stdout):
        server.accept(stream)
    server.send(stdout, bytes(100_000))
    if ends:
        server.send(stdout, b"", last=True)
        server.send(error, b'{"status":"Success"}', last=True)
    return bytes(server.unsent)


def messages(*lengths: int, closes: bool) -> bytes:
    """Messages of a server by WebSocket."""
    frames = [Frame(Opcode.BINARY, bytes(length)) for length in lengths]
    frames += [Frame(Opcode.CLOSE, struct.pack(">H", 1000))] if closes else []
    return b"".join(each.serialize(mask=False) for each in frames)


CASES = {
    "spdy": ("SPDY/3.1", output(ends=True), True),
    "spdy-cut": ("spdy/3.1", output(ends=False), False),
    "spdy-of-containerd": ("SPDY/3.1", output(ends=False) + RESETS + GOAWAY, True),
    "spdy-last-frame-is-empty": ("SPDY/3.1", output(ends=False) + struct.pack(">IBBH", 5, 1, 0, 0), True),
    "spdy-nothing": ("SPDY/3.1", b"", False),
    "spdy-control-without-content": ("SPDY/3.1", struct.pack(">HHI", 0x8003, 7, 0) + GOAWAY, False),
    "websocket": ("websocket", messages(0, 1, 125, 126, 65_535, 65_536, closes=True), True),
    "websocket-cut": ("WebSocket", messages(0, 1, 125, 126, 65_535, 65_536, closes=False), False),
    "other": ("tcp", b"anything", True),
}


@pytest.mark.parametrize("piece", [1, 7, 65_536, 1 << 20])
@pytest.mark.parametrize(("protocol", "said", "is_whole"), CASES.values(), ids=list(CASES))
def test_an_end(protocol: str, said: bytes, is_whole: bool, piece: int) -> None:
    """In pieces of any size, with the answer's head and without."""
    for end, data in ((UpgradedEnd(), SWITCHED % protocol.encode() + said), (UpgradedEnd(protocol), said)):
        for at in range(0, len(data), piece):
            end.receive(data[at : at + piece])
        assert end.is_whole is is_whole


@pytest.mark.parametrize(("name", "size"), [("spdy", 28), ("websocket", 4)])
def test_each_end_is_cut_within_its_last_frame(name: str, size: int) -> None:
    """Whatever is missing."""
    protocol, said, _ = CASES[name]
    end = UpgradedEnd(protocol)
    end.receive(said[: 1 - size])
    for byte in said[1 - size :]:
        assert not end.is_whole
        end.receive(bytes([byte]))
    assert end.is_whole


def test_answers_without_an_upgrade() -> None:
    """A refusal ends as it likes; a head that does not end, or has no bound, is cut."""
    pieces = (b"HTTP/1.1 404 Not Found\r\n", b"Content-Length: 9\r\n\r\nhalf", b"the rest")
    refused = UpgradedEnd()
    found = []
    for piece in pieces:
        refused.receive(piece)
        found.append(refused.is_whole)
    assert found == [False, True, True]
    endless = UpgradedEnd()
    for _ in range(100):
        endless.receive(b"X: " + bytes(1000))
    endless.receive(b"\r\n\r\n")
    assert not endless.is_whole


def test_streams_are_bounded() -> None:
    """Each begins, and none ends."""
    end = UpgradedEnd("SPDY/3.1")
    end.receive(b"".join(struct.pack(">II", stream, 1) + b"x" for stream in range(1, 30_001, 2)))
    end.receive(GOAWAY)
    assert not end.is_whole
