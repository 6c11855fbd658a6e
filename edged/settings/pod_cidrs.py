"""The ranges of addresses for pods, as `podCIDR` names them."""

import ipaddress
from typing import Final

_LEAST_BITS: Final = 2
"""Bits for pods in the smallest range: CIDR's first and last address and the node's leave one."""
_MOST_BITS: Final = {4: 24, 6: 112}
"""Bits for pods in the largest range, by version: a whole first byte, or the first two."""


def parse_pod_cidrs(text: str) -> tuple[str, ...]:
    """Return the ranges in a text: one, or one IPv4 and one IPv6 range with a comma between them.

    Raises ValueError with the reason.
    """
    ranges = [_parsed(part.strip()) for part in text.split(",")]
    if len({each.version for each in ranges}) < len(ranges):
        raise ValueError(f"{len(ranges)} ranges, but one is possible of each IP version")
    return tuple(str(each) for each in ranges)


def _parsed(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    if "/" not in text:
        raise ValueError(f'"{text}" has no prefix length, such as /16')
    try:
        found = ipaddress.ip_network(text)
    except ValueError as error:
        try:
            nearest = ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise ValueError(str(error)) from None
        raise ValueError(f'"{text}" is an address within a range; the range is {nearest}') from None
    bits = found.max_prefixlen - found.prefixlen
    if bits < _LEAST_BITS:
        raise ValueError(f"{found} has too few addresses: /{found.max_prefixlen - _LEAST_BITS} is the smallest range")
    if bits > _MOST_BITS[found.version]:
        largest = found.max_prefixlen - _MOST_BITS[found.version]
        raise ValueError(f"{found} has too many addresses: /{largest} is the largest range")
    if found.is_loopback or found.is_multicast or found.is_link_local or found.is_unspecified:
        raise ValueError(f"{found} is no range for pods")
    return found
