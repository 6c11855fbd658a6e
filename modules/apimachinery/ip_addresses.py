"""IP addresses and networks in objects, as Kubernetes reads them (`ParseIPSloppy` and `ParseCIDRSloppy` in
k8s.io/utils/net). Python's `ipaddress` takes more: an address with a zone, which is any text after a `%`, and networks
without a length or with a mask in its place.

An IPv4 address with zeros before a number is refused, which Kubernetes takes: other readers have such a number for an
octal one.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network


def read_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address. Raises ValueError."""
    if "%" in text:
        raise ValueError("an address without a zone is wanted")
    return ip_address(text)


def read_network(text: str) -> IPv4Network | IPv6Network:
    """Return the network that an address and a length stand for: `10.1.2.3/8` is `10.0.0.0/8`. Raises ValueError."""
    address, slash, length = text.partition("/")
    if not slash or not length.isdecimal() or "%" in address:
        raise ValueError("an address and the length of a prefix are wanted, such as 10.0.0.0/8")
    return ip_network(text, strict=False)
