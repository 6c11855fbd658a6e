"""The rtnetlink socket: notifications of the kernel about interfaces, addresses and routes (rtnetlink(7))."""

import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.sockets.netlink import NetlinkListener
from edgehub.network.changes import NetworkChanges
from edgehub.network.messages import read

_RTMGRP_LINK, _RTMGRP_IPV4_IFADDR, _RTMGRP_IPV4_ROUTE = 0x1, 0x10, 0x40
_RTMGRP_IPV6_IFADDR, _RTMGRP_IPV6_ROUTE = 0x100, 0x400
GROUPS: Final = _RTMGRP_LINK | _RTMGRP_IPV4_IFADDR | _RTMGRP_IPV4_ROUTE | _RTMGRP_IPV6_IFADDR | _RTMGRP_IPV6_ROUTE

_MASK, _NOWHERE = 7, "00000000"
"""Column of the mask in /proc/net/route, and the destination and mask of a default route."""

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

    Raises:
        OSError: the system has no such socket, as in some sandboxes.
    """

    def __init__(self) -> None:
        self._kernel = NetlinkListener(socket.NETLINK_ROUTE, GROUPS)

    def run(self, changed: Callable[[str], None]) -> None:
        """Call `changed` for each change until `close`. Blocks; called once.

        Raises:
            OSError: the socket failed.
        """
        changes = NetworkChanges(default_devices())
        self._kernel.listen(lambda: self._report(changes, changed))

    def close(self) -> None:
        """End `run`; any thread, idempotent."""
        self._kernel.close()

    def _report(self, changes: NetworkChanges, changed: Callable[[str], None]) -> None:
        """Report the changes of some time as one."""
        first = self._read(changes)
        if not first or not self._kernel.pause(GATHER_SECONDS):
            return
        news = [first]
        while self._kernel.has_more():
            news.append(self._read(changes))
        changed(", ".join(filter(None, dict.fromkeys(news))))

    def _read(self, changes: NetworkChanges) -> str:
        data = self._kernel.read()
        return "more than the kernel could tell" if data is None else changes.describe(read(data))
