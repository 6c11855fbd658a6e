"""Environment variables of Services in containers, as kubelets set them (`pkg/kubelet/envvars/envvars.go`)."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from edged.errors import ConfigError
from modules.edge.edgemesh.objects import Service, ServiceKey
from modules.edge.edgemesh.tables import Address, PortTable, cluster_ips

WAIT_SECONDS: Final = 10.0
"""Longest wait of a container's start for the Services of the node's store; then it is tried again later."""
API_SERVER: Final = ServiceKey("default", "kubernetes")
"""The Service of the API server, whose variables the containers of all namespaces have."""
_OF_CLIENTS: Final = "KUBERNETES_SERVICE_"
"""How its variables begin. Clients of the API server read these; of `KUBERNETES_PORT` and its likes KubeEdge's
edgemesh-agent concludes that it is in the cloud.
"""

Reach = Callable[[PortTable], Address | None]
"""Returns where programs of the node reach a port; None where nothing carries connections."""


class ServiceLinks:
    """The Services of the node, for the threads that start containers. edgemesh's thread opens it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._services: Mapping[ServiceKey, Service] = {}
        self._tables: Mapping[ServiceKey, Sequence[PortTable]] = {}
        self._reach: Reach = lambda _table: None

    def open(
        self, services: Mapping[ServiceKey, Service], tables: Mapping[ServiceKey, Sequence[PortTable]], reach: Reach
    ) -> None:
        """Give variables from now on; edgemesh goes on to change the mappings, which other threads copy."""
        self._services, self._tables, self._reach = services, tables, reach
        self._ready.set()

    def variables(self, namespace: str, enabled: bool = True) -> dict[str, str]:
        """Return the variables of a namespace's Services, and of the API server's. Blocks; any thread.

        Args:
            namespace: of the pod.
            enabled: its `enableServiceLinks`; without it only the API server's.

        Raises:
            ConfigError: the store is not read yet.
        """
        if not self._ready.wait(WAIT_SECONDS):
            raise ConfigError("set the variables of Services", namespace, "they are not read yet", retryable=True)
        services, tables = self._services, self._tables
        found = dict(api_server_variables(services.get(API_SERVER), tables.get(API_SERVER, ()), self._reach))
        for key, service in sorted(services.items(), key=lambda each: each[0]):
            if enabled and key.namespace == namespace and key != API_SERVER:
                found.update(variables(service, tables.get(key, ()), self._reach))
        return found


def api_server_variables(
    service: Service | None, tables: Sequence[PortTable], reach: Reach
) -> Iterator[tuple[str, str]]:
    """Yield the variables that lead clients to the API server, if it has endpoints. Pure.

    Args:
        service: the Service `kubernetes`, or None.
        tables: of its ports.
        reach: where programs of the node reach them. Where that is not the ClusterIP, it is an endpoint itself: other
            addresses are not in the API server's certificate.
    """
    if service is None or not any(each.inside.packed for each in tables):
        return

    def certified(table: PortTable) -> Address | None:
        found = reach(table)
        is_own = not table.inside.packed or (found is not None and found[0] in table.addresses)
        return found if is_own else table.inside.endpoints[0]

    yield from (each for each in variables(service, tables, certified) if each[0].startswith(_OF_CLIENTS))


def variables(service: Service, tables: Sequence[PortTable], reach: Reach) -> Iterator[tuple[str, str]]:
    """Yield the variables of a Service: none of one without an address or without ports. Pure.

    Args:
        service: the Service.
        tables: of its ports.
        reach: where programs of the node reach them.
    """
    addresses, ports = cluster_ips(service), service.spec.ports
    if not addresses or not ports:
        return
    reached = {
        (each.port, each.protocol): at
        for each in tables
        if each.is_ipv6 == (":" in addresses[0]) and (at := reach(each)) is not None
    }
    prefix = _name(service.metadata.name)
    ends = [(each, *reached.get((each.port, each.protocol.lower()), (addresses[0], each.port))) for each in ports]
    yield f"{prefix}_SERVICE_HOST", ends[0][1]
    yield f"{prefix}_SERVICE_PORT", str(ends[0][2])
    for port, _, number in ends:
        if port.name:
            yield f"{prefix}_SERVICE_PORT_{_name(port.name)}", str(number)
    for place, (port, host, number) in enumerate(ends):
        protocol = port.protocol or "TCP"
        url = f"{protocol.lower()}://{f'[{host}]' if ':' in host else host}:{number}"
        if not place:
            yield f"{prefix}_PORT", url
        one = f"{prefix}_PORT_{port.port}_{protocol.upper()}"
        yield one, url
        yield f"{one}_PROTO", protocol.lower()
        yield f"{one}_PORT", str(number)
        yield f"{one}_ADDR", host


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
