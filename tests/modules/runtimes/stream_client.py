"""A client of the streaming servers of CRI runtimes (WebSocket, v5), as kubectl is."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.modules.runtimes.process.node import DEADLINE_SECONDS

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255


class Session:
    """One connection; what it received so far, by channel."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.received: dict[int, bytes] = {}

    def send(self, channel: int, data: bytes) -> None:
        self._connection.send(bytes([channel]) + data)

    def until(self, channel: int, text: bytes) -> None:
        """Receive until a channel has had this text."""
        while text not in self.received.get(channel, b""):
            self._receive()

    def status(self) -> dict[str, Any]:
        """Receive to the end, and return the status."""
        while not self.received.get(ERROR):
            self._receive()
        status: dict[str, Any] = json.loads(self.received[ERROR])
        return status

    def _receive(self) -> None:
        message = self._connection.recv(DEADLINE_SECONDS)
        assert isinstance(message, bytes)
        if message:
            self.received[message[0]] = self.received.get(message[0], b"") + message[1:]


@contextmanager
def streaming_session(url: str) -> Iterator[Session]:
    """A connection to an address of the streaming server."""
    address = url.replace("http://", "ws://")
    with connect(address, subprotocols=[Subprotocol("v5.channel.k8s.io")], compression=None) as connection:
        yield Session(connection)
