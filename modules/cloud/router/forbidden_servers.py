"""The servers that no Rule calls: cloudcore would lend its place in the network to the Rule's author. Pure."""

from collections.abc import Callable, Collection
from ipaddress import IPv6Address, ip_address
from typing import Final

OwnPorts = Callable[[], Collection[int]]
"""Returns the TCP ports on which this cloudcore listens."""

_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""Metadata services of machines of Amazon, Alibaba, Azure and Oracle; most clouds have theirs at 169.254.169.254."""


def refusal_of_server(address: str, port: int, own: Collection[int]) -> str:
    """Return why a Rule's request is not sent to an address, "" if it is.

    Args:
        address: of the connected server, so that names and other spellings do not matter.
        port: its port.
        own: the ports of this cloudcore, where programs of this machine may need no credentials.
    """
    found = ip_address(address.partition("%")[0])
    found = (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
    if found.is_link_local or found in _METADATA:
        return f"{found} is link-local, or a metadata service of machines: no Rule calls it"
    if (found.is_loopback or found.is_unspecified) and port in own:
        return f"port {port} of this machine is cloudcore's own: no Rule calls it"
    return ""
