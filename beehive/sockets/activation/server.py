"""A listening socket whose server starts when a client first sends something."""

from __future__ import annotations

import logging
import select
import socket
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from beehive.on_failure import on_failure
from beehive.sockets.activation.selector_thread import READ, SHARED, WRITE, SelectorThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from beehive.clock import Clock, Timer
    from beehive.sockets.activation.private_socket import PrivateSocket

_log = logging.getLogger(__name__)

BUFFER_BYTES: Final = 64 * 1024
"""Bytes that a relay holds for each direction; the rest waits in the kernel's buffers of its sender."""

MOST_CONNECTIONS: Final = 256
"""Connections at a time; a further one ends the one over which nothing has come for longest."""

MOST_SILENT: Final = 64
"""Connections at a time that have sent nothing; a further one ends the oldest of them."""

IDLE_SECONDS: Final = 300.0
"""How long a server runs without connections."""

AGAIN_SECONDS: Final = 1.0
"""Between two attempts to accept, while the process may open no more files: the kernel does not say when it may."""

_LAST_BYTES_SECONDS: Final = 1.0
"""How long clients may take for the last bytes of a server that has ended."""


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
        owner: ActivatedServer,
    ) -> None:
        """Take over two connected sockets, which do not block; call `owner.used` when one of them is ready, and
        `owner.ended` when both are closed.
        """
        self._thread = thread
        self._owner = owner
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
        self._owner.ended(self)

    def _ready(self, _: int) -> None:
        """Copy as much as possible now. Both directions are tried: a call that cannot go on costs a microsecond."""
        self._owner.used(self)
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
        """Copy the bytes that are there, at most one buffer. Raises OSError when a side has closed."""
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


class StartedServer(Protocol):
    """A server that runs. Its methods are called on the thread that stops it, and may block."""

    socket: PrivateSocket
    """The listening socket; closed by the `ActivatedServer`."""

    def stop(self, grace_seconds: float | None) -> None:
        """Refuse new calls, let those under way end within the time, cancel the rest, and close all connections."""

    def join(self) -> None:
        """Wait for the threads of calls."""


class ActivatedServer:
    """A listening socket whose server is started when a client sends its first byte.

    The start runs on a thread of its own, because it may take long; until its end the bytes of clients wait in the
    kernel. A client that connects and ends without a byte starts nothing. A start that fails ends the connections that
    wait for it, and the next client tries again. Without connections for five minutes the server ends again; the next
    client gets a new one.
    """

    def __init__(
        self,
        listening: socket.socket,
        start: Callable[[], StartedServer],
        clock: Clock,
        thread: SelectorThread = SHARED,
    ) -> None:
        """Begin to accept connections. Raises OSError when the process may open no more files.

        Args:
            listening: listens on a unix socket; closed by `stop`.
            start: makes and starts the server. May block, and may raise any exception.
            clock: for the end of a server without connections, and for further attempts.
            thread: watches the sockets.
        """
        self._listening = listening
        self._start = start
        self._clock = clock
        self._thread = thread
        self._connections: dict[socket.socket | Relay, None] = {}
        """The connections; those with a server in the order that something last came over them."""
        self._silent: dict[socket.socket, None] = {}
        """Connections that have sent nothing, the oldest first."""
        self._waiting: list[socket.socket] = []
        """Connections that have sent something while the server starts."""
        self._is_starting = False
        self._threads: list[threading.Thread] = []
        """The last start and the last end of a server without connections, which may be under way."""
        self._server: StartedServer | None = None
        self._idle: Timer | None = None
        self._again: Timer | None = None
        self._stopped = False
        self._emptied = threading.Event()
        listening.settimeout(0.0)
        with ExitStack() as failing:
            failing.callback(listening.close)
            thread.begin()
            failing.callback(thread.end)
            thread.call(self._accept_more).result()
            failing.pop_all()

    def stop(self, grace_seconds: float | None) -> None:
        """Accept no more connections, let the server end its calls, close all connections; return when that is done.

        Not on the selector's thread. Idempotent.

        Args:
            grace_seconds: time for calls under way; None for no time.
        """
        if self._stopped:
            return
        self._stopped = True
        self._thread.call(self._refuse).result()
        for thread in self._threads:
            thread.join()
        self._thread.call(self._drop_unserved).result()
        if self._server is not None:
            self._server.stop(grace_seconds)
            self._server.socket.close()
            self._emptied.wait(_LAST_BYTES_SECONDS)
        self._thread.call(self._close_connections).result()
        self._thread.end()

    def join(self) -> None:
        """Wait for the threads of cancelled calls."""
        if self._server is not None:
            self._server.join()

    # on the selector's thread

    def _accept_more(self) -> None:
        if not self._stopped:
            self._thread.watch(self._listening, READ, self._accept)

    def _accept(self, _: int) -> None:
        try:
            connection, _address = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            _log.warning("no connection can be accepted now on %s: %s", self._listening.getsockname(), error.strerror)
            self._thread.watch(self._listening, 0, self._accept)
            self._again = self._clock.after(AGAIN_SECONDS, self._accept_again)
            return
        connection.settimeout(0.0)
        self._connections[connection] = None
        self._silent[connection] = None
        with on_failure(lambda: self._close(connection)):
            self._thread.watch(connection, READ, partial(self._spoke, connection))
        if len(self._silent) > MOST_SILENT:
            self._close(next(iter(self._silent)))
        if len(self._connections) > MOST_CONNECTIONS:
            self._end_longest_idle()

    def _end_longest_idle(self) -> None:
        """End the connection over which nothing has come for longest; while none has a server, the oldest."""
        relays = (each for each in self._connections if isinstance(each, Relay))
        idle = next(relays, None) or next(iter(self._connections))
        name = self._listening.getsockname()
        _log.info("%s has more than %d connections; an idle one is ended", name, MOST_CONNECTIONS)
        if isinstance(idle, Relay):
            idle.close()
            return
        if idle in self._waiting:
            self._waiting.remove(idle)
        self._close(idle)

    def _spoke(self, connection: socket.socket, _: int) -> None:
        """Serve a connection whose first byte, or end, has come."""
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        if not first:
            self._close(connection)
            return
        del self._silent[connection]
        self._thread.watch(connection, 0, self._accept)
        if self._server is not None:
            self._relay(connection, self._server)
            return
        self._waiting.append(connection)
        if self._is_starting or self._stopped:
            return
        try:
            self._run(self._start_server)
        except RuntimeError as error:
            _log.warning("the server of %s cannot be started now: %s", self._listening.getsockname(), error)
            self._started(None)
        else:
            self._is_starting = True

    def _run(self, function: Callable[[], None]) -> None:
        """Call a function that blocks. `stop` waits for it. Raises RuntimeError when there can be no more threads."""
        thread = threading.Thread(target=function, name="socket-activation-start", daemon=True)
        thread.start()
        self._threads = [each for each in self._threads if each.is_alive()] + [thread]

    def _relay(self, client: socket.socket, server: StartedServer) -> None:
        try:
            own = server.socket.connect()
        except OSError as error:
            _log.warning("a connection on %s cannot be served: %s", client.getsockname(), error.strerror)
            self._close(client)
            return
        relay = Relay(self._thread, client, own, self)
        del self._connections[client]
        self._connections[relay] = None
        self._stays()
        relay.start()

    def _started(self, server: StartedServer | None) -> None:
        """Serve, or end, the connections that wait for the start."""
        self._server = server
        self._is_starting = False
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            if server is None:
                self._close(connection)
            else:
                self._relay(connection, server)

    def _close(self, connection: socket.socket) -> None:
        self._thread.watch(connection, 0, self._accept)
        self._silent.pop(connection, None)
        connection.close()
        self.ended(connection)

    def used(self, relay: Relay) -> None:
        """Note that something came over a connection."""
        self._connections[relay] = self._connections.pop(relay)

    def ended(self, connection: socket.socket | Relay) -> None:
        """Forget a connection; a server without connections ends after a while."""
        self._connections.pop(connection, None)
        if self._connections:
            return
        if self._stopped:
            self._emptied.set()
        elif self._server is not None:
            self._stays()
            self._idle = self._clock.after(IDLE_SECONDS, self._unused)

    def _accept_again(self) -> None:
        """Have connections accepted again, on the clock's thread."""
        self._thread.call(self._accept_more)

    def _unused(self) -> None:
        """Have the server ended, on the clock's thread."""
        self._thread.call(self._end_unused)

    def _stays(self) -> None:
        """Let the server run on."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_unused(self) -> None:
        """End the server if it has still no connections."""
        server = self._server
        if self._idle is None or server is None or self._stopped:
            return

        def end() -> None:
            server.stop(None)
            server.socket.close()

        try:
            self._run(end)
        except RuntimeError:
            self._idle = self._clock.after(IDLE_SECONDS, self._unused)
        else:
            self._server = self._idle = None

    def _refuse(self) -> None:
        self._stays()
        if self._again is not None:
            self._again.cancel()
        self._thread.watch(self._listening, 0, self._accept)
        self._listening.close()

    def _drop_unserved(self) -> None:
        """Close the connections without a server, now that none can start."""
        for connection in [*self._silent, *self._waiting]:
            self._close(connection)
        self._waiting.clear()
        if not self._connections:
            self._emptied.set()

    def _close_connections(self) -> None:
        for connection in list(self._connections):
            if isinstance(connection, Relay):
                connection.close()
            else:
                self._close(connection)

    # on the thread of the start

    def _start_server(self) -> None:
        server = None
        try:
            server = self._start()
        except Exception:  # noqa: BLE001 - whatever the server's library raises
            _log.exception("the server of a socket of this node could not be started; the next client tries again")
        self._thread.call(partial(self._started, server)).result()
