"""The name server's place on the host: its address, who may ask it, and the servers that it asks itself."""

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from edged.pods.config.dns import parse_resolv_conf
from modules.edge.edgemesh.dns.resolving import DnsNames
from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses

PORT: Final = 53
STUB: Final = "127.0.0.53"
"""Address of systemd-resolved, which may ask this server in its turn."""
REAL_LIST: Final = Path("/run/systemd/resolve/resolv.conf")
"""The servers that systemd-resolved asks."""
_BACKLOG: Final = 64
_BUFFER: Final = 1024 * 1024


_ATTEMPTS: Final = 8
"""To find a port that is free for UDP and for TCP, where any is wanted."""


def open_sockets(address: str, addresses: HostAddresses, port: int = PORT) -> tuple[socket.socket, socket.socket]:
    """Give the loopback interface the server's address, and listen there; return the UDP and the TCP socket.

    Addresses of 127.0.0.0/8 are there already.

    Raises:
        OSError: this user may not, or another server listens there.
    """
    if not ipaddress.ip_address(address).is_loopback:
        with suppress(AddressError):  # where this user may not, the address may be there already
            addresses.add_address(address)
    for _ in range(0 if port else _ATTEMPTS):
        with suppress(OSError):
            return _bound(address, port)
    return _bound(address, port)


def _bound(address: str, port: int) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    udp = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    tcp = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.bind((address, port))
        tcp.bind((address, udp.getsockname()[1]))
        tcp.listen(_BACKLOG)
    except BaseException:
        udp.close()
        tcp.close()
        raise
    return udp, tcp


class HostServers:
    """The servers for a name: of the longest domain that is configured for it, else the configured or the host's.

    Args:
        resolv_conf: the host's file.
        upstream: servers instead of the host's.
        stub_domains: servers of domains.
        own: address of this server, which is never asked.
    """

    def __init__(
        self, resolv_conf: Path | str, upstream: Sequence[str], stub_domains: Mapping[str, str], own: str
    ) -> None:
        self._file = Path(resolv_conf) if resolv_conf else Path("/etc/resolv.conf")
        self._upstream = tuple(upstream)
        self._domains = {domain.lower().strip("."): server for domain, server in stub_domains.items()}
        self._own = own

    def __call__(self, name: str) -> list[str]:
        """Return the servers, the first one first."""
        below = [each for each in self._domains if name == each or name.endswith(f".{each}")]
        if below:
            return [self._domains[max(below, key=len)]]
        servers = list(self._upstream) or self._of_host()
        return [each for each in servers if each != self._own]

    def _of_host(self) -> list[str]:
        servers = _servers_in(self._file)
        return _servers_in(REAL_LIST) or servers if servers == [STUB] else servers


class Clients:
    """Clients that may ask: pods and the node itself. A neighbour can send to any address of the machine.

    Programs of the node need no range: a connection to an address of the node comes from this address.

    Args:
        ranges: of addresses.
        names: with the addresses of the node's pods.
    """

    def __init__(self, ranges: Sequence[str], names: DnsNames) -> None:
        self._ranges = [ipaddress.ip_network(each) for each in ranges]
        self._names = names

    def __call__(self, client: str) -> bool:
        """Return whether a client is answered."""
        if client in self._names.pod_addresses:
            return True
        try:
            address = ipaddress.ip_address(client)
        except ValueError:
            return False
        return any(address in each for each in self._ranges if each.version == address.version)


def _servers_in(path: Path) -> list[str]:
    try:
        return list(parse_resolv_conf(path.read_text(errors="replace")).servers)
    except OSError:
        return []
