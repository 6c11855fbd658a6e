"""Relays a client's connection to a stream of a node: bytes in both directions, unchanged.

One thread serves a client. It is read only while the node reads, and a client that does not read stops its own stream
(`RelayedStream`). When a stream ends before its time, the connection is reset: a client of SPDY takes a polite end for
the command's success.
"""

import contextlib
import select
import socket
import ssl
from typing import Final, Protocol

from beehive.clock import Clock
from beehive.http.lingering_close import linger_for_reader, reset_at_close
from beehive.http.upgraded_end import UpgradedEnd
from modules.streams.small_turns import SmallTurns

IDLE_SECONDS: Final = 4 * 3600.0
"""Without a byte, after which a connection is closed (kubelet's `streamingConnectionIdleTimeout`)."""
_GONE: Final = select.POLLHUP | select.POLLERR
_RECORDS: Final = 256
"""Records of TLS that are read at a time: each may have a byte."""
TURNS: Final = SmallTurns()
"""Of all streams of this cloudcore."""


class RelayedStream(Protocol):
    """The node's side of a relay, as `TunnelStream` has it."""

    failure: str
    """Why it has ended before its time, or ""."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there is something to take, an end, or room to send."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended and all its data is taken."""

    @property
    def room(self) -> int:
        """Bytes that it takes now."""

    def receive(self, now: float) -> bytes:
        """Return received data, b"" when none waits."""

    def send(self, data: bytes) -> None:
        """Send bytes; never blocks. Raise OSError when it is about to end."""

    def close(self) -> None:
        """End it."""


class ClientSocket:
    """A client's connection, plain or TLS, that never blocks; or a server's.

    Args:
        connection: the socket; its owner closes it.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0.0)
        with contextlib.suppress(OSError):  # a unix socket has no such option
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connection
        self._held = memoryview(b"")

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._socket.fileno()

    @property
    def writes(self) -> bool:
        """Whether bytes wait for the client."""
        return bool(self._held)

    def read(self, most: int) -> bytes | None:
        """Return bytes from the client, b"" at its end, None for nothing yet. Raise OSError."""
        found = bytearray()
        try:
            for _ in range(_RECORDS if isinstance(self._socket, ssl.SSLSocket) else 1):
                data = self._socket.recv(most - len(found))
                found += data
                if not data or len(found) == most:
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return bytes(found) or None
        return bytes(found)

    def write(self, data: bytes = b"") -> int:
        """Write bytes, or the waiting ones; return how many could be written. Raise OSError."""
        if data:
            self._held = memoryview(data)
        if not self._held:
            return 0
        try:
            sent = self._socket.send(self._held)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        self._held = self._held[sent:]
        return sent

    def wait(self, stream: RelayedStream, seconds: float) -> bool:
        """Wait for the next event of the client or the stream; return False if there was none.

        Raises:
            ConnectionResetError: the client has gone while the stream has no room: it would be reported without end.
        """
        poll = select.poll()
        wanted = select.POLLIN if stream.room else 0
        poll.register(self._socket, wanted | (select.POLLOUT if self._held else 0))
        if not self._held:
            poll.register(stream, select.POLLIN)
        events = dict(poll.poll(seconds * 1000))
        if not wanted and events.get(self.fileno(), 0) & _GONE:
            raise ConnectionResetError("the client has disconnected")
        return bool(events)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until the client has gone."""
        poll = select.poll()
        poll.register(self._socket, 0)  # POLLHUP is always reported
        poll.poll(seconds * 1000)

    def end(self, clock: Clock) -> None:
        """End this side after the last byte, and give the client time to read it: closing with unread input resets."""
        with contextlib.suppress(OSError):
            if isinstance(self._socket, ssl.SSLSocket):
                self._close_tls(self._socket, clock)
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
            linger_for_reader(self._socket, clock, IDLE_SECONDS)

    def _close_tls(self, connection: ssl.SSLSocket, clock: Clock) -> None:
        """Send close_notify, as soon as the client has read enough for it, and do not wait for the client's: without
        it, the stream looks cut (RFC 8446 §6.1). Raise OSError.
        """
        poll = select.poll()
        poll.register(connection, select.POLLOUT)
        deadline = clock.monotonic() + IDLE_SECONDS
        while (left := deadline - clock.monotonic()) > 0:
            try:
                connection.unwrap()
            except ssl.SSLWantWriteError:
                poll.poll(left * 1000)
            except ssl.SSLError:
                return
            else:
                return


def relay(
    connection: socket.socket,
    stream: RelayedStream,
    first: bytes,
    clock: Clock,
    end: UpgradedEnd | None = None,
    turns: SmallTurns = TURNS,
) -> None:
    """Relay bytes until the client or the stream ends, or both are silent; the caller closes both. The client's
    connection is reset then, unless the stream has come to its proper end.

    Args:
        connection: the client's.
        stream: to the node.
        first: bytes that the client has sent already, after the head of its request.
        clock: for the idle time.
        end: reads the stream, as not every node says that one has broken off; None: the stream says it.
        turns: of all streams, for those that move few bytes.

    Raises:
        OSError: the client has disconnected, or the tunnel.
    """
    client = ClientSocket(connection)
    end = end or UpgradedEnd("")
    is_over = False
    try:
        is_over = _relay(client, stream, first, clock, end, turns)
    finally:
        if not is_over or stream.failure or not end.is_whole:
            reset_at_close(connection)
        else:
            client.end(clock)


def _relay(
    client: ClientSocket, stream: RelayedStream, first: bytes, clock: Clock, end: UpgradedEnd, turns: SmallTurns
) -> bool:
    """Relay bytes; return whether the stream is over, and all of it was passed on. Raise OSError."""
    last = clock.monotonic()
    while True:
        moved = _to_client(client, stream, clock.monotonic(), end)
        if stream.is_over and not client.writes:
            return True
        room = stream.room
        data: bytes | None = first[:room] or None
        if first:
            first = first[room:]
        elif room:
            data = client.read(room)
        if data == b"":
            return False
        if data:
            stream.send(data)
        moved += len(data or b"")
        left = last + IDLE_SECONDS - clock.monotonic()
        if not moved and (left <= 0 or not client.wait(stream, left)):
            return False
        last = clock.monotonic()
        if moved and (seconds := turns.charge(moved, last)):
            client.pause(seconds)


def _to_client(client: ClientSocket, stream: RelayedStream, now: float, end: UpgradedEnd) -> int:
    """Write the bytes that wait for the client, or the stream's next bytes; return how many were written."""
    if client.writes:
        return client.write()
    data = stream.receive(now)
    end.receive(data)
    return client.write(data)
