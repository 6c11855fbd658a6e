"""Addresses that host-local has given to sandboxes: a file for each, in a directory for each network.

A sandbox that is lost without a DEL, as by a power cut, keeps its address for ever; after some years of restarts the
range is used up.
"""

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from beehive.files.reading import read_file
from modules.runtimes.oci.network.configuration import NetworkConfiguration

_DEFAULT_DIRECTORY: Final = Path("/var/lib/cni/networks")
_MOST_BYTES: Final = 4096
_MOST_LEASES: Final = 65_536


class AddressLease(msgspec.Struct, frozen=True):
    """An address in use."""

    container_id: str
    """Empty if the file is, as after a power cut."""
    changed: float
    """When it was given, in seconds since the epoch."""
    file: Path


def leases_of(network: NetworkConfiguration) -> Iterator[AddressLease]:
    """Yield the leases of a network that host-local has given. A file that cannot be read is no lease."""
    for plugin in network.plugins:
        ipam = plugin.get("ipam")
        if isinstance(ipam, dict) and ipam.get("type") == "host-local":
            yield from _leases_in(Path(str(ipam.get("dataDir") or _DEFAULT_DIRECTORY)) / network.name)


def _leases_in(directory: Path) -> Iterator[AddressLease]:
    try:
        names = [each for each, _ in zip(directory.iterdir(), range(_MOST_LEASES), strict=False)]
    except OSError:
        return
    for path in names:
        try:
            ipaddress.ip_address(path.name)
            text = read_file(path, _MOST_BYTES).decode("ascii")
            container_id = next(iter(text.strip("\0").splitlines()), "").strip()
            yield AddressLease(container_id, path.stat().st_mtime, path)
        except (OSError, ValueError):
            continue
