"""Clients of exec, attach and port-forward whose server may die at any moment."""

import socketserver
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from websockets.exceptions import ConnectionClosedOK, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from tests.modules.runtimes.process.node import DEADLINE_SECONDS
from tests.support.serving import ServedInThread

_STDIN, _STDOUT, _STATUS, _CLOSE = 0, 1, 3, 255
_DATA, _FAILURE = 0, 1
"""Channels of a forwarded port."""
_PORT_BYTES: Final = 2
"""Each channel of a forwarded port begins with its number."""


class CutOffError(Exception):
    """The server has died during a session, or before it."""


class EchoServer(ServedInThread):
    """Answers with what it gets, on a port of 127.0.0.1. A context manager."""

    def __init__(self) -> None:
        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Echo)
        server.daemon_threads = True
        self.port = int(server.server_address[1])
        super().__init__(server)


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        try:
            while data := self.request.recv(4096):
                self.request.sendall(data)
        except ConnectionError:
            pass


def talk_to_command(url: str, *, to_the_end: bool) -> None:
    """Send a line to a command that echoes, wait for it; end the input and take the exit code, or just go."""
    with _session(url, "v5.channel.k8s.io") as session:
        session.send(_STDIN, b"hello\n")
        session.receive(lambda got: b"hello\n" in got.get(_STDOUT, b""))
        if to_the_end:
            session.send(_CLOSE, bytes([_STDIN]))
            session.receive(lambda got: _STATUS in got)


def talk_to_container(url: str) -> None:
    """Send a line to the first process of a container, which echoes, and go."""
    with _session(url, "v5.channel.k8s.io") as session:
        session.send(_STDIN, b"hello\n")
        session.receive(lambda got: b"hello\n" in got.get(_STDOUT, b""))


def talk_to_port(url: str, port: int) -> None:
    """Send to a port and wait for the echo, or for the news that nobody listens there."""
    with _session(f"{url}?port={port}", "v4.channel.k8s.io") as session:
        with suppress(ConnectionClosedOK):  # nobody listens there, and the news has come already
            session.send(_DATA, b"hello")
        session.receive(lambda got: b"hello" in got.get(_DATA, b"") or len(got.get(_FAILURE, b"")) > _PORT_BYTES)


class _Session:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._received: dict[int, bytes] = {}

    def send(self, channel: int, data: bytes) -> None:
        self._connection.send(bytes([channel]) + data)

    def receive(self, done: Callable[[dict[int, bytes]], Any]) -> None:
        """Receive until `done`, which is given what came so far, by channel."""
        while not done(self._received):
            message = self._connection.recv(DEADLINE_SECONDS)
            assert isinstance(message, bytes)
            if message:
                self._received[message[0]] = self._received.get(message[0], b"") + message[1:]


@contextmanager
def _session(url: str, protocol: str) -> Iterator[_Session]:
    """A connection to the streaming server. Raises CutOffError when that dies."""
    address = url.replace("http://", "ws://")
    try:
        with connect(
            address, subprotocols=[Subprotocol(protocol)], compression=None, open_timeout=DEADLINE_SECONDS
        ) as connection:
            yield _Session(connection)
    except TimeoutError:
        raise
    except (WebSocketException, OSError, EOFError) as error:
        raise CutOffError(str(error)) from error
