"""The rtnetlink socket: notifications of the kernel about interfaces, addresses and routes (rtnetlink(7))."""

import errno
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from edgehub.network.changes import NetworkChanges
from edgehub.network.messages import read

_RTMGRP_LINK, _RTMGRP_IPV4_IFADDR, _RTMGRP_IPV4_ROUTE = 0x1, 0x10, 0x40
_RTMGRP_IPV6_IFADDR, _RTMGRP_IPV6_ROUTE = 0x100, 0x400
GROUPS: Final = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_IFADDR | _RTMGRP_IPV6_ROUTE

_MASK, _NOWHERE = 7, "00000000"
"""Column of the mask in /proc/net/route, and the destination and mask of a default route."""

LARGEST: Final = 64 * 1024
"""Bytes read of a datagram; the kernel's have at most 32 KiB."""

GATHER_SECONDS: Final = 0.2
"""Seconds during which notifications are gathered: one change of the network causes many."""


def default_devices(proc: Path = Path("/proc/net")) -> set[int]:
    """Return the indices of the devices that have a default route; without /proc, none."""
    names: set[str] = set()
    with suppress(OSError):
        rows = [line.split() for line in (proc / "route").read_text().splitlines()]
        names.update(row[0] for row in rows if len(row) > _MASK and row[1] == row[_MASK] == _NOWHERE)
    with suppress(OSError):
        rows = [line.split() for line in (proc / "ipv6_route").read_text().splitlines()]
        names.update(row[-1] for row in rows if row[:2] == [_NOWHERE * 4, "00"] and row[-1] != "lo")
    devices = set()
    for name in names:
        with suppress(OSError):
            devices.add(socket.if_nametoindex(name))
    return devices


class Netlink:
    """A `NetworkWatch` on an rtnetlink socket, which needs no privilege.

    It waits in `poll`, not for the clock: a simulation cannot replay it.

    Raises:
        OSError: the system has no such socket, as in some sandboxes.
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
        """Call `changed` for each change until `close`, then close the socket. Blocks; called once.

        Raises:
            OSError: the socket failed.
        """
        changes = NetworkChanges(default_devices())
        try:
            while self._wait():
                first = self._read(changes)
                if not first:
                    continue
                self._bell_rings(GATHER_SECONDS)
                news = dict.fromkeys([first, *self._read_more(changes)])
                if not self._stopping:
                    changed(", ".join(filter(None, news)))
        finally:
            with self._lock:
                self._closed = True
                os.close(self._bell)
                self._socket.close()

    def close(self) -> None:
        """End `run`; any thread, idempotent."""
        self._stopping = True
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._bell, 1)

    def _wait(self) -> bool:
        """Wait until the socket is readable; return False after `close`."""
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

    def _read_more(self, changes: NetworkChanges) -> Iterator[str]:
        while self._readable():
            yield self._read(changes)

    def _read(self, changes: NetworkChanges) -> str:
        try:
            return changes.take(read(self._socket.recv(LARGEST)))
        except BlockingIOError:
            return ""
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return "more than the kernel could tell"
