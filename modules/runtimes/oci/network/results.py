"""The addresses in the result of a CNI plug-in, of any version."""

import ipaddress
from typing import Any, Final

import msgspec

from beehive.decoding import convert
from modules.runtimes.engine.records import PodAddresses

_MOST_ADDRESSES: Final = 64


class _Interface(msgspec.Struct):
    sandbox: str = ""


class _Address(msgspec.Struct):
    address: str
    interface: int | None = None


class _OldAddress(msgspec.Struct):
    ip: str


class _Result(msgspec.Struct):
    """The results of CNI 0.3 to 1.1, and of 0.1 and 0.2 (`ip4`, `ip6`)."""

    interfaces: list[_Interface] = []
    ips: list[_Address] = []
    ip4: _OldAddress | None = None
    ip6: _OldAddress | None = None


def addresses_of(result: dict[str, Any]) -> PodAddresses:
    """Return the addresses that a result gives to the pod, IPv4 before IPv6.

    Raises:
        ValueError: it is no result, or has no address for the pod.
    """
    try:
        content = convert(result, _Result)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is no result of CNI: {error}") from None
    texts = [each.address for each in content.ips if _is_of_the_pod(each, content.interfaces)]
    texts += [each.ip for each in (content.ip4, content.ip6) if each is not None]
    if not texts or len(texts) > _MOST_ADDRESSES:
        raise ValueError(f"it gives the pod {len(texts)} addresses; 1 to {_MOST_ADDRESSES} are possible")
    found = sorted({ipaddress.ip_interface(text).ip: None for text in texts}, key=lambda each: each.version)
    first, *others = map(str, found)
    return PodAddresses(first, tuple(others))


def _is_of_the_pod(address: _Address, interfaces: list[_Interface]) -> bool:
    """Return whether an address is at an interface in the pod; one without an interface is the pod's."""
    if address.interface is None or not interfaces:
        return True
    return 0 <= address.interface < len(interfaces) and bool(interfaces[address.interface].sandbox)
