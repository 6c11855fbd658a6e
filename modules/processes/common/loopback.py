"""Which addresses only this machine reaches."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine's loopback interface."""
    name = host.strip("[]").lower()
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
