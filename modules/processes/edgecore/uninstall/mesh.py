"""What edgemesh leaves in the kernel: its rules, its route, and the address of its name server."""

import os
from collections.abc import Callable

from modules.edge.edgemesh.nft.addresses import AddressError, HostAddresses
from modules.edge.edgemesh.nft.program import Nft, NftError, NftMissingError
from modules.edge.edgemesh.nft.ruleset import deletion
from modules.processes.edgecore.config import EdgeCoreConfig


def remove_service_rules(
    config: EdgeCoreConfig, say: Callable[[str], None], nft: Nft | None = None, addresses: HostAddresses | None = None
) -> None:
    """Remove it, if the module is on and this is root; say what cannot be removed.

    Args:
        config: of the node.
        say: prints a line.
        nft: for tests.
        addresses: for tests.
    """
    mesh = config.modules.edge_mesh
    if not mesh.enable or os.geteuid() != 0:
        return
    addresses = addresses or HostAddresses()
    try:
        (nft or Nft()).apply(deletion())
    except NftMissingError:
        pass  # then there never were any
    except NftError as error:
        say(f"rules of Services are left: {error}; `nft delete table ip edgecore` removes them")
    try:
        for cidr in mesh.service_cidrs:
            addresses.remove_route(cidr)
        addresses.remove_address(mesh.dns_address)
    except AddressError as error:
        say(f"the route to Services, or the name server's address, is left: {error}")
