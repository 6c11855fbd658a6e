"""Parses rtnetlink messages (rtnetlink(7), `linux/rtnetlink.h`). Pure."""

import struct
import sys
from collections.abc import Iterator
from typing import Final

import msgspec

from beehive.sockets.netlink import attributes, messages

NEW_LINK: Final = 16
DEL_LINK: Final = 17
NEW_ADDRESS: Final = 20
DEL_ADDRESS: Final = 21
NEW_ROUTE: Final = 24
DEL_ROUTE: Final = 25

_LINK = struct.Struct("=BxHiII")
_ADDRESS = struct.Struct("=BBBBI")
_ROUTE = struct.Struct("=BBBBBBBBI")

_IFF_UP, _IFF_LOOPBACK, _IFF_RUNNING = 0x1, 0x8, 0x40
_IFLA_NAME, _IFLA_MASTER, _IFA_ADDRESS, _IFA_LOCAL = 3, 10, 1, 2
_RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY = 4, 5, 6
_SCOPE_LINK = 253
_TABLE_MAIN, _UNICAST = 254, 1
_INDEX_BYTES = 4


class InterfaceState(msgspec.Struct, frozen=True):
    """State of an interface, except the loopback and ports of a bridge or bond."""

    device: int
    runs: bool
    """Whether it exists, is up and has a carrier."""
    name: str = ""


class Address(msgspec.Struct, frozen=True):
    """An address of wider than link scope."""

    device: int
    address: bytes
    there: bool


class DefaultRoute(msgspec.Struct, frozen=True):
    """A default route of the main table."""

    key: tuple[int, bytes, bytes, bytes]
    """Family, device, gateway, priority."""
    there: bool

    @property
    def device(self) -> int:
        """Index of the interface; 0 when the kernel has not named one."""
        index = self.key[1]
        return int.from_bytes(index, sys.byteorder) if len(index) == _INDEX_BYTES else 0


Notification = InterfaceState | Address | DefaultRoute


def read(data: bytes) -> Iterator[Notification]:
    """Yield the interfaces, addresses and default routes of a datagram."""
    for each in messages(data):
        if (news := _notification(each.type, each.body)) is not None:
            yield news


def _notification(kind: int, body: bytes) -> Notification | None:
    if kind in (NEW_LINK, DEL_LINK) and len(body) >= _LINK.size:
        return _link(body, there=kind == NEW_LINK)
    if kind in (NEW_ADDRESS, DEL_ADDRESS) and len(body) >= _ADDRESS.size:
        return _address(body, there=kind == NEW_ADDRESS)
    if kind in (NEW_ROUTE, DEL_ROUTE) and len(body) >= _ROUTE.size:
        return _route(body, there=kind == NEW_ROUTE)
    return None


def _link(body: bytes, *, there: bool) -> InterfaceState | None:
    family, _, index, flags, _ = _LINK.unpack_from(body)
    found = attributes(body[_LINK.size :])
    if family or flags & _IFF_LOOPBACK or _IFLA_MASTER in found:
        return None
    name = found.get(_IFLA_NAME, b"").rstrip(b"\0").decode(errors="replace")
    return InterfaceState(index, there and flags & (_IFF_UP | _IFF_RUNNING) == _IFF_UP | _IFF_RUNNING, name)


def _address(body: bytes, *, there: bool) -> Address | None:
    _, _, _, scope, index = _ADDRESS.unpack_from(body)
    found = attributes(body[_ADDRESS.size :])
    address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
    return Address(index, address, there) if address and scope < _SCOPE_LINK else None


def _route(body: bytes, *, there: bool) -> DefaultRoute | None:
    family, to_bits, _, _, table, _, _, kind, _ = _ROUTE.unpack_from(body)
    if to_bits or table != _TABLE_MAIN or kind != _UNICAST:
        return None
    found = attributes(body[_ROUTE.size :])
    device, gateway, priority = (found.get(key, b"") for key in (_RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY))
    return DefaultRoute((family, device, gateway, priority), there)
