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

from modules.runtimes.oci.network.kernel import set_interface_up

Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_SIOCGIFADDR: Final = 0x8915
_SIOCGIFNETMASK: Final = 0x891B
_SIOCBRADDBR: Final = 0x89A0
_SIOCBRDELBR: Final = 0x89A1
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


def use_ipv6_addresses_immediately(name: str) -> None:
    """Make a bridge, if it is missing, whose IPv6 addresses can be used as soon as it has them.

    Otherwise the kernel asks the bridge's network for 1 to 3 s whether another machine has the address (RFC 4862). The
    bridge does not answer in this time, and the first pod, which looks for its gateway for 3 s, may find no route. Only
    this node gives addresses of the bridge's network. Without IPv6, or where /proc/sys is read-only, nothing changes.

    Raises:
        OSError: the bridge cannot be made.
    """
    with suppress(FileExistsError), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as control:
        fcntl.ioctl(control, _SIOCBRADDBR, name.encode().ljust(_NAME, b"\0"))
    with suppress(OSError):
        (_PARAMETERS / name / "accept_dad").write_text("0")


def remove_bridge(name: str) -> None:
    """Remove a bridge with its addresses; it may be missing. Raises OSError."""
    try:
        set_interface_up(name, up=False)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as control:
            fcntl.ioctl(control, _SIOCBRDELBR, name.encode().ljust(_NAME, b"\0"))
    except OSError as error:
        if error.errno not in (errno.ENODEV, errno.ENXIO):
            raise
