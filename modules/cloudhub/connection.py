"""One connection of a node: bytes on a socket that never blocks, messages on the other side.

All of it is for the server's thread, but for the `WebsocketLink`, which is what everybody else has of the connection.
"""

import contextlib
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from websockets.extensions.permessage_deflate import enable_server_permessage_deflate
from websockets.frames import DATA_OPCODES, Frame
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

if TYPE_CHECKING:
    from modules.cloudhub.admission import Refusal
    from modules.cloudhub.wire import Wire

_log = logging.getLogger(__name__)
_READ = 16 * 1024
"""Bytes of one reading. Compressed, they may be a thousand times as many, all of which are there at once."""
OPENING_SECONDS: Final = 10.0
"""How long a peer has for TLS and the upgrade."""
_LINGERING_SECONDS = 1.0
_WAITING = 512
"""Messages that may wait for a node that does not read."""
_WAITING_BYTES = 8 * 1024 * 1024
"""Bytes of them beyond which the node is not read either: it must take answers before it asks more."""
_UNREAD_FRAMES = 64
_UNREAD_BYTES = 64 * 1024
"""Messages that have come and were not looked at yet, beyond which a connection is not read: TCP holds it back."""
_PASSED_FRAMES = 16
_PASSED_BYTES = 64 * 1024
"""Messages that cloudhub may have of one connection at a time; a larger one is alone."""
_FRAGMENTS = 16 * 1024
"""Frames of one message: an endless one of empty frames would never reach the limit of bytes."""
_UNSENT_BYTES = 1024 * 1024
"""Bytes for the socket beyond which nothing is read: each ping is answered."""
_PORTION = 256 * 1024
"""Bytes for the socket beyond which no further message is taken: all nodes wait while those of one are encrypted."""


class WebsocketLink:
    """A link over one websocket.

    Args:
        wake: tells the server's thread that there is something to do for it.
    """

    def __init__(self, wake: Callable[["WebsocketLink"], None]) -> None:
        self._wake = wake
        self.waiting: deque[bytes] = deque()
        self._sent_bytes = self._taken_bytes = 0
        self.is_closed = False
        self.is_stuck = False
        """Whether the socket has no room for what was taken out of `waiting`."""
        self.passed_frames = self.passed_bytes = 0
        """Of all messages that were handed to cloudhub; only the server's thread counts these."""
        self.is_held = False
        """Whether the server waits until cloudhub has handled more of them."""
        self._handled_frames = self._handled_bytes = 0

    @property
    def is_behind(self) -> bool:
        """See `Link`."""
        return self.is_stuck or bool(self.waiting)

    def send(self, frame: bytes) -> None:
        """Takes one message to be sent, as text, as a Go peer does.

        Raises:
            OSError: the connection is closed, or too much waits for the node already.
        """
        if self.is_closed:
            raise ConnectionError("the connection is closed")
        if len(self.waiting) >= _WAITING:
            raise ConnectionError("the node does not read what it is sent")
        self.waiting.append(frame)
        self._sent_bytes += len(frame)
        self._wake(self)

    def take(self) -> bytes:
        """The next message for the socket; only for the server's thread."""
        frame = self.waiting.popleft()
        self._taken_bytes += len(frame)
        return frame

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the messages that wait."""
        return self._sent_bytes - self._taken_bytes

    @property
    def has_room(self) -> bool:
        """Whether cloudhub may be handed another message."""
        frames = self.passed_frames - self._handled_frames
        return frames <= 0 or (frames < _PASSED_FRAMES and self.passed_bytes - self._handled_bytes < _PASSED_BYTES)

    def handled(self, size: int) -> None:
        """See `Link`. Only cloudhub's thread calls it."""
        self._handled_bytes += size
        self._handled_frames += 1
        if self.is_held:
            self._wake(self)

    def close(self) -> None:
        """Ends the TCP connection without a close frame, as KubeEdge does."""
        self.is_closed = True
        self._wake(self)


class Connection:
    """See the module's docstring.

    Args:
        accepted: the socket; taken over.
        peer: whose it is, for the log.
        wire: TLS or none.
        link: what others have of it.
        admit: says why a request for an upgrade is refused.
        opened: called when the upgrade has been granted.
        max_frame_bytes: a longer message ends it (close code 1009).
        now: monotonic seconds.
    """

    def __init__(
        self,
        accepted: socket.socket,
        peer: str,
        wire: "Wire",
        link: WebsocketLink,
        admit: Callable[["Connection", Request], "Refusal | None"],
        opened: Callable[["Connection"], None],
        *,
        max_frame_bytes: int,
        now: float,
    ) -> None:
        accepted.settimeout(0.0)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = accepted
        self.peer = peer
        self.wire = wire
        self.link = link
        self.node = ""
        """Whose it is, once it has been admitted."""
        self.is_open = False
        """Whether the upgrade has been granted, at some time."""
        self._admit = admit
        self._opened = opened
        self._protocol = ServerProtocol(extensions=enable_server_permessage_deflate(None), max_size=max_frame_bytes)
        self.unread: deque[bytes] = deque()
        """Messages that have come and were not looked at yet."""
        self._unread_bytes = 0
        self._message = bytearray()
        self._fragments = 0
        self.alive_at = 0.0
        """Monotonic seconds of the last keepalive that was handed to cloudhub."""
        self._outgoing = bytearray()
        self._moved_at = now
        self._drop_at: float | None = now + OPENING_SECONDS
        self._is_ending = False
        self._is_cut = False

    @property
    def has_to_write(self) -> bool:
        """Whether something waits until the socket takes it."""
        return bool(self._outgoing)

    @property
    def may_be_read(self) -> bool:
        """Whether there is room for what comes."""
        is_full = len(self.unread) >= _UNREAD_FRAMES or self._unread_bytes >= _UNREAD_BYTES
        return not is_full and len(self._outgoing) < _UNSENT_BYTES and self.link.waiting_bytes < _WAITING_BYTES

    @property
    def has_to_pass(self) -> bool:
        """Whether cloudhub is to be handed a message, and may be."""
        if not self.unread:
            return False
        if self.link.has_room:
            return True
        self.link.is_held = True
        return self.link.has_room  # it may have handled one since, and not have seen that it is waited for

    def keep(self, frame: bytes) -> None:
        """Lets a message that has come wait for its turn."""
        self.unread.append(frame)
        self._unread_bytes += len(frame)

    def pass_next(self) -> bytes:
        """The message whose turn it is; it counts as handed to cloudhub."""
        return self._passed(self.unread.popleft())

    def pass_last(self) -> bytes:
        """Likewise the message that has come last, which is handed on before its turn."""
        return self._passed(self.unread.pop())

    def _passed(self, frame: bytes) -> bytes:
        self._unread_bytes -= len(frame)
        self.link.is_held = False
        self.link.passed_frames += 1
        self.link.passed_bytes += len(frame)
        return frame

    def is_overdue(self, now: float, write_timeout: float) -> bool:
        """Whether it must be dropped: not opened, not written, or not ended by the peer in time."""
        stuck = self.has_to_write and now - self._moved_at > write_timeout
        return stuck or (self._drop_at is not None and now > self._drop_at)

    def read(self, now: float) -> Iterator[bytes]:
        """The messages in what has come.

        Raises:
            OSError: the connection is gone.
        """
        try:
            sealed = self.socket.recv(_READ)
        except BlockingIOError:
            return
        if not sealed:
            raise ConnectionError(self._reason())
        if self._is_cut:
            return
        try:
            plain = self.wire.opened(sealed)
        except ssl.SSLError as error:
            _log.info("%s: TLS failed: %s", self.peer, error)
            self._cut(now)
            return
        self._outgoing += self.wire.to_send()
        if plain:
            self._protocol.receive_data(plain)
            yield from self._messages()
            self._take_protocol()
        if self.wire.ended:
            raise ConnectionError("the peer has ended TLS")
        self.write(now)

    def write(self, now: float) -> None:
        """Writes what waits in the link, as far as the socket takes it.

        Raises:
            OSError: the connection is gone.
        """
        while self.link.waiting and self._protocol.state is OPEN:
            if len(self._outgoing) >= _PORTION:
                self.flush(now)
            if len(self._outgoing) >= _PORTION:
                break
            self._protocol.send_text(self.link.take())
            self._take_protocol()
        self.flush(now)

    def flush(self, now: float) -> None:
        """Likewise, what is to be sent already.

        Raises:
            OSError: the connection is gone.
        """
        if not self._outgoing:
            self._moved_at = now
        try:
            while self._outgoing:
                sent = self.socket.send(self._outgoing)
                del self._outgoing[:sent]
                self._moved_at = now
        except BlockingIOError:
            self.link.is_stuck = True
            return
        self.link.is_stuck = False
        if self._is_ending:
            self._end_gently(now)

    def close(self) -> None:
        """Ends it at once."""
        self.link.is_closed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _messages(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._upgrade(event)
            elif isinstance(event, Frame) and event.opcode in DATA_OPCODES:
                self._message += event.data
                self._fragments += 1
                if event.fin:
                    message, self._message, self._fragments = bytes(self._message), bytearray(), 0
                    yield message
                elif self._fragments >= _FRAGMENTS:
                    raise ConnectionError(f"a message of more than {_FRAGMENTS} frames")

    def _upgrade(self, request: Request) -> None:
        refusal = self._admit(self, request)
        if refusal is None:
            response = self._protocol.accept(request)
        else:
            response = self._protocol.reject(refusal.status, refusal.text)
        self._protocol.send_response(response)
        if self._protocol.state is OPEN:
            self._drop_at = None
            self.is_open = True
            self._opened(self)

    def _take_protocol(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._outgoing += self.wire.sealed(data)
            else:
                self._is_ending = True

    def _cut(self, now: float) -> None:
        """TLS failed: the alert is sent, and nothing more is read but to be thrown away."""
        self._is_cut = self._is_ending = True
        self._outgoing += self.wire.to_send()
        self.flush(now)

    def _end_gently(self, now: float) -> None:
        """Linux answers `close` with a reset when something was not read, and the peer then throws away what it has not
        read: the refusal, the alert, the close frame. So it is given a moment to end the connection itself.
        """
        self._is_ending = False
        self._drop_at = now + _LINGERING_SECONDS
        self.socket.shutdown(socket.SHUT_WR)

    def _reason(self) -> str:
        """Why a connection has ended whose socket says so."""
        if not self.is_open or self._is_cut:
            return "ended by the peer"
        self._protocol.receive_eof()
        return str(self._protocol.close_exc)
