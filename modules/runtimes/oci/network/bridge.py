"""A bridge of this machine: it is made, its addresses, and its removal.

The tables of /proc belong to the calling thread's network namespace.
"""

import errno
import fcntl
import ipaddress
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.sockets.netlink import attribute, message
from modules.runtimes.oci.network.kernel import set_interface_up

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_SIOCGIFADDR: Final = 0x8915
_SIOCGIFNETMASK: Final = 0x891B
_SIOCBRADDBR: Final = 0x89A0
_SIOCBRDELBR: Final = 0x89A1
_NEW_LINK: Final = 16
_REQUEST: Final = 1
_INTERFACE_HEADER: Final = 16
"""Bytes of a `struct ifinfomsg`."""
_INTERFACE_NAME, _LINK_INFO, _INFO_KIND, _INFO_DATA, _MULTIPLE_OPTIONS = 3, 18, 1, 2, 46
_NO_LINK_LOCAL_LEARNING: Final = 1
_NAME: Final = 16
_ADDRESS: Final = slice(20, 24)
"""The address in a `struct ifreq`."""
_TABLE: Final = Path("/proc/thread-self/net/if_inet6")
_PARAMETERS: Final = Path("/proc/sys/net/ipv6/conf")


def addresses_of_bridge(name: str) -> list[Interface]:
    """Return its addresses for pods, with the lengths of their prefixes; none when it is missing. Raises OSError."""
    found: list[Interface] = []
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack(f"{_NAME}s24x", name.encode())
        address, mask = (
            ipaddress.IPv4Address(fcntl.ioctl(control, code, request)[_ADDRESS])
            for code in (_SIOCGIFADDR, _SIOCGIFNETMASK)
        )
        found.append(ipaddress.IPv4Interface(f"{address}/{mask}"))
    for line in _TABLE.read_text().splitlines() if _TABLE.exists() else ():
        address_text, _, prefix, _, _, device = line.split()
        interface = ipaddress.IPv6Interface((int(address_text, 16), int(prefix, 16)))
        if device == name and not interface.is_link_local:
            found.append(interface)
    return found


def make_bridge(name: str) -> None:
    """Make a bridge, if it is missing, whose IPv6 addresses can be used as soon as it has them, and which learns no MAC
    from frames that its firewall does not see.

    Otherwise the kernel asks the bridge's network for 1 to 3 s whether another machine has the address (RFC 4862). The
    bridge does not answer in this time, and the first pod, which looks for its gateway for 3 s, may find no route. Only
    this node gives addresses of the bridge's network. And a frame for 01:80:C2:00:00:0E passes no firewall, so that any
    pod could tell the bridge with it that it has the MAC of another. Without IPv6, or where /proc/sys is read-only, and
    with a kernel before Linux 5.0, the bridge stays as it is.

    Raises:
        OSError: the bridge cannot be made.
    """
    with suppress(FileExistsError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as control:
        fcntl.ioctl(control, _SIOCBRADDBR, name.encode().ljust(_NAME, b"\0"))
    with suppress(OSError):
        (_PARAMETERS / name / "accept_dad").write_text("0")
    with suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as control:
        control.send(_without_learning(name))


def _without_learning(name: str) -> bytes:
    """Return the message that sets `no_linklocal_learn` of a bridge."""
    option = attribute(_MULTIPLE_OPTIONS, struct.pack("=II", _NO_LINK_LOCAL_LEARNING, _NO_LINK_LOCAL_LEARNING))
    kind = attribute(_INFO_KIND, b"bridge") + attribute(_INFO_DATA, option, nested=True)
    link = attribute(_INTERFACE_NAME, name.encode() + b"\0") + attribute(_LINK_INFO, kind, nested=True)
    return message(_NEW_LINK, _REQUEST, bytes(_INTERFACE_HEADER) + link)


def remove_bridge(name: str) -> None:
    """Remove a bridge with its addresses; it may be missing. Raises OSError."""
    try:
        set_interface_up(name, up=False)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as control:
            fcntl.ioctl(control, _SIOCBRDELBR, name.encode().ljust(_NAME, b"\0"))
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.ENXIO):
            raise
