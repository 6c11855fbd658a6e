"""The addresses of pods as Services use them, and whose they are. Nodes report them, and are not believed."""

from ipaddress import IPv6Address, ip_address
from typing import Final

SERVICE_NAME: Final = "kubernetes.io/service-name"
"""The label of an EndpointSlice with the name of its Service."""


def endpoint_address(text: object) -> str:
    """Return the address of a pod in the canonical form of its family; "" for a text that is none, and for an address
    that no pod has: loopback, link-local, multicast, unspecified, an IPv4 address in the form of IPv6, one with a zone.

    A connection to such an address would reach the machine of its client, or of the client's proxy.
    """
    try:
        address = ip_address(str(text))
    except ValueError:
        return ""
    is_odd = isinstance(address, IPv6Address) and (address.scope_id is not None or address.ipv4_mapped is not None)
    if is_odd or address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return ""
    return str(address)
