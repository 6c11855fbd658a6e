"""The Service `kubernetes` in the namespace `default`, which leads pods to the API server, with its Endpoints and
EndpointSlice (kube-apiserver 1.32, `pkg/controlplane/controller/kubernetesservice` and `pkg/controlplane/reconcilers`).
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.reconciler import Attempt, OwnChanges
from modules.cloud.apiserver.service_addresses import API_SERVER, FAMILY, ServiceRanges, api_server_address
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_log = logging.getLogger(__name__)

_NAMESPACE, _NAME = API_SERVER
_PORT: Final = 443
_PORT_NAME: Final = "https"
_LABELS: Final = {"component": "apiserver", "provider": "kubernetes"}
_KEYS: Final = tuple(ObjectKey(kind, _NAMESPACE, _NAME) for kind in ("Service", "Endpoints", "EndpointSlice"))
_DOMAIN: Final = "cluster.local"


class KubernetesService(NamedTuple):
    """Addresses at which pods reach the API server."""

    cluster_ip: str
    """The first address of the range of Services."""
    family: str
    addresses: tuple[str, ...]
    """Of the cloud."""
    port: int
    """There, of the Kubernetes API over HTTPS."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the API server's certificate needs."""
        within = (_NAME, f"{_NAME}.{_NAMESPACE}", f"{_NAME}.{_NAMESPACE}.svc", f"{_NAME}.{_NAMESPACE}.svc.{_DOMAIN}")
        return (*within, self.cluster_ip)


def kubernetes_service(names: Iterable[str], port: int, ranges: ServiceRanges) -> KubernetesService | None:
    """Return where pods reach an API server; None where none of its addresses leads to it from other machines.

    Args:
        names: addresses and DNS names of the cloud.
        port: of the Kubernetes API over HTTPS.
        ranges: of the addresses of Services; the first one decides on the family.
    """
    family = next(iter(ranges.networks))
    addresses = tuple(dict.fromkeys(name for name in names if _is_reachable(name, family)))
    return KubernetesService(api_server_address(ranges), family, addresses, port) if addresses else None


def _may_lack_service(event: ObjectEvent) -> bool:
    """Return whether the Service, or where it leads, was deleted by a change."""
    return event.type is EventType.DELETED and event.key in _KEYS


def keep_kubernetes_service(cluster: Cluster, service: KubernetesService | None, *, repairs: bool) -> None:
    """Make the missing objects.

    Args:
        cluster: the objects.
        service: where pods reach the API server; None: nowhere; a Service of an earlier start is deleted.
        repairs: whether what leads elsewhere is changed. With several cloudcores the last to start does it.
    """
    if service is None:
        found = cluster.storage.find(_KEYS[0])
        if repairs and found is not None and _LABELS.items() <= (found["metadata"].get("labels") or {}).items():
            for key in _KEYS:
                if cluster.storage.find(key) is not None:
                    cluster.delete(key)
        return
    for wanted in _objects(service):
        live = cluster.storage.find(key_of(wanted))
        if live is None:
            cluster.create(wanted)
        elif repairs:
            own = {**live, **{name: value for name, value in wanted.items() if name not in ("metadata", "spec")}}
            if "spec" in wanted:
                own["spec"] = {**live["spec"], "ports": wanted["spec"]["ports"]}
            if own != live:
                cluster.replace(own)


class KubernetesServiceReconciler(OwnChanges):
    """The reconciler that makes the missing objects; at the start it also changes what leads elsewhere.

    Args:
        cluster: the objects.
        service: where pods reach the API server; None: nowhere.
    """

    def __init__(self, cluster: Cluster, service: KubernetesService | None) -> None:
        super().__init__("kubernetes-service", [key.kind for key in _KEYS], _may_lack_service, self._keep)
        self._cluster = cluster
        self._service = service
        self._repairs = True
        self._problem = ""
        """Why the objects could not be made last."""

    def reset(self) -> None:
        """Have the objects made, and changed if they lead elsewhere: that may have been undone."""
        super().reset()
        self._repairs = True

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:
        """Make the Service, unless another Service has its address."""
        try:
            has_rest = super().reconcile(attempt, is_turn=is_turn)
        except ApiError as error:
            if str(error) != self._problem:
                _log.warning("pods do not reach the API server by the Service kubernetes: %s", error)
            self._problem = str(error)
            return False
        self._problem = ""
        return has_rest

    def overdue(self) -> Callable[[], None] | None:
        """Have the objects made that could not be made before: what was in their way may be gone."""
        return self.reset if self._problem else None

    def _keep(self) -> None:
        keep_kubernetes_service(self._cluster, self._service, repairs=self._repairs)
        self._repairs = False


def _objects(service: KubernetesService) -> Iterator[JsonObject]:
    port = {"name": _PORT_NAME, "port": service.port, "protocol": "TCP"}
    metadata = {"name": _NAME, "namespace": _NAMESPACE}
    yield {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {**metadata, "labels": {**_LABELS}},
        "spec": {
            "clusterIP": service.cluster_ip,
            "ports": [{"name": _PORT_NAME, "port": _PORT, "protocol": "TCP", "targetPort": service.port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    }
    yield {
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {**metadata, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address} for address in service.addresses], "ports": [port]}],
    }
    yield {
        "kind": "EndpointSlice",
        "apiVersion": "discovery.k8s.io/v1",
        "metadata": {**metadata, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": service.family,
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in service.addresses],
        "ports": [port],
    }


def _is_reachable(name: str, family: str) -> bool:
    """Return whether a name is an address of a family that may lead others to a machine."""
    try:
        address = ip_address(name)
    except ValueError:
        return False
    unusable = address.is_loopback or address.is_unspecified or address.is_link_local or address.is_multicast
    return FAMILY[address.version] == family and not unusable
