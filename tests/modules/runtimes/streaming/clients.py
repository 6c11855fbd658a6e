"""Clients of the streaming server that say every byte themselves."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from beehive.http.spdy import SpdyConnection, SpdyEvent, StreamData
from modules.runtimes.streaming.channels import PINGS
from protos.cri.v1 import api_pb2 as cri
from tests.support.patience import PATIENCE

SPDY = ("Connection: Upgrade", "Upgrade: SPDY/3.1")
"""Headers of an upgrade."""


@contextmanager
def connected(url: str, buffer: int | None = None) -> Iterator[socket.socket]:
    """A connection to the server; with a bound, it has room for about so many received bytes."""
    with socket.socket() as connection:
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(PATIENCE)
        connection.connect(("127.0.0.1", int(url.split(":")[2].partition("/")[0])))
        yield connection


def path(url: str) -> str:
    """Of an address."""
    return "/" + url.split("/", 3)[3]


def head_of(connection: socket.socket) -> bytes:
    """The head of an answer, and no more."""
    head = b""
    while b"\r\n\r\n" not in head and (piece := connection.recv(1)):
        head += piece
    return head


def echo_request(**more: Any) -> cri.ExecRequest:
    """A command."""
    return cri.ExecRequest(container_id="c", cmd=["echo", "-n", "hello"], stdout=True, **more)


class SpdyClient:
    """A client's side of SPDY on a connection."""

    def __init__(self, connection: socket.socket, url: str, *protocols: str) -> None:
        self.connection = connection
        self.spdy = SpdyConnection()
        versions = [f"X-Stream-Protocol-Version: {each}" for each in protocols]
        lines = [f"POST {path(url)} HTTP/1.1", "Host: x", *SPDY, *versions, "Content-Length: 0", "", ""]
        connection.sendall("\r\n".join(lines).encode())
        self.head = head_of(connection).decode()

    def open(self, *kinds: str, **headers: str) -> list[int]:
        """Open streams."""
        found = [self.spdy.open_stream({"streamType": kind, **headers}) for kind in kinds]
        self.flush()
        return found

    def flush(self) -> None:
        """Send what is unsent."""
        self.connection.sendall(self.spdy.unsent)
        self.spdy.unsent.clear()

    def events(self) -> Iterator[SpdyEvent]:
        """What the server says until it ends."""
        while data := self.connection.recv(65_536):
            yield from self.spdy.receive(data)

    def texts(self) -> dict[int, bytes]:
        """The bytes of each stream."""
        found: dict[int, bytes] = {}
        for event in self.events():
            if isinstance(event, StreamData):
                found[event.stream] = found.get(event.stream, b"") + event.data
        return found


class SocketClient:
    """A client's side of a WebSocket."""

    def __init__(self, connection: socket.socket, url: str, *protocols: str) -> None:
        self.connection = connection
        uri = parse_uri(url.replace("http", "ws"))
        request = ClientProtocol(uri).connect()
        if protocols:
            request.headers["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        connection.sendall(request.serialize())
        self.head = head_of(connection).decode()
        self.protocol = ClientProtocol(uri, state=OPEN)

    def send(self, message: bytes) -> None:
        """Send a binary message."""
        self.protocol.send_binary(message)
        self.flush()

    def flush(self) -> None:
        """Send what is unsent, as are pongs."""
        for data in self.protocol.data_to_send():
            self.connection.sendall(data)

    def frames(self) -> Iterator[Frame]:
        """What the server says until it ends."""
        while data := self.connection.recv(65_536):
            self.protocol.receive_data(data)
            yield from (event for event in self.protocol.events_received() if isinstance(event, Frame))

    def answer_pings(self) -> None:
        """Answer as many as a server of version 5 sends before anything else."""
        frames = self.frames()
        for _ in range(PINGS):
            assert next(frames).opcode is Opcode.PING
            self.flush()

    def messages(self) -> Iterator[bytes]:
        """Its messages; its pings are answered."""
        for frame in self.frames():
            self.flush()
            if frame.opcode in (1, 2):
                yield bytes(frame.data)
