"""A websocket connection of a node, and its link for other threads."""

import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from websockets.extensions.permessage_deflate import enable_server_permessage_deflate
from websockets.frames import DATA_OPCODES, CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from modules.cloud.websocket.frames import FrameReader, text_head

if TYPE_CHECKING:
    from modules.cloud.identities.peer import CertifiedPeer
    from modules.cloud.tls_stream import TlsStream
    from modules.cloud.websocket.handshake import Refusal
    from modules.cloud.websocket.wire import PlainWire

_log = logging.getLogger(__name__)
READ_BYTES: Final = 16 * 1024
"""Bytes of one read of a socket. Decompressed, they may be a thousand times as many, all in memory together."""
OPENING_SECONDS: Final = 10.0
"""Timeout for TLS and the upgrade."""
_CLOSE_REASON = 123
"""Bytes of the reason in a close frame."""
_CLOSE_TIMEOUT = 1.0
"""Seconds until the peer must close after us."""
_WAITING = 512
"""Maximum of messages that wait for a node that does not read."""
_WAITING_BYTES = 8 * 1024 * 1024
"""Bytes of waiting messages above which the node is not read: it must read responses before it sends more requests."""
_FORGOTTEN: Final = 0.001
"""Seconds of the server that a connection has taken, too few to remember."""
_UNREAD_FRAMES = 64
_UNREAD_BYTES = 64 * 1024
"""Received messages that wait for dispatching, above which the socket is not read: TCP holds the node back."""
_PASSED_FRAMES = 16
_PASSED_BYTES = 64 * 1024
"""Maximum of messages of one connection that cloudhub handles at a time; a larger message passes alone."""
_FRAGMENTS = 16 * 1024
"""Maximum of frames in one message: an endless message of empty frames would never reach the limit of bytes."""
_END_OF_REQUEST = b"\r\n\r\n"
_UNSENT_BYTES = 1024 * 1024
"""Bytes for the socket above which nothing is read, as each ping adds a pong."""
_PORTION = 256 * 1024
"""Bytes for the socket above which no further message is encrypted: all nodes wait meanwhile."""


class WebsocketLink:
    """A `Link` over one websocket; other threads use only this part of the connection.

    Args:
        wake: wakes the server's thread for this link.
    """

    def __init__(self, wake: Callable[["WebsocketLink"], None]) -> None:
        self._wake = wake
        self.waiting: list[bytes] = []
        self._sent_bytes = self._taken_bytes = 0
        self.is_closed = False
        self.is_ended = False
        """Whether the connection is to be closed with a close frame."""
        self.closing = (int(CloseCode.GOING_AWAY), "cloudcore is stopping")
        """Code and reason in that frame."""
        self.is_stuck = False
        """Whether the socket's buffer is full."""
        self.passed_frames = self.passed_bytes = 0
        """Count and bytes of the messages delivered to cloudhub; written by the server's thread."""
        self.is_held_back = False
        """Whether received frames wait, or the socket is not read: acknowledgements or a keepalive may be in it."""
        self.is_held = False
        """Whether the server waits until cloudhub has handled more messages."""
        self._handled_frames = self._handled_bytes = 0
        self.drained: Callable[[], object] | None = None
        """Called by the server's thread when it has taken the last message that waited."""

    @property
    def is_behind(self) -> bool:
        """Whether sent messages still wait for the peer."""
        return self.is_stuck or bool(self.waiting)

    def send(self, frame: bytes) -> None:
        """Queue one message, sent as a text message as Go peers do.

        Raises:
            OSError: the connection is closed, or too many messages wait for the node.
        """
        if self.is_closed:
            raise ConnectionError("the connection is closed")
        if len(self.waiting) >= _WAITING:
            raise ConnectionError("the node does not read what it is sent")
        self.waiting.append(frame)
        self._sent_bytes += len(frame)
        self._wake(self)

    def pop(self) -> bytes:
        """Return the next message for the socket; only for the server's thread."""
        frame = self.waiting.pop(0)
        self._taken_bytes += len(frame)
        if self.drained is not None and not self.waiting:
            self.drained()
        return frame

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the waiting messages."""
        return self._sent_bytes - self._taken_bytes

    def admits(self) -> bool:
        """Return whether cloudhub may receive another message of this link; if not, the server waits for that."""
        for _ in range(2):  # cloudhub may handle one just before `is_held` is set
            frames = self.passed_frames - self._handled_frames
            if frames <= 0 or (frames < _PASSED_FRAMES and self.passed_bytes - self._handled_bytes < _PASSED_BYTES):
                return True
            self.is_held = True
        return False

    def handled(self, size: int) -> None:
        """Count a message as handled; only for cloudhub's thread."""
        self._handled_bytes += size
        self._handled_frames += 1
        if self.is_held:
            self._wake(self)

    def close(self) -> None:
        """Close the TCP connection without a close frame, as KubeEdge does."""
        self.is_closed = True
        self._wake(self)

    def end(self, code: int = CloseCode.GOING_AWAY, reason: str = "cloudcore is stopping") -> None:
        """Close the connection with a close frame, after the waiting messages."""
        self.closing = (code, reason)
        self.is_ended = True
        self._wake(self)


Keep = Callable[["WebsocketConnection", bytes, float], None]
"""Keeps a message of a connection for its turn; the last argument is the monotonic time."""


class UpgradeCallbacks(NamedTuple):
    """Functions that a connection calls during the websocket upgrade."""

    admit: Callable[["WebsocketConnection", Request], "Refusal | None"]
    """Returns the reason to refuse the request, or None."""
    opened: Callable[["WebsocketConnection"], None]
    """Called after a granted upgrade."""
    tls_failed: Callable[[], None]
    """Called when TLS fails: another authority, an expired certificate, none."""


class WebsocketConnection:
    """One connection of a node: bytes of a non-blocking socket on one side, messages on the other.

    For the server's thread only.

    Args:
        accepted: the socket, which the connection owns from now on.
        peer: the peer's address, for the log.
        wire: TLS or plain TCP.
        link: the part that other threads use.
        callbacks: called during the upgrade.
        max_frame_bytes: a longer message ends the connection with close code 1009.
        now: monotonic seconds.
    """

    def __init__(
        self,
        accepted: socket.socket,
        peer: str,
        wire: "PlainWire | TlsStream",
        link: WebsocketLink,
        callbacks: UpgradeCallbacks,
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
        """The node's name, once it has been admitted."""
        self.is_open = False
        """Whether the upgrade has been granted, now or earlier."""
        self.certified: CertifiedPeer | None = None
        """The node's certificate, once it has been admitted."""
        self.is_refused = False
        """Whether the node is refused since: `LinkClosed` was delivered, and nothing more of it is."""
        self.has_begun = False
        """Whether bytes of the peer have come."""
        self.seconds = 0.0
        """Seconds of the server's thread that the peer's bytes have taken lately."""
        self.read_at = now
        """Monotonic seconds of the last bytes of the peer."""
        self.watched = 0
        """The selector's registered events of the socket."""
        self._callbacks = callbacks
        self._protocol = ServerProtocol(extensions=enable_server_permessage_deflate(None), max_size=max_frame_bytes)
        self._frames = FrameReader(max_frame_bytes)
        self._is_talking = False
        """Whether messages may be exchanged: after the upgrade, and before a close frame."""
        self._is_asked = False
        """Whether the request for the upgrade has come as a whole."""
        self._last = b""
        """The last bytes before that."""
        self.unread: list[bytes] = []
        """Received messages that wait for dispatching; an empty deque takes 700 bytes."""
        self.unread_bytes = 0
        self.unfinished_bytes = 0
        """Bytes of the message whose end has not come."""
        self._message = bytearray()
        self._fragments = 0
        self.alive_at = 0.0
        """Monotonic seconds of the last keepalive that was delivered to cloudhub."""
        self.outgoing = bytearray()
        """Bytes that wait for the socket."""
        self._moved_at = now
        self._drop_at: float | None = now + OPENING_SECONDS
        self._is_ending = False
        self._is_cut = False

    @property
    def may_be_read(self) -> bool:
        """Whether the connection has room for further messages."""
        is_full = len(self.unread) >= _UNREAD_FRAMES or self.unread_bytes >= _UNREAD_BYTES
        return not is_full and len(self.outgoing) < _UNSENT_BYTES and self.link.waiting_bytes < _WAITING_BYTES

    def pass_on(self, *, newest: bool = False) -> bytes:
        """Return the oldest message, or the newest one, out of order, counted as delivered to cloudhub."""
        frame = self.unread.pop(-1 if newest else 0)
        self.unread_bytes -= len(frame)
        self.link.is_held = False
        self.link.passed_frames += 1
        self.link.passed_bytes += len(frame)
        return frame

    def pause_opening(self) -> None:
        """Stop the time for the upgrade, as the server does not read the peer's request."""
        self._drop_at = None

    def resume_opening(self, now: float) -> None:
        """Start the peer's time for the upgrade again."""
        self._drop_at = now + OPENING_SECONDS

    @property
    def has_deadline(self) -> bool:
        """Whether the peer may become overdue, or has taken time that is not forgotten yet, while nothing comes."""
        return bool(self.outgoing) or self._drop_at is not None or self.seconds > _FORGOTTEN

    def is_overdue(self, now: float, write_timeout: float) -> bool:
        """Return whether the peer has missed a deadline: to open, to read, or to close."""
        stuck = bool(self.outgoing) and now - self._moved_at > write_timeout
        return stuck or (self._drop_at is not None and now > self._drop_at)

    def read(self, now: float, buffer: memoryview, keep: Keep) -> None:
        """Read the socket, and have its complete messages kept.

        Args:
            now: monotonic seconds.
            buffer: for the bytes of the socket, until this returns.
            keep: takes each message.

        Raises:
            OSError: the connection is closed.
        """
        try:
            size = self.socket.recv_into(buffer)
        except BlockingIOError:
            return
        if not size:
            raise ConnectionError(self._reason())
        sealed = bytes(buffer[:size])
        self.read_at = now
        self.has_begun = True
        if self._is_cut:
            return
        plain = sealed
        if not self.wire.is_plain:
            try:
                plain = self.wire.decrypt(sealed)
            except ssl.SSLError as error:
                _log.info("%s: TLS failed: %s", self.peer, error)
                self._callbacks.tls_failed()
                self._cut(now)
                return
            self.outgoing += self.wire.to_send()
        if plain:
            self._read_messages(plain, now, keep)
        if self.outgoing or self._is_ending:
            self.write(now)
        else:
            self._moved_at = now
        if self.wire.is_ended:
            raise ConnectionError(self._reason())

    def write(self, now: float) -> None:
        """Write the messages that wait in the link, until the socket's buffer is full.

        Raises:
            OSError: the connection is closed.
        """
        self._encode_portion()
        self.flush(now)
        while self.link.waiting and self._is_talking and not self.outgoing:
            self._encode_portion()
            self.flush(now)

    def _encode_portion(self) -> None:
        """Encode waiting messages until a portion waits for the socket; all of them together, for TLS."""
        link, protocol, plain = self.link, self._protocol, bytearray()
        while link.waiting and self._is_talking and len(self.outgoing) + len(plain) < _PORTION:
            message = link.pop()
            if protocol.extensions:
                protocol.send_text(message)
                plain += b"".join(protocol.data_to_send())
            else:
                plain += text_head(len(message))
                plain += message
        if plain:
            self.outgoing += plain if self.wire.is_plain else self.wire.encrypt(bytes(plain))

    def flush(self, now: float) -> None:
        """Write the encoded bytes, until the socket's buffer is full.

        Raises:
            OSError: the connection is closed.
        """
        if not self.outgoing:
            self._moved_at = now
        try:
            while self.outgoing:
                sent = self.socket.send(self.outgoing)
                del self.outgoing[:sent]
                self._moved_at = now
        except BlockingIOError:
            self.link.is_stuck = True
            return
        self.link.is_stuck = False
        if self._is_ending:
            self._end_gently(now)

    def end(self, now: float) -> None:
        """Write the waiting messages and a close frame; the peer has a second to close.

        Raises:
            OSError: the connection is closed.
        """
        if not self._is_talking:
            return
        while self.link.waiting:
            self._protocol.send_text(self.link.pop())
        code, reason = self.link.closing
        self._protocol.send_close(code, _clipped(reason))
        self._is_talking = False
        self._flush_protocol()
        self._drop_at = now + _CLOSE_TIMEOUT
        self.flush(now)

    def refuse(self, code: int, reason: str, now: float) -> None:
        """Write a close frame, and discards what waits and what the peer still sends; it has a second to close.

        Args:
            code: of the close frame (RFC 6455 §7.4).
            reason: in it.
            now: monotonic seconds.

        Raises:
            OSError: the connection is closed.
        """
        if self._is_talking:
            self._protocol.send_close(code, _clipped(reason))
            self._is_talking = False
            self._flush_protocol()
        self.unread.clear()
        self._message.clear()
        self._frames.data.clear()
        self._protocol.reader.discard()
        self.unfinished_bytes = 0
        self._is_cut = self._is_ending = True
        self._drop_at = now + _CLOSE_TIMEOUT
        self.flush(now)

    def close(self) -> None:
        """Close the socket immediately."""
        self.link.is_closed = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def _read_messages(self, plain: bytes, now: float, keep: Keep) -> None:
        """Have the messages kept that are complete with these bytes."""
        frames = self._frames
        frames.data.extend(plain if self._is_asked else self._asked(plain))
        while frames.data:
            found = frames.next(is_apart=self._is_talking and not self._fragments)
            if found is None:
                break
            data, is_message = found
            if is_message:
                keep(self, data, now)
            else:
                self._protocol.receive_data(data)
                self._is_talking = self._protocol.state is OPEN
                for message in self._put_together():
                    keep(self, message, now)
                self._flush_protocol()
        self.unfinished_bytes = len(self._message) + len(frames.data) + len(self._protocol.reader.buffer)

    def _asked(self, plain: bytes) -> bytes:
        """Handle the bytes of the request for the upgrade, and return those after it."""
        known = len(self._last)
        text = self._last + plain
        end = text.find(_END_OF_REQUEST)
        self._is_asked = end >= 0
        size = end + len(_END_OF_REQUEST) - known if self._is_asked else len(plain)
        self._last = text[1 - len(_END_OF_REQUEST) :]
        self._protocol.receive_data(plain[:size])
        for event in self._protocol.events_received():
            if isinstance(event, Request):
                self._upgrade(event)
        self._flush_protocol()
        return plain[size:]

    def _put_together(self) -> Iterator[bytes]:
        """Yield the messages that are complete with the protocol's last frames."""
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
                self._message += event.data
                self._fragments += 1
                if event.fin:
                    message, self._message, self._fragments = bytes(self._message), bytearray(), 0
                    yield message
                elif self._fragments >= _FRAGMENTS:
                    raise ConnectionError(f"a message of more than {_FRAGMENTS} frames")

    def _upgrade(self, request: Request) -> None:
        refusal = self._callbacks.admit(self, request)
        if refusal is None:
            response = self._protocol.accept(request)
        else:
            response = self._protocol.reject(refusal.status, refusal.text)
        self._protocol.send_response(response)
        if self._protocol.state is OPEN:
            self._drop_at = None
            self.is_open = self._is_talking = True
            self._callbacks.opened(self)

    def _flush_protocol(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.outgoing += self.wire.encrypt(data)
            else:
                self._is_ending = True

    def _cut(self, now: float) -> None:
        """Send the TLS alert after a failure; later input is discarded."""
        self._is_cut = self._is_ending = True
        self.outgoing += self.wire.to_send()
        self.flush(now)

    def _end_gently(self, now: float) -> None:
        """End the sending side, and wait for the peer to close.

        `close` with unread input makes Linux send a reset, and the peer then discards its unread input: the refusal,
        the alert, the close frame.
        """
        self._is_ending = False
        self._drop_at = now + _CLOSE_TIMEOUT
        self.socket.shutdown(socket.SHUT_WR)

    def _reason(self) -> str:
        """Return the reason for the end of the stream, for the log."""
        if not self.is_open or self._is_cut:
            return "ended by the peer"
        self._protocol.receive_eof()
        return str(self._protocol.close_exc)


def _clipped(reason: str) -> str:
    """Return a reason that fits into a close frame (RFC 6455 §5.5)."""
    encoded = reason.encode()
    return reason if len(encoded) <= _CLOSE_REASON else encoded[: _CLOSE_REASON - 3].decode(errors="ignore") + "…"
