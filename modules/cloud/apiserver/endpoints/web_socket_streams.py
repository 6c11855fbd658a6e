"""Logs and watches over a WebSocket, for clients that ask for one (Kubernetes' `wsstream` and its watches).

A log comes in binary messages, or in base64 as text; an empty one comes first. A watch has a text message for each
event. What the client sends is read for its pings and its close only.
"""

import base64
import binascii
import select
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import msgspec
from websockets.exceptions import InvalidState
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.utils import accept_key

from beehive.clock import Clock
from beehive.http.lingering_close import linger_for_reader
from beehive.http.request import Request
from beehive.http.responses import Stream, Takeover
from modules.apimachinery.errors import ApiStatusError

_SEND_SECONDS: Final = 300.0
"""Seconds within which a client must receive a message, as a piece of a stream."""
_LONGEST_MESSAGE: Final = 16 * 1024
"""Bytes of a message of the client; nothing it says means anything."""
_READ_BYTES: Final = 16 * 1024
_KEY_BYTES: Final = 16
_BASE64: Final = "base64.binary.k8s.io"
_OF_LOGS: Final = ("binary.k8s.io", _BASE64)
_UPGRADE: Final = ("connection", "upgrade")
_HEADER: Final = "sec-websocket-"
_WATCH: Final = "watch"


def wants_web_socket(request: Request) -> bool:
    """Return whether a request asks for the messages of a log or a watch."""
    is_asked = request.method == "GET" and request.header("upgrade").lower() == "websocket"
    return is_asked and (request.parts[-1:] == ("log",) or request.flag(_WATCH))


def without_upgrade(request: Request) -> Request:
    """Return the request for the same answer over HTTP."""
    headers = tuple(each for each in request.headers if each[0] not in _UPGRADE and not each[0].startswith(_HEADER))
    return msgspec.structs.replace(request, headers=headers, rest=b"")


def in_web_socket(request: Request, stream: Stream, clock: Clock) -> Takeover:
    """Return the answer in messages.

    Args:
        request: with its upgrade.
        stream: the answer over HTTP.
        clock: for the end.

    Raises:
        ApiStatusError: 400; the handshake is not that of WebSocket version 13.
    """
    try:
        protocol = "" if request.flag(_WATCH) else _chosen(request)
        head = _handshake(request, protocol)
    except ApiStatusError:
        stream.done()
        raise
    return Takeover(lambda client: _Messages(client, clock, head, protocol).send(stream, request), stream.done)


def _chosen(request: Request) -> str:
    """Return the first offered protocol that is spoken; "" without an offer."""
    values = (value for name, value in request.headers if name == "sec-websocket-protocol")
    offered = [each.strip() for value in values for each in value.split(",")]
    for each in offered:
        if each in ("", *_OF_LOGS):
            return each
    if offered:
        raise ApiStatusError(400, f"none of the protocols is spoken; these are: {', '.join(_OF_LOGS)}")
    return ""


def _handshake(request: Request, protocol: str) -> bytes:
    """Return the server's part (RFC 6455 §4.2.2). Raise ApiStatusError."""
    key = request.header("sec-websocket-key")
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (ValueError, binascii.Error):
        is_key = False
    if not is_key or request.header("sec-websocket-version") != "13":
        raise ApiStatusError(400, "this is no handshake of WebSocket version 13")
    lines = ["HTTP/1.1 101 Switching Protocols", "Connection: Upgrade", "Upgrade: websocket",
             f"Sec-WebSocket-Accept: {accept_key(key)}"]  # fmt: skip
    lines += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
    return "\r\n".join([*lines, "", ""]).encode()


class _Messages:
    """The server's side of a WebSocket, and the client of the stream whose pieces it sends (`Peer`)."""

    def __init__(self, client: socket.socket, clock: Clock, head: bytes, protocol: str) -> None:
        self._client = client
        self._clock = clock
        self._head = head
        self._is_base64 = protocol == _BASE64
        self._protocol = ServerProtocol(state=OPEN, max_size=_LONGEST_MESSAGE)

    def send(self, stream: Stream, request: Request) -> None:
        """Send the pieces of a stream, and close. Raise OSError; the connection breaks off when the stream does."""
        self._client.settimeout(_SEND_SECONDS)
        self._client.sendall(self._head)
        is_watch = request.flag(_WATCH)
        if request.rest:
            self._protocol.receive_data(request.rest)
        if not is_watch:
            self._message(b"")
        pieces = stream.pieces(self)
        try:
            for piece in _lines(pieces) if is_watch else pieces:
                if self._has_ended:
                    break
                self._message(piece, is_text=is_watch)
        finally:
            pieces.close()
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
        self._flush()
        socket.socket.shutdown(self._client, socket.SHUT_WR)
        linger_for_reader(self._client, self._clock, _SEND_SECONDS)

    def gone_within(self, seconds: float, wake: int | None = None) -> bool:
        """See `Peer`. What the client has sent ends the wait, too."""
        poll = select.poll()
        poll.register(self._client, select.POLLIN)
        if wake is not None:
            poll.register(wake, select.POLLIN)
        if any(ready == self._client.fileno() for ready, _ in poll.poll(seconds * 1000)):
            return self._read_client()
        return self._has_ended

    @property
    def _has_ended(self) -> bool:
        return self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None

    def _read_client(self) -> bool:
        """Read what the client has sent, and answer its pings; return whether it has ended."""
        self._client.settimeout(0.0)
        try:
            while data := self._client.recv(_READ_BYTES):
                self._protocol.receive_data(data)
                self._protocol.events_received()
                if self._has_ended:
                    break
            else:
                return True
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        self._client.settimeout(_SEND_SECONDS)
        self._flush()
        return self._has_ended

    def _message(self, piece: bytes, *, is_text: bool = False) -> None:
        try:
            if self._is_base64:
                self._protocol.send_text(base64.b64encode(piece))
            elif is_text:
                self._protocol.send_text(piece)
            else:
                self._protocol.send_binary(piece)
        except InvalidState:
            return
        self._flush()

    def _flush(self) -> None:
        self._client.sendall(b"".join(self._protocol.data_to_send()))


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines in pieces, which may end within one."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        yield from lines
