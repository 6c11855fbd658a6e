"""The socket at which the kernel tells of changes of links, addresses and routes (rtnetlink(7)); anybody may listen.

Like the transport it waits for the system and not for a clock: news are of the real world, and there is no replaying
them.
"""

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

from edgehub.network.changes import Changes
from edgehub.network.messages import read

_RTMGRP_LINK, _RTMGRP_IPV4_IFADDR, _RTMGRP_IPV4_ROUTE = 0x1, 0x10, 0x40
_RTMGRP_IPV6_IFADDR, _RTMGRP_IPV6_ROUTE = 0x100, 0x400
GROUPS: Final = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_IFADDR | _RTMGRP_IPV6_ROUTE

LARGEST: Final = 64 * 1024
"""Bytes of a datagram; the kernel's are at most 32 KiB."""

TOGETHER: Final = 0.2
"""Seconds for which news are gathered: a change of the network is many of them."""


class Netlink:
    """See the module's docstring.

    Raises:
        OSError: there is no such socket here, as in some sandboxes.
    """

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        try:
            self._socket.bind((0, GROUPS))
            self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        except OSError:
            self._socket.close()
            raise
        self._lock = threading.Lock()
        self._stopping = self._closed = False

    def run(self, changed: Callable[[str], None]) -> None:
        """Tell of each change until `close`; blocks, once, and frees everything at its end.

        Raises:
            OSError: the socket has failed.
        """
        changes = Changes()
        try:
            while self._wait():
                first = self._read(changes)
                if not first:
                    continue
                self._bell_rings(TOGETHER)
                news = dict.fromkeys([first, *self._read_more(changes)])
                if not self._stopping:
                    changed(", ".join(filter(None, news)))
        finally:
            with self._lock:
                self._closed = True
                os.close(self._bell)
                self._socket.close()

    def close(self) -> None:
        """Let `run` end; any thread, idempotent."""
        self._stopping = True
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._bell, 1)

    def _wait(self) -> bool:
        """Wait for something to read; no when it is to end."""
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        poll.poll()
        return not self._stopping

    def _bell_rings(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0)) and not self._stopping

    def _read_more(self, changes: Changes) -> Iterator[str]:
        while self._readable():
            yield self._read(changes)

    def _read(self, changes: Changes) -> str:
        try:
            return changes.take(read(self._socket.recv(LARGEST)))
        except BlockingIOError:
            return ""
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return "more than the kernel could tell"
