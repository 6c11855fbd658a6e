"""The questions of the node's owner to edgemesh (`edgecore services`, `edgecore resolve`), and the answers. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from modules.edge.edgemesh.backends import MeshBackend
from modules.edge.edgemesh.objects import Service, ServiceKey
from modules.edge.edgemesh.selection import EndpointSelector, Reason
from modules.edge.edgemesh.tables import Address, PortTable, cluster_ips, is_headless, is_moved, is_served

SERVICES: Final = "services"
"""Operation of the request for Services; the content is a `ServicesRequest`, the answer a `ServicesAnswer`."""
RESOLVE: Final = "resolve"
"""Operation of the request for a name; the content is a `ResolveRequest`, the answer a `NameAnswer`."""
RESOURCE: Final = "edgemesh/owner/services"
"""Resource of both."""

MOST_SHOWN: Final = 1000
"""Endpoints of a Service in an answer."""


class ServicesRequest(Struct, frozen=True):
    """Choice of Services."""

    namespace: str = ""
    """Empty for all."""
    name: str = ""
    """Empty for all."""


class ShownPort(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A port of a Service."""

    port: int
    protocol: str
    name: str = ""
    node_port: int = 0
    at: str = ""
    """Where programs of the node reach it, if not at the Service's address: the proxy's address and port."""


class ShownEndpoint(Struct, frozen=True, rename="camel"):
    """An endpoint of a Service."""

    address: str
    ports: tuple[int, ...]
    node: str
    pod: str
    ready: bool
    serving: bool
    terminating: bool
    used: bool
    reason: str
    """Why it is used or is not; for connections from outside after a semicolon, where that differs."""


class ShownService(Struct, frozen=True, rename="camel"):
    """A Service as the node sees it."""

    namespace: str
    name: str
    type: str
    addresses: tuple[str, ...]
    external: tuple[str, ...]
    ports: tuple[ShownPort, ...]
    carried_by: str
    """The data plane; empty where none carries its connections."""
    remark: str
    """Why none does."""
    number: int
    """The number of its endpoints; `endpoints` has the first ones."""
    used: int
    """Number of endpoints in use."""
    endpoints: tuple[ShownEndpoint, ...]


class ServicesAnswer(Struct, frozen=True, rename="camel"):
    """The Services of the node."""

    data_plane: str
    problem: str
    """Why connections are not carried; empty when they are."""
    is_known: bool
    """Whether the cloud has ever sent its Services."""
    services: tuple[ShownService, ...]


class ResolveRequest(Struct, frozen=True):
    """Name to resolve."""

    name: str
    namespace: str = "default"
    """Of the pod that would ask, for the search list."""
    type: str = ""
    """Of the records; empty for addresses."""


class NameAnswer(Struct, frozen=True):
    """The answer to a `ResolveRequest`."""

    error: str = ""
    """Why there is no owner: a sentence."""
    body: bytes = b""
    """A `dns.explaining.Resolution` in JSON."""


def shown(
    key: ServiceKey,
    service: Service,
    backends: Sequence[MeshBackend],
    selector: EndpointSelector,
    tables: Sequence[PortTable],
    plane: str,
    reach: Callable[[PortTable], Address | None],
) -> ShownService:
    """Return a Service as the node sees it.

    Args:
        key: of the Service.
        service: the Service.
        backends: its endpoints.
        selector: of the node.
        tables: of the Service.
        plane: what carries connections; empty if nothing does.
        reach: returns where programs of the node reach a port; None while nothing carries connections.
    """
    remark = _remark(service, plane)
    endpoints = [
        ShownEndpoint(
            each.address, tuple(dict.fromkeys(port.number for port in each.ports)), each.node, each.pod, each.ready,
            each.serving, each.terminating, _is_used(reason), reason,
        )
        for each, reason in zip(backends, _reasons(service, backends, selector), strict=True)
    ]  # fmt: skip
    return ShownService(
        namespace=key.namespace,
        name=key.name,
        type=service.spec.type,
        addresses=cluster_ips(service),
        external=tuple(dict.fromkeys(address for table in tables for address in table.external)),
        ports=tuple(_ports(service, tables, reach)),
        carried_by="" if remark else plane,
        remark=remark,
        number=len(endpoints),
        used=sum(each.used for each in endpoints),
        endpoints=tuple(endpoints[:MOST_SHOWN]),
    )


def _remark(service: Service, plane: str) -> str:
    if service.spec.type == "ExternalName":
        return f"it is another name of {service.spec.external_name[:300]}"
    if is_headless(service):
        return "it is headless: its name stands for its endpoints' addresses"
    if service.is_of_another_proxy:
        return "a label leaves it to another proxy"
    if not is_served(service):
        return "it has no address"
    return "" if plane else "nothing carries connections on this node"


def _ports(
    service: Service, tables: Sequence[PortTable], reach: Callable[[PortTable], Address | None]
) -> Iterator[ShownPort]:
    reached = {(each.port, each.protocol): (each, reach(each)) for each in reversed(tables)}
    for each in service.spec.ports:
        table, at = reached.get((each.port, each.protocol.lower()), (None, None))
        where = f"{at[0]}:{at[1]}" if table is not None and at is not None and is_moved(table, at) else ""
        yield ShownPort(each.port, each.protocol, each.name, table.node_port if table is not None else 0, where)


def _reasons(service: Service, backends: Sequence[MeshBackend], selector: EndpointSelector) -> list[str]:
    """Return for each endpoint why it is used or is not: by any port, and from outside where that differs."""
    if not is_served(service):
        return [_of_name(service, each, selector) for each in backends]
    inside = _of_ports(service, service.spec.internal_traffic_policy, backends, selector)
    is_outside = service.spec.type in ("NodePort", "LoadBalancer") or bool(service.spec.external_ips)
    if not is_outside:
        return [reason.value for reason in inside]
    outside = _of_ports(service, service.spec.external_traffic_policy, backends, selector)
    return [
        one.value if one is other else f"{one.value}; from outside: {other.value}"
        for one, other in zip(inside, outside, strict=True)
    ]


def _of_name(service: Service, backend: MeshBackend, selector: EndpointSelector) -> str:
    return (selector.excluded(service, backend) or (Reason.USED if backend.ready else Reason.NOT_READY)).value


def _of_ports(
    service: Service, policy: str, backends: Sequence[MeshBackend], selector: EndpointSelector
) -> list[Reason]:
    found = [Reason.NO_PORT] * len(backends)
    for port in service.spec.ports:
        for is_ipv6 in (False, True):
            places = [place for place, each in enumerate(backends) if each.is_ipv6 == is_ipv6 and each.port_for(port)]
            reasons = selector.reasons(service, policy, [backends[place] for place in places])
            for place, reason in zip(places, reasons, strict=True):
                if found[place] is not Reason.USED:
                    found[place] = reason
    return found


def _is_used(reason: str) -> bool:
    return reason.split(";", maxsplit=1)[0] == Reason.USED or reason.endswith(f": {Reason.USED}")
