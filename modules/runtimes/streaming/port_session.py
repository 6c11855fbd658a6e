"""One client's forwarded connections, served on one thread."""

import errno
import logging
import math
import select
import socket
from contextlib import ExitStack, suppress
from threading import Semaphore
from typing import Final

from beehive import Clock
from beehive.printable import clipped
from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.streaming.backend import StreamingBackend
from modules.runtimes.streaming.ending import IDLE_SECONDS, MOST_ANSWERS, linger
from modules.runtimes.streaming.port_streams import PortData, PortEnd, PortEvent, PortOpened, PortStreams

_log = logging.getLogger(__name__)

MOST_HELD: Final = 1 << 20
"""Bytes that are held for all connections of a client before it is read no more."""

MOST_OF_A_CLIENT: Final = 128
"""Connections of a client at a time; each takes a descriptor of this process."""

ANSWER_SECONDS: Final = 30.0
"""Seconds that a pod may still answer after the client has ended its side of a connection. kubectl (client-go's
`portforward`) ends its side as well when its own client has gone, and drops what comes from then on: on the wire both
are the same. containerd and CRI-O wait for 1 s.
"""

MOST_ANSWER: Final = 64 << 20
"""Bytes of that answer."""

_MOST_UNSENT: Final = 256 * 1024
_READ_BYTES: Final = 64 * 1024


class _Forwarded:
    """A connection into the sandbox."""

    def __init__(self, number: int, connection: socket.socket) -> None:
        self.number = number
        self.connection = connection
        self.held = bytearray()
        self.client_ended = self.pod_ended = False
        self.is_shut = False
        """Whether the pod has been told that the client sends no more."""
        self.left_at = math.inf
        """Monotonic seconds at which the pod is left; set at the client's end."""
        self.answered = 0
        """Bytes of the pod since the client's end."""

    @property
    def over(self) -> bool:
        """Whether both sides have ended."""
        return self.pod_ended and self.is_shut


class PortForwardSession:
    """The session that serves a client's connections until it goes.

    Args:
        streams: to the client.
        sandbox_id: of the sandbox.
        backend: makes the connections.
        clock: for deadlines.
        places: for the connections of all clients.
    """

    def __init__(
        self, streams: PortStreams, sandbox_id: str, backend: StreamingBackend, clock: Clock, places: Semaphore
    ) -> None:
        self._places = places
        self._streams = streams
        self._link = streams.link
        self._sandbox_id = sandbox_id
        self._backend = backend
        self._clock = clock
        self._open: dict[int, _Forwarded] = {}

    def run(self) -> None:
        """Serve. Raises ValueError when the client is not understood."""
        last = self._clock.monotonic()
        try:
            events = self._streams.receive()
            while events is not None:
                for event in events:
                    self._handle(event)
                self._link.send()
                if self._streams.over:
                    break
                now = self._clock.monotonic()
                left = min(last + IDLE_SECONDS, *(each.left_at for each in self._open.values()), math.inf) - now
                ready = dict(self._poll().poll(0 if self._link.has_received else max(0.0, left) * 1000 + 1))
                if not ready and last + IDLE_SECONDS <= now:
                    break
                last = self._clock.monotonic() if ready else last
                self._serve(ready)
                self._leave()
                is_readable = self._link.has_received or ready.get(self._link.fileno(), 0) & ~select.POLLOUT
                events = self._streams.receive() if is_readable else []
        finally:
            for each in self._open.values():
                each.connection.close()
                self._places.release()
        linger(self._link, self._clock, whole=self._streams.over)

    def _poll(self) -> "select.poll":
        poll = select.poll()
        takes = sum(len(each.held) for each in self._open.values()) < MOST_HELD and self._link.unsent < MOST_ANSWERS
        poll.register(self._link, (select.POLLIN if takes else 0) | (select.POLLOUT if self._link.unsent else 0))
        for each in self._open.values():
            reads = not each.pod_ended and self._link.unsent < _MOST_UNSENT
            wanted = (select.POLLIN if reads else 0) | (select.POLLOUT if each.held else 0)
            if wanted:
                poll.register(each.connection, wanted)
        return poll

    def _handle(self, event: PortEvent) -> None:
        match event:
            case PortOpened(number, port):
                self._connect(number, port)
            case PortData(number, data) if number in self._open:
                self._open[number].held += data
            case PortEnd(number, reset) if number in self._open:
                each = self._open[number]
                each.client_ended = True
                each.left_at = self._clock.monotonic() + ANSWER_SECONDS
                if reset:
                    each.held.clear()
                    self._close(each)
                else:
                    self._write(each)

    def _connect(self, number: int, port: int) -> None:
        with ExitStack() as unless_connected:
            try:
                if len(self._open) >= MOST_OF_A_CLIENT or not self._places.acquire(blocking=False):
                    raise OSError(errno.EMFILE, "too many connections are forwarded already: close some")
                unless_connected.callback(self._places.release)
                connection = self._backend.port_forward(self._sandbox_id, port)
            except (RequestRefusedError, OSError) as error:
                problem = f"cannot forward to port {port} of sandbox {self._sandbox_id}: {error}"
                _log.info("%s", clipped(problem))
                self._streams.close(number, problem)
                return
            connection.settimeout(0)
            self._open[number] = _Forwarded(number, connection)
            unless_connected.pop_all()

    def _serve(self, ready: dict[int, int]) -> None:
        for each in list(self._open.values()):
            events = ready.get(each.connection.fileno(), 0)
            if events & (select.POLLOUT | select.POLLERR):
                self._write(each)
            if each.number in self._open and not each.pod_ended and events & ~select.POLLOUT:
                self._read(each)

    def _write(self, each: _Forwarded) -> None:
        try:
            while each.held:
                del each.held[: each.connection.send(memoryview(each.held)[:_READ_BYTES].tobytes())]
        except BlockingIOError:
            return
        except OSError:  # the pod takes no more; what it has sent before is still read
            each.held.clear()
            each.is_shut = True
        if each.client_ended:
            each.is_shut = True
            with suppress(OSError):
                each.connection.shutdown(socket.SHUT_WR)
        self._close_if_over(each)

    def _read(self, each: _Forwarded) -> None:
        try:
            data = each.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._close(each, str(error))
            return
        if data:
            self._streams.write(each.number, data)
            each.answered += len(data) if each.client_ended else 0
            return
        each.pod_ended = True
        self._streams.end(each.number)
        self._close_if_over(each)

    def _leave(self) -> None:
        """Leave the pods that still answer a client which has long ended its side. It is told by a reset: kubectl takes
        a reason on the stream of errors for a failure of all its connections.
        """
        now = self._clock.monotonic()
        for each in list(self._open.values()):
            if each.left_at <= now or each.answered > MOST_ANSWER:
                _log.debug("a forwarded connection is left: its client has ended its side, and the pod has not")
                self._streams.reset(each.number)
                self._close(each)

    def _close_if_over(self, each: _Forwarded) -> None:
        if each.over or (each.pod_ended and not self._streams.can_end):
            self._close(each)

    def _close(self, each: _Forwarded, problem: str = "") -> None:
        del self._open[each.number]
        each.connection.close()
        self._places.release()
        self._streams.close(each.number, problem)
