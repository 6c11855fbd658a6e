"""Binds each pod of edgecore's own network to its addresses: no pod sends in the name of another, or of the gateway.

A bridge believes the MAC of a frame, and neighbours believe what ARP and neighbour discovery tell them. So a table of
the family `bridge` drops what comes from a pod's veth with another MAC or address than the pod's own, before the bridge
learns from it. The rules are the same for all pods; a pod is some elements of sets, added in one transaction. They are
removed when the watch over the rules looks and the veth is gone: the kernel takes 8 to 20 ms for removing one pod, and
as long for many. Frames for 01:80:C2:00:00:0E do not pass these rules; `bridge` keeps the bridge from learning of them.
"""

import errno
import ipaddress
import logging
import socket
import threading
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec

from beehive.decoding import convert
from beehive.printable import printable
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network import nf_tables as nft
from modules.runtimes.oci.network.results import addresses_of

TABLE: Final = "edgecore-pods"
"""Name of the table."""

_log = logging.getLogger(__name__)

_ENTRANCE: Final = "prerouting"
_LINKS, _IPV4, _IPV6 = "links", "ipv4", "ipv6"
_NAME: Final = 16
_MAC: Final = 8
"""Bytes of a MAC in a key, with its padding."""
_TYPE_IPV4, _TYPE_IPV6, _TYPE_MAC, _TYPE_NAME = 7, 8, 9, 41
"""Types of `nft`; a key of several has six bits for each."""
_SETS: Final = {  # type and size of an element
    _LINKS: (_TYPE_NAME, _NAME),
    _IPV4: (_TYPE_NAME << 12 | _TYPE_MAC << 6 | _TYPE_IPV4, _NAME + _MAC + 4),
    _IPV6: (_TYPE_NAME << 12 | _TYPE_MAC << 6 | _TYPE_IPV6, _NAME + _MAC + 16),
}
_UNSPECIFIED: Final = bytes(16)
_ICMPV6: Final = b"\x3a"
_ROUTER_SOLICITATION, _ROUTER_ADVERTISEMENT, _SOLICITATION, _ADVERTISEMENT, _REDIRECT = (
    b"\x85",
    b"\x86",
    b"\x87",
    b"\x88",
    b"\x89",
)
_LISTENER_REPORTS: Final = (b"\x83", b"\x84", b"\x8f")
_UNSUPPORTED: Final = (errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT)


class Sender(msgspec.Struct, frozen=True):
    """A pod on the bridge."""

    link: str
    """Name of the machine's end of its veth."""
    mac: bytes
    addresses: PodAddresses

    def elements(self) -> dict[str, tuple[bytes, ...]]:
        """Return its elements of the sets: besides its addresses, the link-local address that the kernel makes of its
        MAC, and the unspecified address, which the kernel sends from to look for duplicates.
        """
        name = self.link.encode().ljust(_NAME, b"\0")
        found = [ipaddress.ip_address(each) for each in (self.addresses.ip, *self.addresses.additional)]
        own = {version: [each.packed for each in found if each.version == version] for version in (4, 6)}
        begin = name + self.mac.ljust(_MAC, b"\0")
        return {
            _LINKS: (name,),
            _IPV4: tuple(begin + each for each in own[4]),
            _IPV6: tuple(begin + each for each in (*own[6], link_local(self.mac), _UNSPECIFIED)),
        }


class _Interface(msgspec.Struct):
    name: str = ""
    mac: str = ""
    sandbox: str = ""


class _Interfaces(msgspec.Struct):
    interfaces: list[_Interface] = []


def sender_of(result: dict[str, Any], bridge: str) -> Sender:
    """Return the pod that a result of the plug-in `bridge` is about. Raises ValueError."""
    try:
        interfaces = convert(result, _Interfaces).interfaces
        link = next(each.name for each in interfaces if not each.sandbox and each.name != bridge)
        mac = bytes.fromhex(next(each.mac for each in interfaces if each.sandbox).replace(":", ""))
    except (msgspec.ValidationError, StopIteration, ValueError) as error:
        raise ValueError(f"the plug-in's result does not name the pod's interfaces and MAC: {error}") from None
    if not 0 < len(link.encode()) < _NAME or len(mac) != 6:
        raise ValueError("the plug-in's result has no usable names and MACs of interfaces")
    return Sender(link, mac, addresses_of(result))


def link_local(mac: bytes) -> bytes:
    """Return the IPv6 address that the kernel makes of a MAC (RFC 4291 §2.5.1)."""
    return b"\xfe\x80" + bytes(6) + bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:]


class Senders:
    """The table of one machine. A kernel that lacks it, or refuses, is named in the log, and pods run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._complaint = ""
        self._is_made = False

    def bind(self, sender: Sender) -> None:
        """Bind a pod to its addresses, before its containers start."""
        with self._lock:
            try:
                if self._is_made:
                    try:
                        nft.apply(_additions([sender]))
                    except FileNotFoundError:  # somebody flushed the firewall
                        self._make([sender])
                else:
                    self._make([sender])
            except OSError as error:
                self._complain(error)

    def restore(self, senders: Collection[Sender]) -> bool:
        """Make the missing rules of the table for these pods, and remove pods whose veths are gone.

        Return whether something was missing.
        """
        with self._lock:
            try:
                is_missing = _is_missing(senders)
                if is_missing:
                    self._make(senders)
                _tidy()
            except OSError as error:
                self._complain(error)
                return False
            return is_missing

    def tidy(self) -> None:
        """Remove pods whose veths are gone."""
        with self._lock:
            try:
                _tidy()
            except OSError as error:
                self._complain(error)

    def remove(self) -> None:
        """Remove the table, on a machine that no longer runs pods. It may be missing."""
        with self._lock:
            self._is_made = False
            try:
                nft.apply([nft.without_table(TABLE)])
            except OSError as error:
                if error.errno not in (errno.ENOENT, *_UNSUPPORTED):
                    _log.warning("the table %s of nftables stays: %s", TABLE, error)

    def _make(self, senders: Iterable[Sender]) -> None:
        nft.apply([*_table(), *_additions(senders)])
        self._is_made, self._complaint = True, ""

    def _complain(self, error: OSError) -> None:
        if error.errno in _UNSUPPORTED:
            text = "this kernel has no nftables for bridges (CONFIG_NF_TABLES_BRIDGE)"
        else:
            text = f"nftables refuses the table {TABLE}: {error.strerror}"
        if text != self._complaint:
            _log.warning("pods can send with addresses of other pods: %s", printable(text))
        self._complaint = text


def _is_missing(senders: Collection[Sender]) -> bool:
    """Return whether the table lacks a rule, or one of these pods. Raises OSError."""
    if nft.number_of_rules(TABLE) != len(RULES):
        return True
    present = {name: nft.keys_of(TABLE, name) for name in _SETS}
    return any(not present[name].issuperset(keys) for each in senders for name, keys in each.elements().items())


def _tidy() -> None:
    """Remove elements of interfaces that are gone. Raises OSError."""
    present = {name: nft.keys_of(TABLE, name) for name in _SETS}
    links = {name.encode().ljust(_NAME, b"\0") for _, name in socket.if_nameindex()}
    lost = {name: [key for key in keys if key[:_NAME] not in links] for name, keys in present.items()}
    if any(lost.values()):
        nft.apply([each for name, keys in lost.items() for each in nft.without_elements(TABLE, name, keys)])


def _table() -> list[bytes]:
    """Return the transaction that makes the table, or makes it whole; the pods in its sets stay."""
    chains = list(dict.fromkeys(chain for chain, _ in RULES))
    made = [nft.table(TABLE), nft.base_chain(TABLE, _ENTRANCE)]
    made += [nft.chain(TABLE, each) for each in chains if each != _ENTRANCE]
    made += [nft.without_rules(TABLE, each) for each in chains]
    made += [nft.key_set(TABLE, name, *kind, number) for number, (name, kind) in enumerate(_SETS.items(), 1)]
    return made + [nft.rule(TABLE, chain, *expressions) for chain, expressions in RULES]


def _additions(senders: Iterable[Sender]) -> list[bytes]:
    found: dict[str, list[bytes]] = {name: [] for name in _SETS}
    for each in senders:
        for name, keys in each.elements().items():
            found[name] += keys
    return [each for name, keys in found.items() for each in nft.elements(TABLE, name, keys)]


def _rules() -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    """Return the rules of each chain in order."""
    link = nft.meta(nft.INTERFACE_NAME)
    sender = (link, nft.payload(nft.LINK, 6, 6, nft.SECOND))
    ether_type = nft.payload(nft.LINK, 12, 2)
    accept, drop = nft.verdict(nft.ACCEPT), nft.verdict(nft.DROP)

    def address(header: int, offset: int, size: int) -> bytes:
        return nft.payload(header, offset, size, nft.THIRD)

    def is_icmpv6(kind: bytes) -> tuple[bytes, ...]:
        return nft.meta(nft.FOURTH_LAYER), nft.equals(_ICMPV6), nft.payload(nft.TRANSPORT, 0, 1), nft.equals(kind)

    arp_of_ipv4 = (nft.payload(nft.NETWORK, 0, 6), nft.equals(bytes.fromhex("000108000604")))
    arp_address = address(nft.NETWORK, 14, 4)
    arp_sender = (link, nft.payload(nft.NETWORK, 8, 6, nft.SECOND), arp_address, nft.is_in(_IPV4))
    source = address(nft.NETWORK, 8, 16)
    target = (*sender, address(nft.TRANSPORT, 8, 16), nft.is_in(_IPV6, inverted=True))
    without_source = (nft.payload(nft.NETWORK, 8, 16), nft.equals(_UNSPECIFIED))
    ipv6 = [
        (*sender, source, nft.is_in(_IPV6, inverted=True), drop),
        (*is_icmpv6(_ROUTER_ADVERTISEMENT), drop),
        (*is_icmpv6(_REDIRECT), drop),
        (*is_icmpv6(_ADVERTISEMENT), *target, drop),
        (*without_source, *is_icmpv6(_SOLICITATION), *target, drop),
        *(
            (*without_source, *is_icmpv6(each), accept)
            for each in (_SOLICITATION, _ROUTER_SOLICITATION, *_LISTENER_REPORTS)
        ),
        (*without_source, drop),
    ]
    return (
        (_ENTRANCE, (link, nft.is_in(_LINKS), nft.verdict(nft.GO_TO, "pod"))),
        ("pod", (ether_type, nft.equals(b"\x08\x00"), nft.verdict(nft.GO_TO, "pod-ipv4"))),
        ("pod", (ether_type, nft.equals(b"\x86\xdd"), nft.verdict(nft.GO_TO, "pod-ipv6"))),
        ("pod", (ether_type, nft.equals(b"\x08\x06"), nft.verdict(nft.GO_TO, "pod-arp"))),
        ("pod", (drop,)),
        ("pod-ipv4", (*sender, address(nft.NETWORK, 12, 4), nft.is_in(_IPV4), accept)),
        ("pod-ipv4", (drop,)),
        ("pod-arp", (*arp_of_ipv4, *sender, arp_address, nft.is_in(_IPV4), *arp_sender, accept)),
        ("pod-arp", (drop,)),
        *(("pod-ipv6", each) for each in ipv6),
    )


RULES: Final = _rules()
"""Each rule's chain and expressions."""
