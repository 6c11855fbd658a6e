"""Addresses at which a machine reaches itself, or what is for it alone: nobody has it ask there on behalf of others."""

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""Metadata services of machines of Amazon, Alibaba, Azure and Oracle; most clouds have theirs at 169.254.169.254."""


def plain_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address without its zone; one of IPv4 in the form of IPv6 as one of IPv4. Raises ValueError."""
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_own(address: IPv4Address | IPv6Address) -> bool:
    """Return whether a machine reaches itself there, and what listens for its own programs."""
    return address.is_loopback or address.is_unspecified


def is_beside(address: IPv4Address | IPv6Address) -> bool:
    """Return whether an address is link-local, or a metadata service, which may give a machine's credentials away."""
    return address.is_link_local or address in _METADATA


def is_near(text: str) -> bool:
    """Return whether a text is an address of one of these kinds; a name is not."""
    try:
        found = plain_address(text)
    except ValueError:
        return False
    return is_own(found) or is_beside(found)
