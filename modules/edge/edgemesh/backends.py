"""The endpoints of a Service, from the cloud's slices and from the node's own pods. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.apimachinery.pods.node_conditions import is_ready
from modules.apimachinery.pods.objects import ENDED
from modules.apimachinery.types import Container, Pod
from modules.edge.edgemesh.objects import EndpointPort, Endpoints, EndpointSlice, Service, ServicePort, SliceEndpoint

MOST_BACKENDS: Final = 10_000
"""Endpoints of one Service that are used; more are left out."""

_PROTOCOLS: Final = frozenset({"TCP", "UDP"})
EVERY: Final = "*"
"""In place of a node group: the endpoint is for every node that has heard of it."""
_LARGEST_PORT: Final = 65535


class BackendPort(NamedTuple):
    """A port of a backend."""

    name: str
    protocol: str
    number: int


class MeshBackend(NamedTuple):
    """An endpoint with one address.

    Unlike an EndpointSlice's it has its ports, because pods with one name of a port may have different numbers.
    """

    address: str
    """In the canonical form of its family."""
    ports: tuple[BackendPort, ...]
    node: str = ""
    """Name of its node; empty when it is not on one, or nobody knows."""
    hostname: str = ""
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    zone: str = ""
    zones: tuple[str, ...] = ()
    """Zones that should use it, by a hint; empty without one."""
    nodes: tuple[str, ...] = ()
    """Nodes that should use it, by a hint."""
    pod: str = ""
    """Name of its pod."""
    group: str = ""
    """Its node group as the cloud knows it; EVERY if the cloud sends it only to nodes that should use it, as KubeEdge's
    does with Endpoints."""

    @property
    def is_ipv6(self) -> bool:
        """Whether the address is one of IPv6."""
        return ":" in self.address

    def port_for(self, port: ServicePort) -> int:
        """Return the number of the port that serves a Service's port; 0 without one."""
        for each in self.ports:
            if each.name == port.name and each.protocol == port.protocol:
                return each.number
        return 0


def backends_of_slices(slices: Iterable[EndpointSlice]) -> Iterator[MeshBackend]:
    """Yield the endpoints of slices. Malformed addresses, and names instead of addresses, are left out."""
    for each in slices:
        if each.address_type not in ("IPv4", "IPv6"):
            continue
        ports = _ports(each.ports)
        for endpoint in each.endpoints:
            address = endpoint_address(endpoint.addresses[0]) if endpoint.addresses else ""
            if address and (":" in address) == (each.address_type == "IPv6"):
                yield _of_slice(endpoint, address, ports, each.metadata.labels.group)


def _of_slice(endpoint: SliceEndpoint, address: str, ports: tuple[BackendPort, ...], group: str) -> MeshBackend:
    conditions, hints, target = endpoint.conditions, endpoint.hints, endpoint.target_ref
    ready = conditions.ready is not False
    return MeshBackend(
        address=address,
        ports=ports,
        node=endpoint.node_name or "",
        hostname=endpoint.hostname or "",
        ready=ready,
        serving=ready if conditions.serving is None else conditions.serving,
        terminating=conditions.terminating is True,
        zone=endpoint.zone or "",
        zones=tuple(each.name for each in hints.for_zones) if hints else (),
        nodes=tuple(each.name for each in hints.for_nodes) if hints else (),
        pod=target.name if target is not None and target.kind == "Pod" else "",
        group=group,
    )


def backends_of_endpoints(endpoints: Endpoints) -> Iterator[MeshBackend]:
    """Yield the addresses of Endpoints."""
    for subset in endpoints.subsets:
        ports = _ports(subset.ports)
        for addresses, ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
            for each in addresses:
                if address := endpoint_address(each.ip):
                    pod = each.target_ref.name if each.target_ref is not None else ""
                    node = each.node_name or ""
                    yield MeshBackend(
                        address, ports, node, each.hostname, ready=ready, serving=ready, pod=pod, group=EVERY
                    )


def backends_of_pods(service: Service, pods: Iterable[Pod], *, node: str, zone: str = "") -> Iterator[MeshBackend]:
    """Yield the pods of this node that a Service selects, as the cloud's EndpointSlice controller would.

    Args:
        service: with a selector.
        pods: of this node, with the statuses that edged last computed.
        node: name of the node.
        zone: of the node.
    """
    for pod in pods:
        if not selects(service, pod) or pod.status.phase in ENDED:
            continue
        serving = is_ready(pod.status)
        terminating = pod.metadata.deletion_timestamp is not None
        ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
        ports = ports_of_pod(service, pod)
        hostname = pod.spec.hostname if pod.spec.hostname and pod.spec.subdomain == service.metadata.name else ""
        for text in addresses_of_pod(pod):
            if address := endpoint_address(text):
                yield MeshBackend(
                    address, ports, node, hostname, ready, serving, terminating, zone, pod=pod.metadata.name
                )


def backends_of_other_nodes(service: Service, pods: Iterable[Pod], node: str) -> Iterator[MeshBackend]:
    """Yield the pods of other nodes that a cloud of 2019 lists for a Service: at the address of their node, if they are
    on its network or have a port of it.
    """
    for pod in pods:
        address = endpoint_address(pod.status.host_ip)
        if pod.spec.node_name == node or not address or pod.status.phase in ENDED:
            continue
        bound = {
            (each.container_port, each.protocol or "TCP"): each.host_port
            for container in pod.spec.containers
            for each in container.ports
            if each.host_port
        }
        ports = ports_of_pod(service, pod)
        if not pod.spec.host_network:
            ports = tuple(
                each._replace(number=bound[each.number, each.protocol])
                for each in ports
                if (each.number, each.protocol) in bound
            )
        serving = is_ready(pod.status)
        terminating = pod.metadata.deletion_timestamp is not None
        if ports:
            yield MeshBackend(
                address, ports, pod.spec.node_name, "", serving and not terminating, serving, terminating,
                pod=pod.metadata.name,
            )  # fmt: skip


def selects(service: Service, pod: Pod) -> bool:
    """Return whether a Service selects a pod: one with a selector, in its namespace, with all its labels."""
    selector, labels = service.spec.selector, pod.metadata.labels
    return (
        bool(selector)
        and pod.metadata.namespace == service.metadata.namespace
        and all(labels.get(key) == value for key, value in selector.items())
    )


def ports_of_pod(service: Service, pod: Pod) -> tuple[BackendPort, ...]:
    """Return the ports of a pod that serve a Service's ports; a named one may have another number in each pod."""
    found = ((each, _target(each, pod)) for each in service.spec.ports if each.protocol in _PROTOCOLS)
    return tuple(BackendPort(each.name, each.protocol, number) for each, number in found if number)


def addresses_of_pod(pod: Pod) -> Sequence[str]:
    """Return the addresses of a pod: the node's, if it is on the node's network."""
    return [each.ip for each in pod.status.pod_ips] or ([pod.status.pod_ip] if pod.status.pod_ip else [])


def _target(port: ServicePort, pod: Pod) -> int:
    target = port.target_port
    if target is None or target in (0, ""):
        return _number(port.port)
    if isinstance(target, int):
        return _number(target)
    for container in (*pod.spec.containers, *_sidecars(pod)):
        for each in container.ports:
            if each.name == target and (each.protocol or "TCP") == port.protocol:
                return _number(each.container_port)
    return 0


def _sidecars(pod: Pod) -> Iterator[Container]:
    return (each for each in pod.spec.init_containers if each.restart_policy == "Always")


def _ports(ports: Iterable[EndpointPort]) -> tuple[BackendPort, ...]:
    known = (
        BackendPort(each.name or "", each.protocol or "TCP", _number(each.port or 0))
        for each in ports
        if (each.protocol or "TCP") in _PROTOCOLS
    )
    return tuple(each for each in known if each.number)


def _number(port: int) -> int:
    return port if 0 < port <= _LARGEST_PORT else 0
