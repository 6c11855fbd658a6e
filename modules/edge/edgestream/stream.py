"""One stream: a connection to the node's own server, with bounded buffers on both sides."""

import select
import socket
from typing import Final, Protocol

from beehive.http.errors import HttpError
from beehive.http.upgraded_end import UpgradedEnd
from modules.edge.edgestream.routes import has_upgrade, plain_headers, request_head
from modules.streams.connect import StreamRequest
from modules.streams.credit import ReceiveWindow, SendCredit
from modules.streams.frames import SENT_DATA, FrameType

WINDOW: Final = 256 * 1024
"""Bytes of a stream that are on the way to the cloud; no more are read before it has received some."""

HELD: Final = 256 * 1024
"""Bytes from the cloud that wait for a container. More hold up the tunnel, for `STALLED` at most, of a cloud without
credit.
"""

STALLED: Final = 1.0
"""Seconds after which a stream that takes nothing, while its bytes hold up the tunnel, is removed."""

_MAX_HEAD: Final = 64 * 1024


class _Reading(Protocol):
    """Reader of the node's server for the stream."""

    @property
    def done(self) -> bool:
        """Whether the answer is complete before the connection ends."""

    def feed(self, data: bytes) -> bytes:
        """Return the stream's bytes. Raises HttpError."""

    def end(self) -> str:
        """Return why the stream has ended, empty for its proper end. Raises HttpError."""


class _AsItIs:
    """An upgraded connection: all bytes pass, the answer's head included. A unix socket cannot be reset, so that its
    end alone does not tell whether the node's server has said all.
    """

    done = False

    def __init__(self) -> None:
        self._end = UpgradedEnd()

    def feed(self, data: bytes) -> bytes:
        self._end.receive(data)
        return data

    def end(self) -> str:
        return "" if self._end.is_whole else "the node's server broke off"


class _Body:
    """The body of a response, the only part passed on: the tunnel's protocol has no place for a status."""

    def __init__(self, request: StreamRequest) -> None:
        from beehive.http.client import ClientExchange  # noqa: PLC0415 - h11, with the first request

        self._exchange = ClientExchange(_MAX_HEAD)
        self.head = self._exchange.request("GET", request.target, plain_headers())
        self._status = 0

    @property
    def done(self) -> bool:
        return self._exchange.complete

    def feed(self, data: bytes) -> bytes:
        body = bytearray()
        for part in self._exchange.feed(data):
            if isinstance(part, bytes):
                body += part
            else:
                self._status = part.status
        return bytes(body)

    def end(self) -> str:
        if not self.done:
            self.feed(b"")
        return "" if self._status == 200 else f"the node answers with status {self._status}"


class Stream:
    """One stream of the tunnel.

    Args:
        kind: type of the frame that opened it.
        request: the cloud's request.
        local: connection to the node's server, which does not block; the stream closes it.
        has_credit: whether the cloud grants and takes credit.
    """

    def __init__(
        self, kind: FrameType, request: StreamRequest, local: socket.socket, *, has_credit: bool = False
    ) -> None:
        self.kind = kind
        self.number = request.connection
        self.local = local
        self._reading: _Reading
        if has_upgrade(kind):
            self._reading, head = _AsItIs(), request_head(request)
        else:
            self._reading = body = _Body(request)
            head = body.head
        self._credit = SendCredit() if has_credit else None
        self._window = ReceiveWindow() if has_credit else None
        self._held = bytearray(head)
        self._takes = True
        self.unconfirmed = 0
        """Bytes that the cloud has not received yet."""
        self.rests_until = 0.0
        """Monotonic seconds until which its few bytes gather."""
        self.stalled_since: float | None = None
        """Since when its bytes hold up the tunnel, and it takes none."""

    def events(self, share: int, *, rests: bool = False) -> int:
        """Return the events that it waits for, for `poll`, or 0.

        Args:
            share: most bytes that may be on the way to the cloud, if less than `WINDOW`.
            rests: whether its bytes gather.
        """
        wants_more = not rests and self.unconfirmed < min(WINDOW, share) and self._room() > 0
        return (select.POLLIN if wants_more else 0) | (select.POLLOUT if self._held else 0)

    def is_full(self, share: int) -> bool:
        """Return whether it can hold no more bytes for its container: `HELD`, or less if its share is less; with
        credit, whether the cloud has sent more than it was granted.
        """
        return len(self._held) >= min(HELD, share) if self._window is None else self._window.is_overrun

    def grant(self, share: int) -> int:
        """Return the bytes that the cloud is to be granted now, or 0."""
        return 0 if self._window is None else self._window.grant(len(self._held), min(HELD, share))

    def granted(self, size: int) -> None:
        """Send this many more bytes to the cloud."""
        if self._credit is not None:
            self._credit.add(size)

    def sent(self, size: int) -> None:
        """Count a frame for the cloud with this many bytes of data."""
        self.unconfirmed += size
        if self._credit is not None:
            self._credit.spend(size)

    def hold(self, data: bytes) -> None:
        """Hold bytes of the cloud until the node's server takes them."""
        if self._window is not None:
            self._window.received(len(data))
        if self._takes:
            self._held += data

    def write(self) -> None:
        """Hand over as many bytes as the node's server takes. A server that reads no more may still answer."""
        try:
            written = self.local.send(self._held) if self._held else 0
        except BlockingIOError:
            return
        except OSError:
            self._takes = False
            self._held.clear()
            return
        if written:
            del self._held[:written]
            self.stalled_since = None

    def read(self) -> tuple[bytes, str | None]:
        """Read once; return the stream's bytes, and when it has ended the reason, empty for the proper end."""
        room = self._room()
        if not room:
            return b"", None
        try:
            data = self.local.recv(room)
        except BlockingIOError:
            return b"", None
        except OSError as error:
            return b"", f"the node's server broke off: {error}"
        try:
            if not data:
                return b"", self._reading.end()
            read = self._reading.feed(data)
            return read, self._reading.end() if self._reading.done else None
        except HttpError as error:
            return b"", f"the node's answer broke off: {error}"

    def _room(self) -> int:
        """Return the bytes that the next frame for the cloud may have."""
        return SENT_DATA if self._credit is None else min(SENT_DATA, self._credit.room)
