"""The clients that are attached to the main process of a container."""

import select
import socket
import time
from collections.abc import Iterable

from modules.runtimes.shim.streams import Input

STALL_SECONDS = 5.0
"""Seconds for which a client that takes nothing may hold up the container's output; then it is left."""
_LONGEST_INPUT = 32 * 1024


class AttachedClients:
    """Clients at sockets of packets: the container's output goes to all of them, and their input to the container.

    Nothing blocks, and nothing piles up: while a client `is_behind`, the owner reads no output; while the container
    does not take its input, no client's is read. `events` is readable when there is something for `serve`.

    Args:
        ends_input: whether the container's input ends with a client's.
    """

    def __init__(self, *, ends_input: bool) -> None:
        self.events = select.epoll()
        self.input: Input | None = None
        """The container's, if it has one."""
        self._ends_input = ends_input
        self._clients: dict[int, socket.socket] = {}
        self._behind: set[int] = set()
        self._silent: set[int] = set()
        """Clients whose input has ended."""
        self._behind_since = 0.0
        self._awaited = -1
        """Descriptor of the input that does not take its pending bytes."""

    @property
    def is_behind(self) -> bool:
        """Whether a client cannot take another packet."""
        return bool(self._behind)

    def seconds_left(self) -> float:
        """Return the seconds until clients that are behind are left."""
        return max(0.0, self._behind_since + STALL_SECONDS - time.monotonic()) if self._behind else STALL_SECONDS

    def add(self, client: socket.socket) -> None:
        """Serve one more client. Raises OSError, and then closes it."""
        client.settimeout(0)
        try:
            self.events.register(client, 0 if self._awaited >= 0 else select.EPOLLIN)
        except BaseException:
            client.close()
            raise
        self._clients[client.fileno()] = client

    def send(self, packet: bytes) -> None:
        """Send a packet of output to all clients. The owner sends the next one once none `is_behind`."""
        if not self._clients:
            return
        for descriptor, client in list(self._clients.items()):
            try:
                client.send(packet)
            except OSError:
                self._leave(descriptor)
        if full := self._full():
            self._behind, self._behind_since = full, time.monotonic()
            self._watch()

    def serve(self) -> None:
        """Take clients' input, pass it on, and leave clients that have gone or were behind for too long."""
        happened = self.events.poll(0)
        if self._awaited >= 0:
            self.events.unregister(self._awaited)
        for descriptor, events in happened:
            if descriptor == self._awaited and self.input is not None:
                self.input.flush()
            elif descriptor in self._clients and events & ~select.EPOLLOUT:
                self._receive(descriptor, has_gone=bool(events & (select.EPOLLHUP | select.EPOLLERR)))
        self._awaited = -1
        self._behind = self._full()
        if not self.seconds_left():
            self._leave_behind()
        self._watch()

    def finish(self, packets: Iterable[bytes]) -> None:
        """Send the last packets, and leave all clients; what was sent to them stays readable. Clients that are behind
        are waited for, `STALL_SECONDS` in all.
        """
        deadline = time.monotonic() + STALL_SECONDS
        for packet in packets:
            while self._behind and (left := deadline - time.monotonic()) > 0:
                self.events.poll(left)
                self.serve()
            self.send(packet)
        for descriptor in tuple(self._clients):
            self._leave(descriptor)

    def _receive(self, descriptor: int, *, has_gone: bool) -> None:
        try:
            data = self._clients[descriptor].recv(_LONGEST_INPUT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            if self.input is not None:
                self.input.write(data)
            return
        if has_gone:
            self._leave(descriptor)
        else:  # its input has ended, and it goes on reading
            self._silent.add(descriptor)
        if self.input is not None and self._ends_input:
            self.input.end()

    def _leave_behind(self) -> None:
        for descriptor in tuple(self._behind):
            self._leave(descriptor)

    def _leave(self, descriptor: int) -> None:
        self._behind.discard(descriptor)
        self._silent.discard(descriptor)
        self._clients.pop(descriptor).close()

    def _full(self) -> set[int]:
        """Return the clients that cannot take another packet now."""
        poll = select.poll()
        for descriptor in self._clients:
            poll.register(descriptor, select.POLLOUT)
        return self._clients.keys() - {descriptor for descriptor, _ in poll.poll(0)}

    def _watch(self) -> None:
        """Choose the events that `serve` is called for: of what can be passed on."""
        waits = self.input is not None and bool(self.input.pending)
        for descriptor in self._clients:
            takes = 0 if waits or descriptor in self._silent else select.EPOLLIN
            self.events.modify(descriptor, takes | (select.EPOLLOUT if descriptor in self._behind else 0))
        if self.input is not None and waits:
            self._awaited = self.input.descriptor
            self.events.register(self._awaited, select.EPOLLOUT)
