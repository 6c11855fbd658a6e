"""The names of the cluster: Kubernetes' DNS specification 1.1.0, from Services and their endpoints. Pure."""

import ipaddress
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from modules.edge.edgemesh.backends import MeshBackend
from modules.edge.edgemesh.dns.wire import (
    LARGEST,
    Code,
    DnsAnswer,
    Record,
    Type,
    WireError,
    address_data,
    name_data,
    soa_data,
    srv_data,
    text_data,
)
from modules.edge.edgemesh.objects import Service, ServiceKey
from modules.edge.edgemesh.tables import is_headless

TTL: Final = 5
"""Seconds that a name may be remembered: so long a client believes in the address of a dead pod."""
VERSION: Final = "1.1.0"
"""Of the specification."""
MOST_ALIASES: Final = 8
"""ExternalNames of the cluster that point to each other."""

_SMALLEST: Final = 16
"""Bytes of a record with an address."""
_SMALLEST_SRV: Final = 18
"""Bytes of a record of a port, without its target's name."""
_ADDRESS_TYPES: Final = {Type.A: False, Type.AAAA: True}
_NOBODY: Final[Mapping[str, Any]] = MappingProxyType({})
"""The endpoints that a Service with an address has by name; there may be a thousand such Services."""


_Item = TypeVar("_Item")
Found = tuple[list[Record], str, tuple[Record, ...]]
"""Records of a name, its alias (empty without one), and additional records."""


class _Known(NamedTuple):
    """A Service."""

    service: Service
    backends: tuple[MeshBackend, ...]
    """The ready ones, if it is headless."""
    addresses: tuple[str, ...]
    """Where programs of the node reach it."""
    by_version: tuple[Sequence[str], Sequence[str]]
    """The addresses that its name has: of IPv4, and of IPv6."""
    by_host: Mapping[str, Sequence[str]]
    """The endpoints' addresses by their labels: of all if it is headless, else of those with a host name, such as a
    StatefulSet's pods (which CoreDNS answers, beyond the specification).
    """
    hosts: Mapping[str, str]
    """The endpoints' labels by their addresses."""

    def all_addresses(self) -> list[str]:
        """Return these and the endpoints'."""
        return [*self.addresses, *(each.address for each in self.backends)]


class Zone:
    """The names below the cluster's domain. The lock of the server guards it.

    Args:
        domain: such as `cluster.local`.
        choice: shuffles the addresses of headless Services.
    """

    def __init__(self, domain: str, choice: random.Random) -> None:
        self.domain = domain.lower()
        self._choice = choice
        self._suffix = f".{self.domain}"
        self.is_known = False
        """Whether the cloud has sent its Services: before that no name is known not to exist."""
        self._serial = 1
        self._services: dict[ServiceKey, _Known] = {}
        self._namespaces: dict[str, int] = {}
        self._by_address: dict[str, tuple[ServiceKey, ...]] = {}
        """Several Services may have one address: as theirs, or as an endpoint's that anybody may write."""
        self._pods: frozenset[tuple[str, str]] = frozenset()

    def put(
        self, key: ServiceKey, service: Service | None, addresses: Sequence[str], backends: Sequence[MeshBackend]
    ) -> None:
        """Take a Service with its addresses and endpoints, or None for a deleted one."""
        self._serial += 1
        before = self._services.pop(key, None)
        if before is not None:
            for address in set(before.all_addresses()):
                self._by_address[address] = others = tuple(each for each in self._by_address[address] if each != key)
                if not others:
                    del self._by_address[address]
            self._namespaces[key.namespace] -= 1
            if not self._namespaces[key.namespace]:
                del self._namespaces[key.namespace]
        if service is None:
            return
        published = tuple(each for each in backends if each.ready)
        self._services[key] = known = _known(service, published, tuple(addresses))
        self._namespaces[key.namespace] = self._namespaces.get(key.namespace, 0) + 1
        for address in set(known.all_addresses()):
            self._by_address[address] = (*self._by_address.get(address, ()), key)

    def set_pods(self, pods: frozenset[tuple[str, str]]) -> None:
        """Take the namespaces and addresses of the node's pods."""
        self._pods = pods

    def is_below(self, name: str) -> bool:
        """Return whether a name belongs to the cluster; nobody else is ever asked for it."""
        return name == self.domain or name.endswith(self._suffix)

    def reverse(self, name: str) -> DnsAnswer | None:
        """Return the name of an address of a Service or of a headless endpoint; None for one of others.

        Anybody may write endpoints with the addresses of others. So a Service names its own address, then one of the
        namespace a pod of this node, then the oldest.
        """
        address = _reversed(name)
        keys = self._by_address.get(address) if address else None
        if not keys:
            return None
        key = min(keys, key=lambda each: self._rank(each, address))
        host = self._services[key].hosts.get(address)
        owner = f"{host}.{self._name_of(key)}" if host else self._name_of(key)
        return DnsAnswer(Code.NOERROR, (Record(name, Type.PTR, TTL, name_data(owner)),))

    def answer(self, name: str, type_: int, room: int = LARGEST) -> DnsAnswer:
        """Return the records of a name of the cluster.

        Args:
            name: in lower case.
            type_: a number of the protocol's.
            room: bytes for the records. Of an endless number, some are chosen by chance, and one more than fit at most.
        """
        answers: list[Record] = []
        owner, seen = name, 0
        while True:
            found = self._records(owner, type_, room)
            if found is None:
                return self._none(Code.NXDOMAIN, answers) if self.is_known else DnsAnswer(Code.SERVFAIL)
            records, alias, additional = found
            answers += records
            if not alias:
                return DnsAnswer(Code.NOERROR, tuple(answers), (), additional) if answers else self._none(Code.NOERROR)
            seen += 1
            if seen > MOST_ALIASES:
                return DnsAnswer(Code.SERVFAIL)
            if not self.is_below(alias) or type_ == Type.CNAME:
                return DnsAnswer(Code.NOERROR, tuple(answers))
            owner = alias

    def _none(self, code: Code, answers: Sequence[Record] = ()) -> DnsAnswer:
        soa = Record(self.domain, Type.SOA, TTL, soa_data(self.domain, self._serial, TTL))
        return DnsAnswer(code, tuple(answers), (soa,))

    def _records(self, name: str, type_: int, room: int) -> Found | None:
        """Return the records of a name, its alias and additional ones; None for a name that does not exist."""
        if name == self.domain:
            return self._apex(type_), "", ()
        labels = name[: -len(self._suffix)].split(".")
        if labels == ["dns-version"]:
            text = [Record(name, Type.TXT, TTL, text_data(VERSION))] if type_ == Type.TXT else []
            return text, "", ()
        match labels:
            case ["svc"] | ["pod"]:
                return [], "", ()
            case [namespace, "svc" | "pod"]:
                return ([], "", ()) if namespace in self._namespaces else None
            case [pod, namespace, "pod"]:
                return self._pod(name, pod, namespace, type_)
            case [*rest, service, namespace, "svc"]:
                return self._service(name, rest, ServiceKey(namespace, service), type_, room)
        return None

    def _apex(self, type_: int) -> list[Record]:
        if type_ == Type.SOA:
            return [Record(self.domain, Type.SOA, TTL, soa_data(self.domain, self._serial, TTL))]
        if type_ == Type.NS:
            return [Record(self.domain, Type.NS, TTL, name_data(f"ns.dns.{self.domain}"))]
        return []

    def _pod(self, name: str, pod: str, namespace: str, type_: int) -> Found | None:
        address = _dashed(pod)
        if not address or (namespace, address) not in self._pods:
            return None
        return _of_addresses(name, [address], type_), "", ()

    def _service(self, name: str, rest: Sequence[str], key: ServiceKey, type_: int, room: int) -> Found | None:
        found = self._services.get(key)
        if found is None:
            return None
        service = found.service
        if service.spec.type == "ExternalName":
            return None if rest else self._alias(name, service)
        if not any(found.by_version):
            return None
        match rest:
            case []:
                if type_ == Type.SRV:
                    return self._srv(name, key, found, "", "", room=room)
                addresses = found.by_version[_ADDRESS_TYPES[Type(type_)]] if type_ in _ADDRESS_TYPES else ()
                if is_headless(service):
                    addresses = self._some(addresses, room // _SMALLEST + 1)
                return _of_addresses(name, addresses, type_), "", ()
            case [port, protocol] if port.startswith("_") and protocol.startswith("_"):
                return self._srv(name, key, found, port[1:], protocol[1:], room=room, wanted=type_)
            case [host]:
                mine = found.by_host.get(host, ())
                return (_of_addresses(name, mine, type_), "", ()) if mine else None
        return None

    def _alias(self, name: str, service: Service) -> Found | None:
        target = service.spec.external_name.lower().rstrip(".")
        try:
            record = Record(name, Type.CNAME, TTL, name_data(target))
        except WireError:
            return None
        return ([record], target, ()) if target else None

    def _srv(
        self,
        name: str,
        key: ServiceKey,
        known: _Known,
        port: str,
        protocol: str,
        *,
        room: int,
        wanted: int = Type.SRV,
    ) -> Found | None:
        """Return SRV records: of one named port, or of all."""
        records: list[Record] = []
        extra: dict[tuple[str, str], Record] = {}
        owner = self._name_of(key)
        most = room // (_SMALLEST_SRV + len(owner)) + 1
        for each in known.service.spec.ports:
            if len(records) >= most:
                break
            if port and (each.name, each.protocol.lower()) != (port, protocol):
                continue
            if not is_headless(known.service):
                records.append(Record(name, Type.SRV, TTL, srv_data(each.port, owner)))
                for address in known.addresses:
                    extra[owner, address] = _of_address(owner, address)
                continue
            for backend in self._some(known.backends, most):
                if number := backend.port_for(each):
                    target = f"{host_of(backend)}.{owner}"
                    records.append(Record(name, Type.SRV, TTL, srv_data(number, target)))
                    extra[target, backend.address] = _of_address(target, backend.address)
        if not records and port:
            return None
        if wanted != Type.SRV:
            return [], "", ()
        return records, "", tuple(extra.values())

    def _some(self, items: Sequence[_Item], most: int) -> Sequence[_Item]:
        """Return items in an order of chance, a number of them at most."""
        return self._choice.sample(items, min(len(items), most))

    def _rank(self, key: ServiceKey, address: str) -> tuple[bool, bool, str, ServiceKey]:
        """Return the place among the Services with an address, the least of which gives it its name."""
        known = self._services[key]
        is_of_pod = (key.namespace, address) in self._pods
        return address not in known.addresses, not is_of_pod, known.service.metadata.creation_timestamp, key

    def _name_of(self, key: ServiceKey) -> str:
        return f"{key.name}.{key.namespace}.svc{self._suffix}"


def _known(service: Service, backends: tuple[MeshBackend, ...], addresses: tuple[str, ...]) -> _Known:
    if not is_headless(service):
        ipv6 = tuple(each for each in addresses if ":" in each)
        ipv4 = tuple(each for each in addresses if ":" not in each) if ipv6 else addresses
        named = [each for each in backends if each.hostname]
        return _Known(service, (), addresses, (ipv4, ipv6), _by_host(named) if named else _NOBODY, _NOBODY)
    hosts = {each.address: host_of(each) for each in backends}
    ipv4, ipv6 = (tuple(each for each in hosts if (":" in each) is is_6) for is_6 in (False, True))
    return _Known(service, backends, addresses, (ipv4, ipv6), _by_host(backends), hosts)


def _by_host(backends: Sequence[MeshBackend]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in backends:
        found.setdefault(host_of(each), []).append(each.address)
    return found


def host_of(backend: MeshBackend) -> str:
    """Return the label of an endpoint: its host name, or its address with dashes, but none at the end (as CoreDNS)."""
    label = backend.hostname.lower() or backend.address.replace(".", "-").replace(":", "-")
    return f"{label}0" if label.endswith("-") else label


def _of_addresses(name: str, addresses: Sequence[str], type_: int) -> list[Record]:
    version = _ADDRESS_TYPES.get(Type(type_)) if type_ in _ADDRESS_TYPES else None
    return [_of_address(name, each) for each in addresses if (":" in each) is version]


def _of_address(name: str, address: str) -> Record:
    return Record(name, Type.AAAA if ":" in address else Type.A, TTL, address_data(address))


def _dashed(label: str) -> str:
    """Return the address that a pod's label stands for; empty for another label."""
    for text in (label.replace("-", "."), label.replace("-", ":")):
        try:
            return str(ipaddress.ip_address(text))
        except ValueError:
            continue
    return ""


def _reversed(name: str) -> str:
    """Return the address whose name is asked for; empty for another name."""
    labels = name.split(".")
    try:
        match labels[-2:]:
            case ["in-addr", "arpa"] if len(labels) == 6:
                return str(ipaddress.IPv4Address(".".join(reversed(labels[:4]))))
            case ["ip6", "arpa"] if len(labels) == 34 and all(len(each) == 1 for each in labels[:32]):
                return str(ipaddress.IPv6Address(int("".join(reversed(labels[:32])), 16)))
    except ValueError:
        pass
    return ""
