"""Clients of a runtime's streams, by SPDY as critest and by WebSocket as kubectl speak it."""

import socket
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from beehive.http.spdy import SpdyConnection, StreamData, StreamEnd
from tests.modules.runtimes.streaming.clients import SpdyClient, connected
from tests.support.patience import PATIENCE

_CHANNELS: Final = ("stdin", "stdout", "stderr", "error", "resize")
_CLOSE: Final = 255
_PROTOCOLS: Final = (Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io"))


class Session(ABC):
    """A connection: its streams by kind, and what they have brought."""

    def __init__(self) -> None:
        self.received: dict[str, bytes] = {}
        self._ended: set[str] = set()

    @abstractmethod
    def open(self, *kinds: str, **headers: str) -> None:
        """Open streams."""

    @abstractmethod
    def send(self, kind: str, data: bytes, *, last: bool = False) -> None:
        """Send data on a stream; with `last`, its end too."""

    def until(self, kind: str, text: bytes) -> None:
        """Receive until a stream has brought this text."""
        while text not in self.received.get(kind, b""):
            assert self._receive(), f"the connection has ended: {self.received}"

    def until_end(self, *kinds: str) -> dict[str, bytes]:
        """Receive until these streams, or the connection, have ended; return what has come by kind."""
        while not self._ended.issuperset(kinds):
            if not self._receive():
                break
        return self.received

    @abstractmethod
    def _receive(self) -> bool:
        """Receive some data; return whether the connection goes on."""


class _SpdySession(Session):
    def __init__(self, connection: socket.socket, url: str, protocol: str) -> None:
        super().__init__()
        connection.settimeout(PATIENCE)
        self._client = SpdyClient(connection, url, protocol)
        assert " 101 " in self._client.head.splitlines()[0], self._client.head
        self._kinds: dict[int, str] = {}

    @property
    def _spdy(self) -> SpdyConnection:
        return self._client.spdy

    def open(self, *kinds: str, **headers: str) -> None:
        for kind in kinds:
            self._kinds[self._spdy.open_stream({"streamtype": kind, **headers})] = kind
        self._client.flush()

    def send(self, kind: str, data: bytes, *, last: bool = False) -> None:
        (stream,) = (number for number, each in self._kinds.items() if each == kind)
        self._spdy.send(stream, data, last=last)
        self._client.flush()

    def _receive(self) -> bool:
        data = self._client.connection.recv(65_536)
        for event in self._spdy.receive(data):
            if isinstance(event, StreamData):
                kind = self._kinds[event.stream]
                self.received[kind] = self.received.get(kind, b"") + event.data
            elif isinstance(event, StreamEnd):
                self._ended.add(self._kinds[event.stream])
        return bool(data)


class _WebSocketSession(Session):
    """Its streams are there from the beginning, and end with the connection."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection

    def open(self, *kinds: str, **headers: str) -> None:
        pass

    def send(self, kind: str, data: bytes, *, last: bool = False) -> None:
        channel = _CHANNELS.index(kind)
        self._connection.send(bytes([channel]) + data)
        if last:
            assert self._connection.subprotocol == _PROTOCOLS[0], "only v5 can end a stream"
            self._connection.send(bytes([_CLOSE, channel]))

    def _receive(self) -> bool:
        try:
            message = self._connection.recv(PATIENCE)
        except ConnectionClosed:
            return False
        assert isinstance(message, bytes)
        if message:
            kind = _CHANNELS[message[0]]
            self.received[kind] = self.received.get(kind, b"") + message[1:]
        return True


@contextmanager
def spdy_session(url: str, protocol: str = "v4.channel.k8s.io") -> Iterator[Session]:
    """A connection by SPDY."""
    assert url.startswith("http://")
    with connected(url) as connection:
        yield _SpdySession(connection, url, protocol)


@contextmanager
def web_socket_session(url: str) -> Iterator[Session]:
    """A connection by WebSocket, version 5 of its protocol or, where the runtime is older, 4."""
    assert url.startswith("http://")
    with connect(url.replace("http", "ws", 1), subprotocols=_PROTOCOLS, compression=None) as connection:
        yield _WebSocketSession(connection)
