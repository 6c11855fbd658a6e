"""Tells the neighbours of a new pod its MAC.

The machine and other pods may know the address as that of an earlier pod: the kernel keeps up to 128 neighbours for
ever, and asks again only 8 s after nobody has answered. The plug-in `bridge` has the kernel announce the pod when its
interface comes up (`arp_notify`), which is too early: the bridge does not forward yet what comes from there.
"""

import fcntl
import socket
import struct
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from modules.runtimes.oci.network.errors import PodNamespaceError
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.sysctls import INTERFACE, write_interface_sysctls

_SIOCSIFHWADDR: Final = 0x8924
_ETHERNET: Final = 1
_NOTIFY: Final = (f"net.ipv4.conf.{INTERFACE}.arp_notify", f"net.ipv6.conf.{INTERFACE}.ndisc_notify")
"""Whether the kernel announces the addresses of an interface whose MAC is set, also to the one that it has."""


def announce(netns: Path, mac: bytes) -> None:
    """Announce a pod's addresses, by ARP and neighbour discovery. Where the kernel refuses, its neighbours find the pod
    some seconds later.

    Args:
        netns: the pod's network namespace.
        mac: of the pod's interface.
    """
    with suppress(OSError):
        in_network_namespace(netns, partial(_announce, mac))


def _announce(mac: bytes) -> None:
    for name in _NOTIFY:
        with suppress(PodNamespaceError):  # a kernel without IPv6
            write_interface_sysctls({name: "1"})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFHWADDR, struct.pack("=16sH6s16x", INTERFACE.encode(), _ETHERNET, mac))
