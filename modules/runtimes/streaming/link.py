"""Bytes of an upgraded connection: the connection itself, or messages of a WebSocket."""

import socket
from contextlib import suppress
from typing import Final, Protocol

from beehive import Clock
from beehive.http.lingering_close import linger_for_reader, reset_at_close

READ_BYTES: Final = 64 * 1024


class ByteLink(Protocol):
    """A connection that does not block."""

    @property
    def unsent(self) -> int:
        """Bytes that wait to be sent."""

    @property
    def has_received(self) -> bool:
        """Whether `receive` has something that came earlier, which `poll` does not report."""

    def fileno(self) -> int:
        """Return the connection's descriptor."""

    def receive(self) -> bytes | None:
        """Return the received bytes, or b"", or None at the end. Raises ValueError for an invalid message."""

    def queue(self, data: bytes) -> None:
        """Have bytes sent."""

    def send(self) -> None:
        """Send as much as the connection takes."""

    def finish(self) -> None:
        """Say that nothing more is sent; call it when nothing is unsent."""

    def await_end(self, clock: Clock, patience: float) -> None:
        """Wait until the client ends its side, as `linger_for_reader`."""

    def reset(self) -> None:
        """Have the connection reset when it is closed."""


class SocketLink:
    """A plain connection (`ByteLink`); the caller closes it.

    Args:
        connection: its time-out is changed.
        first: bytes that have come already.
    """

    def __init__(self, connection: socket.socket, first: bytes = b"") -> None:
        self._connection = connection
        self._first = first
        self._queued = bytearray()
        connection.settimeout(0)
        with suppress(OSError):  # a unix socket has no such option
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def unsent(self) -> int:
        """See `ByteLink`."""
        return len(self._queued)

    @property
    def has_received(self) -> bool:
        """See `ByteLink`."""
        return bool(self._first)

    def fileno(self) -> int:
        """See `ByteLink`."""
        return self._connection.fileno()

    def receive(self) -> bytes | None:
        """See `ByteLink`."""
        data, self._first = self._first, b""
        try:
            return data or self._connection.recv(READ_BYTES) or None
        except BlockingIOError:
            return b""
        except OSError:
            return None

    def queue(self, data: bytes) -> None:
        """See `ByteLink`."""
        self._queued += data

    def send(self) -> None:
        """See `ByteLink`; to a peer that has gone, nothing is sent."""
        while self._queued:
            try:
                del self._queued[: self._connection.send(memoryview(self._queued)[:READ_BYTES].tobytes())]
            except BlockingIOError:
                return
            except OSError:
                self._queued.clear()

    def finish(self) -> None:
        """See `ByteLink`."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def await_end(self, clock: Clock, patience: float) -> None:
        """See `ByteLink`."""
        linger_for_reader(self._connection, clock, patience)

    def reset(self) -> None:
        """See `ByteLink`."""
        reset_at_close(self._connection)


class MessageLink(Protocol):
    """Messages over a connection."""

    @property
    def link(self) -> SocketLink:
        """The connection."""

    @property
    def has_ended(self) -> bool:
        """Whether the client has closed."""

    def receive(self) -> list[bytes] | None:
        """Return the messages that have come; None when the client has ended."""

    def queue(self, message: bytes) -> None:
        """Have a message sent."""

    def close(self) -> None:
        """Say that no more messages come."""


class TunnelLink:
    """The bytes of another protocol in binary messages (`ByteLink`)."""

    def __init__(self, messages: MessageLink) -> None:
        self._messages = messages
        self._link = messages.link

    @property
    def unsent(self) -> int:
        """See `ByteLink`."""
        return self._link.unsent

    @property
    def has_received(self) -> bool:
        """See `ByteLink`; the client's end may have come with its last message."""
        return self._link.has_received or self._messages.has_ended

    def fileno(self) -> int:
        """See `ByteLink`."""
        return self._link.fileno()

    def receive(self) -> bytes | None:
        """See `ByteLink`."""
        messages = self._messages.receive()
        return None if messages is None else b"".join(messages)

    def queue(self, data: bytes) -> None:
        """See `ByteLink`."""
        self._messages.queue(data)

    def send(self) -> None:
        """See `ByteLink`."""
        self._link.send()

    def finish(self) -> None:
        """See `ByteLink`."""
        self._messages.close()
        self._link.send()
        self._link.finish()

    def await_end(self, clock: Clock, patience: float) -> None:
        """See `ByteLink`."""
        self._link.await_end(clock, patience)

    def reset(self) -> None:
        """See `ByteLink`."""
        self._link.reset()
