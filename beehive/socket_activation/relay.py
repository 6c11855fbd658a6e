"""Copies the bytes of one connection both ways, in bounded buffers."""

from __future__ import annotations

import select
import socket
from typing import TYPE_CHECKING, Final

from beehive.socket_activation.selector_thread import READ, WRITE

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.socket_activation.selector_thread import SelectorThread

BUFFER_BYTES: Final = 64 * 1024
"""Bytes that a relay holds for each direction; the rest waits in the kernel's buffers of its sender."""


class Relay:
    """A connection between a client and a server, on the thread of a selector.

    Bytes that a side has sent before its end are delivered before the end is passed on. A side that closes its
    connection altogether, and not only its own direction, ends both directions.
    """

    def __init__(
        self,
        thread: SelectorThread,
        client: socket.socket,
        server: socket.socket,
        ended: Callable[[Relay], None],
        used: Callable[[Relay], None],
    ) -> None:
        """Take over two connected sockets, which do not block; call `used` when one of them is ready, and `ended` when
        both are closed.
        """
        self._thread = thread
        self._ended = ended
        self._used = used
        self._closed = False
        self._ways = (_Way(client, server), _Way(server, client))

    def start(self) -> None:
        """Begin to copy."""
        self._watch()

    def close(self) -> None:
        """Close both connections immediately. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for way in self._ways:
            self._thread.watch(way.source, 0, self._ready)
        for way in self._ways:
            way.source.close()
        self._ended(self)

    def _ready(self, _: int) -> None:
        """Copy as much as possible now. Both directions are tried: a call that cannot go on costs a microsecond."""
        self._used(self)
        try:
            for way in self._ways:
                way.copy()
        except OSError:
            self.close()
            return
        forth, back = self._ways
        if (forth.done and (back.done or forth.source_closed)) or (back.done and back.source_closed):
            self.close()
        else:
            self._watch()

    def _watch(self) -> None:
        forth, back = self._ways
        self._thread.watch(forth.source, forth.reads * READ | back.writes * WRITE, self._ready)
        self._thread.watch(back.source, back.reads * READ | forth.writes * WRITE, self._ready)


class _Way:
    """One direction of a relay."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self._sink = sink
        self._held = memoryview(b"")
        self._at_end = False
        self.source_closed = False
        """Whether the source also takes no more; known at its end."""
        self.done = False
        """Whether the end of the source was passed on."""

    @property
    def reads(self) -> bool:
        """Whether it waits for bytes of the source."""
        return not self._held and not self._at_end

    @property
    def writes(self) -> bool:
        """Whether it waits for room in the sink."""
        return bool(self._held)

    def copy(self) -> None:
        """Copy the bytes that are there, at most one buffer. Raises OSError when a side is gone."""
        try:
            if self.reads:
                self._read()
            if self._held:
                self._held = self._held[self._sink.send(self._held) :]
        except BlockingIOError:
            return
        if self._at_end and not self._held and not self.done:
            self.done = True
            if not self.source_closed:
                self._sink.shutdown(socket.SHUT_WR)

    def _read(self) -> None:
        data = self.source.recv(BUFFER_BYTES)
        self._held = memoryview(data)
        if not data:
            self._at_end = True
            self.source_closed = _is_closed(self.source)


def _is_closed(source: socket.socket) -> bool:
    """Return whether the peer has closed the connection, and not only its own direction."""
    poll = select.poll()
    poll.register(source, 0)  # no events but the end of both directions, which is always reported
    return bool(poll.poll(0))
