"""The addresses of a pod, out of those that its runtime reports."""

from functools import lru_cache

from modules.apimachinery.ip_addresses import read_address


@lru_cache(maxsize=1024)
def sort_pod_ips(reported: tuple[str, ...], primary: str) -> tuple[str, ...]:
    """Return the first address of the primary one's IP version, and the first of the other version, if there are any
    (kubelet's sortPodIPs).

    A network plug-in may report any number in any order; an API server takes one of each version, and refuses the whole
    status otherwise. What is no address is left out.

    Args:
        reported: by the runtime.
        primary: the node's primary address; "" for IPv4.
    """
    first: dict[int, str] = {}
    for address in reported:
        try:
            first.setdefault(read_address(address).version, address)
        except ValueError:
            continue
    order = (6, 4) if ":" in primary else (4, 6)
    return tuple(first[version] for version in order if version in first)
