"""Clients of streams that read as a test wants, and judge what they have as kubectl does."""

import json
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from beehive.http.client import ClientExchange
from beehive.http.errors import HttpError
from beehive.http.spdy import StreamData, StreamEnd
from tests.modules.runtimes.streaming.clients import SocketClient, SpdyClient, path

TUNNELED = "SPDY/3.1+portforward.k8s.io"
UNKNOWN = -1
"""No exit code: kubectl says that the stream has broken off."""
_HEAD = 16 * 1024
_PORTION = 16 * 1024
"""Bytes of a write."""
_MOST = 64 << 20
"""Bytes that no test wants."""


class Outcome(NamedTuple):
    """What a client has read."""

    output: bytes
    code: int
    """0 for success as kubectl sees it, `UNKNOWN` for an error."""


class Reader:
    """A client's connection, which is read in portions and not before it may be (`socket.socket`).

    Args:
        connection: to a layer.
        portion: most bytes of a read; 0: all that there is.
    """

    def __init__(self, connection: socket.socket, portion: int = 0, port: int = 0) -> None:
        self._connection = connection
        self._portion = portion
        self.port = port
        """The pod's port that is wanted."""
        self._has_begun = False
        self.awaits: Callable[[], object] | None = None
        """Called before the next read once the stream has begun."""
        self.count = 0
        """Bytes that were read."""
        self.when: tuple[int, Callable[[], object]] | None = None
        """Read bytes after which a function is called once."""
        self._sent = 0
        self.when_sent: tuple[int, Callable[[], object]] | None = None
        """The same for sent bytes."""

    def begun(self) -> None:
        """Note that the stream has begun; nothing more is read before `awaits` returns."""
        self._has_begun = True

    def recv(self, size: int) -> bytes:
        """Read."""
        if self._has_begun and self.awaits is not None:
            awaits, self.awaits = self.awaits, None
            awaits()
        data = self._connection.recv(min(size, self._portion or size))
        self.count += len(data)
        assert self.count < _MOST, "nothing ends the output"
        if self.when is not None and self.count >= self.when[0]:
            (_, then), self.when = self.when, None
            then()
        return data

    def sendall(self, data: bytes) -> None:
        """Write."""
        at = 0
        while at < len(data):
            at += self._connection.send(memoryview(data)[at : at + _PORTION])
            self._sent += _PORTION
            if self.when_sent is not None and self._sent >= self.when_sent[0]:
                (_, then), self.when_sent = self.when_sent, None
                then()


def command_over_web_socket(reader: Reader, url: str, protocol: str, stdin: bytes | None = None) -> Outcome:
    """Read a command's output; the code is in its status, which a broken connection lacks."""
    client = SocketClient(reader, url, protocol)  # type: ignore[arg-type]
    output, status = bytearray(), b""
    if "v5" in protocol:
        client.answer_pings()
    reader.begun()
    try:
        if stdin is not None:
            threading.Thread(target=_say, args=(client, stdin)).start()
        for message in client.messages():
            output += message[1:] if message[0] == 1 else b""
            status += message[1:] if message[0] == 3 else b""
    except OSError:
        pass
    return Outcome(bytes(output), _code(status) if status and client.protocol.close_rcvd else UNKNOWN)


def command_over_spdy(reader: Reader, url: str, protocol: str, stdin: bytes | None = None) -> Outcome:
    """The same; kubectl takes a polite end without a status for success."""
    client = SpdyClient(reader, url, protocol)  # type: ignore[arg-type]
    error, output, *rest = client.open("error", "stdout", *([] if stdin is None else ["stdin"]))
    reader.begun()
    if stdin is not None:
        threading.Thread(target=_say_by_spdy, args=(client, rest[0], stdin)).start()
    texts, code = _streams(client)
    status = texts.get(error, b"")
    return Outcome(texts.get(output, b""), _code(status) if status and code == 0 else code)


def port_client(reader: Reader, url: str, protocol: str) -> SpdyClient:
    """A client of forwarded connections, over either."""
    if protocol == TUNNELED:
        return SpdyClient(_Messages(reader, url, protocol), url)  # type: ignore[arg-type]
    return SpdyClient(reader, url, protocol)  # type: ignore[arg-type]


def port_over_spdy(reader: Reader, url: str, protocol: str) -> Outcome:
    """Read a forwarded connection to its end; SPDY may be in messages of a WebSocket."""
    return _port(port_client(reader, url, protocol), reader)


def port_over_channels(reader: Reader, url: str, protocol: str) -> Outcome:
    """The same by the older channels, each of which begins with the port."""
    client = SocketClient(reader, url, protocol)  # type: ignore[arg-type]
    output = bytearray()
    reader.begun()
    try:
        for message in client.messages():
            output += message[1:] if message[0] == 0 else b""
    except OSError:
        pass
    return Outcome(bytes(output[2:]), 0 if client.protocol.close_rcvd else UNKNOWN)


def log(reader: Reader, url: str, _protocol: str) -> Outcome:
    """Read a log to HTTP's last chunk."""
    exchange = ClientExchange(_HEAD)
    reader.sendall(exchange.request("GET", path(url), [("Host", "x")]))
    output = bytearray()
    reader.begun()
    try:
        exchange.read_head(lambda: reader.recv(65_536))
        while piece := exchange.read_pieces(lambda: reader.recv(65_536))[0]:
            output += piece
    except (OSError, HttpError):
        return Outcome(bytes(output), UNKNOWN)
    return Outcome(bytes(output), 0)


def log_over_web_socket(reader: Reader, url: str, protocol: str) -> Outcome:
    """Read a log to WebSocket's close."""
    client = SocketClient(reader, url, protocol)  # type: ignore[arg-type]
    output = bytearray()
    reader.begun()
    try:
        for message in client.messages():
            output += message
    except OSError:
        pass
    return Outcome(bytes(output), 0 if client.protocol.close_rcvd else UNKNOWN)


class _Messages:
    """The bytes of another protocol in messages of a WebSocket (`socket.socket`); it makes the head of the answer."""

    def __init__(self, reader: Reader, url: str, protocol: str) -> None:
        self._client = SocketClient(reader, url, protocol)  # type: ignore[arg-type]
        self._messages = self._client.messages()
        self._head = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
        self._is_asked = False

    def recv(self, size: int) -> bytes:
        """Read."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        data = next((message for message in self._messages if message), b"")
        if not data and self._client.protocol.close_rcvd is None:
            raise ConnectionAbortedError
        return data

    def sendall(self, data: bytes) -> None:
        """Write, but for the request that the client of SPDY makes first."""
        if self._is_asked:
            self._client.send(bytes(data))
        self._is_asked = True


def _port(client: SpdyClient, reader: Reader) -> Outcome:
    error, data = client.open("error", "data", port=str(reader.port))
    reader.begun()
    texts, code = _streams(client, until=data)
    return Outcome(texts.get(data, b""), code if not texts.get(error) else UNKNOWN)


def _streams(client: SpdyClient, until: int = 0) -> tuple[dict[int, bytes], int]:
    """Return the bytes of each stream, and whether they have ended without an error."""
    texts: dict[int, bytearray] = {}
    try:
        for event in client.events():
            if isinstance(event, StreamData):
                texts.setdefault(event.stream, bytearray()).extend(event.data)
            if isinstance(event, StreamEnd) and event.stream == until:
                break
            if client.spdy.unsent:
                client.flush()
    except OSError:
        return {stream: bytes(text) for stream, text in texts.items()}, UNKNOWN
    return {stream: bytes(text) for stream, text in texts.items()}, 0


def _say(client: SocketClient, stdin: bytes) -> None:
    for at in range(0, len(stdin), 32_768):
        client.send(b"\0" + stdin[at : at + 32_768])
    client.send(b"\xff\0")


def _say_by_spdy(client: SpdyClient, stream: int, stdin: bytes) -> None:
    for at in range(0, len(stdin), 32_768):
        client.spdy.send(stream, stdin[at : at + 32_768], last=at + 32_768 >= len(stdin))
        client.flush()


def _code(status: bytes) -> int:
    """Return the exit code of a status."""
    said: dict[str, Any] = json.loads(status)
    if said["status"] == "Success":
        return 0
    return int(said["details"]["causes"][0]["message"])
