"""The tables of a node: for each port of a Service, where connections go. Pure.

The kernel's rules and the proxy's listeners are made from them, so that both do the same.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from beehive.decoding import msgpack_decoder
from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.edge.edgemesh.backends import MeshBackend
from modules.edge.edgemesh.objects import Service, ServicePort
from modules.edge.edgemesh.selection import LOCAL, EndpointSelection, EndpointSelector

NO_ADDRESS: Final = "None"
"""`clusterIP` of a headless Service."""

_CLIENT_IP: Final = "ClientIP"
_AFFINITY_SECONDS: Final = 10_800
_MOST_AFFINITY: Final = 86_400
_MOST_PORTS: Final = 100
_MOST_ADDRESSES: Final = 32
_LARGEST_PORT: Final = 65535

Address = tuple[str, int]
"""An IP address and a port."""
_Claim = tuple[str, int, str, bool]
"""An external address, empty for a node port, with the port, the protocol, and whether it is of IPv6."""


class MeshTarget(Struct, frozen=True, gc=False):
    """Target of new connections: `target_to` makes one."""

    packed: bytes = b""
    """The endpoints, in a tenth of the memory that they take as objects; empty for none."""
    drops: bool = False
    """Whether, without endpoints, packets are dropped instead of refused: others have endpoints."""

    @property
    def endpoints(self) -> tuple[Address, ...]:
        """The addresses; each gets as many connections."""
        return _unpacked(self.packed) if self.packed else ()


_packed = msgspec.msgpack.Encoder().encode
_unpacked = msgpack_decoder(tuple[Address, ...]).decode
NOWHERE: Final = MeshTarget()


def target_to(endpoints: tuple[Address, ...], *, drops: bool = False) -> MeshTarget:
    """Return the target of some endpoints."""
    return MeshTarget(_packed(endpoints) if endpoints else b"", drops) if endpoints or drops else NOWHERE


class PortTable(NamedTuple):
    """A port of a Service, in one IP version."""

    namespace: str
    service: str
    name: str
    """Name of the port; empty where it is the only one."""
    protocol: str
    """`tcp` or `udp`."""
    port: int
    is_ipv6: bool
    addresses: tuple[str, ...]
    """ClusterIPs; with the type ClusterIP there is one for each IP version."""
    external: tuple[str, ...]
    """External addresses, and addresses of load balancers."""
    node_port: int
    """0 without one."""
    affinity: int
    """Seconds that a client keeps its endpoint; 0: no affinity."""
    inside: MeshTarget
    """For connections to the ClusterIPs."""
    outside: MeshTarget
    """For connections to the node port and the external addresses."""
    keeps_source: bool
    """Whether connections from outside keep their source address (externalTrafficPolicy Local)."""
    serving: frozenset[Address]
    """Endpoints that clients of UDP may still have, ready or not."""
    created: str = ""
    """When the Service was created, in RFC 3339."""

    @property
    def age(self) -> tuple[str, str, str]:
        """The least one of Services that claim the same is the oldest, which has it."""
        return self.created, self.namespace, self.service

    @property
    def key(self) -> str:
        """Its identity among all of the node."""
        return f"{self.namespace}/{self.service}/{self.port}/{self.protocol}/{6 if self.is_ipv6 else 4}"


def port_tables(service: Service, backends: Sequence[MeshBackend], selector: EndpointSelector) -> Iterator[PortTable]:
    """Yield the tables of a Service: none without a ClusterIP, or where another proxy serves it."""
    if not is_served(service):
        return
    spec = service.spec
    clusters = cluster_ips(service)
    balancers = (each.ip for each in service.status.load_balancer.ingress if each.ip_mode != "Proxy")
    claimed = map(endpoint_address, (*spec.external_ips[:_MOST_ADDRESSES], *islice(balancers, _MOST_ADDRESSES)))
    external = [each for each in claimed if each and each not in selector.machines]
    for version in (False, True):
        addresses = tuple(each for each in clusters if (":" in each) == version)
        if not addresses:
            continue
        outer = tuple(dict.fromkeys(each for each in external if (":" in each) == version))
        family = [each for each in backends if each.is_ipv6 == version]
        for port in _ports(service):
            yield _table(service, port, addresses, outer, family, selector)


def without_taken(tables: Iterable[PortTable]) -> dict[str, PortTable]:
    """Return the tables by key, each without the external addresses and the node port that an older Service has for the
    same port, even if that has no endpoints now: no Service of another namespace gets its connections meanwhile.
    """
    found = {each.key: each for each in tables}
    claiming = [(key, each) for key, each in found.items() if each.external or each.node_port]
    holders: dict[_Claim, tuple[str, str, str]] = {}
    for _, each in claiming:
        for claim in _claims(each):
            holders[claim] = min(holders.get(claim, each.age), each.age)
    for key, each in claiming:
        had = [claim[:2] for claim in _claims(each) if holders[claim] == each.age]
        external = tuple(address for address, _ in had if address)
        node_port = next((number for address, number in had if not address), 0)
        if (external, node_port) != (each.external, each.node_port):
            found[key] = each._replace(external=external, node_port=node_port)
    return found


def is_served(service: Service) -> bool:
    """Return whether a Service has an address and is this proxy's."""
    return (
        service.spec.type != "ExternalName"
        and service.spec.cluster_ip not in ("", NO_ADDRESS)
        and not service.is_of_another_proxy
    )


def cluster_ips(service: Service) -> tuple[str, ...]:
    """Return the ClusterIPs of a Service, one for each IP version at most; none for a headless one."""
    spec = service.spec
    if spec.type == "ExternalName":
        return ()
    found: dict[bool, str] = {}
    for text in spec.cluster_ips[:2] or (spec.cluster_ip,):
        if address := endpoint_address(text):
            found.setdefault(":" in address, address)
    return tuple(found.values())


def is_moved(table: PortTable, at: Address | None) -> bool:
    """Return whether programs of the node reach a port elsewhere than at the Service's address."""
    return at is not None and at != (table.addresses[0], table.port)


def as_reached(
    service: Service, tables: Sequence[PortTable], reach: Callable[[PortTable], Address | None]
) -> tuple[Service, tuple[str, ...]]:
    """Return the Service with the ports that programs of the node reach, and the addresses that go with them.

    Args:
        service: the Service.
        tables: of its ports.
        reach: returns where a port is reached; None while nothing carries connections.
    """
    ends = [(each, at) for each in tables if (at := reach(each)) is not None]
    moved = {(each.port, each.protocol): at[1] for each, at in ends if is_moved(each, at)}
    if not moved:
        return service, cluster_ips(service)
    ports = tuple(
        replace(each, port=moved.get((each.port, each.protocol.lower()), each.port)) for each in service.spec.ports
    )
    addresses = tuple(dict.fromkeys(at[0] for _, at in ends))
    return replace(service, spec=replace(service.spec, ports=ports)), addresses


def is_headless(service: Service) -> bool:
    """Return whether a Service has no ClusterIP, and its names lead to its endpoints."""
    return service.spec.cluster_ip == NO_ADDRESS and service.spec.type != "ExternalName"


def _ports(service: Service) -> Iterable[ServicePort]:
    ports = {(each.port, each.protocol): each for each in service.spec.ports[:_MOST_PORTS]}
    return (
        each
        for each in ports.values()
        if each.protocol in ("TCP", "UDP") and 0 < each.port <= _LARGEST_PORT and 0 <= each.node_port <= _LARGEST_PORT
    )


def _table(
    service: Service,
    port: ServicePort,
    addresses: tuple[str, ...],
    external: tuple[str, ...],
    backends: Sequence[MeshBackend],
    selector: EndpointSelector,
) -> PortTable:
    spec = service.spec
    having = [each for each in backends if each.port_for(port)]
    inside = selector.select(service, spec.internal_traffic_policy, having)
    keeps_source = spec.external_traffic_policy == LOCAL
    is_outside, is_udp = bool(external or port.node_port), port.protocol == "UDP"
    outside = selector.select(service, spec.external_traffic_policy, having) if is_outside else EndpointSelection(())
    return PortTable(
        namespace=service.metadata.namespace,
        service=service.metadata.name,
        name=port.name,
        protocol=port.protocol.lower(),
        port=port.port,
        is_ipv6=":" in addresses[0],
        addresses=addresses,
        external=external,
        node_port=port.node_port if spec.type in ("NodePort", "LoadBalancer") else 0,
        affinity=_affinity(service),
        inside=_target(inside, port),
        outside=_target(outside, port),
        keeps_source=keeps_source,
        serving=frozenset((each.address, each.port_for(port)) for each in having if each.serving and is_udp),
        created=service.metadata.creation_timestamp,
    )


def _claims(table: PortTable) -> Iterator[_Claim]:
    """Yield what only one Service can have: external addresses with the port, and a node port."""
    for address in table.external:
        yield address, table.port, table.protocol, table.is_ipv6
    if table.node_port:
        yield "", table.node_port, table.protocol, table.is_ipv6


def _target(selection: EndpointSelection, port: ServicePort) -> MeshTarget:
    endpoints = {(each.address, each.port_for(port)) for each in selection.backends}
    return target_to(tuple(sorted(endpoints)), drops=selection.drops)


def _affinity(service: Service) -> int:
    if service.spec.session_affinity != _CLIENT_IP:
        return 0
    config = service.spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else None
    return min(max(seconds or _AFFINITY_SECONDS, 1), _MOST_AFFINITY)
