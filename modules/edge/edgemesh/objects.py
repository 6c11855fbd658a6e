"""Services, EndpointSlices and Endpoints, as far as the node reads them."""

from typing import Final

from msgspec import Struct, field

from modules.apimachinery.types.base import KubeStruct

NODE_GROUP_LABEL: Final = "apps.kubeedge.io/belonging-to"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
NODE_GROUP_TOPOLOGY: Final = "range-nodegroup"
"""Value of the annotation of the topology: only endpoints of the same node group."""


class MeshLabels(Struct, frozen=True, omit_defaults=True, gc=False):
    """The labels that the node reads; the others take no memory."""

    service: str = field(default="", name="kubernetes.io/service-name")
    """Of an EndpointSlice: the name of its Service."""
    group: str = field(default="", name=NODE_GROUP_LABEL)
    """Of an EndpointSlice: the node group of its endpoints, where the Service keeps to node groups."""
    proxy: str | None = field(default=None, name="service.kubernetes.io/service-proxy-name")
    """Of a Service: it is another proxy's, as with Kubernetes' own."""
    edgemesh_proxy: str | None = field(default=None, name="service.edgemesh.kubeedge.io/service-proxy-name")
    """The same for KubeEdge's EdgeMesh."""
    headless: str | None = field(default=None, name="service.kubernetes.io/headless")
    """Of a Service: no proxy carries it, as with Kubernetes' own; its cluster IP may be there for other uses."""


class MeshAnnotations(Struct, frozen=True, omit_defaults=True, gc=False):
    """The annotations that the node reads; the others, such as the last applied manifest, take no memory."""

    topology: str = field(default="", name="apps.kubeedge.io/service-topology")


class MeshMeta(KubeStruct, frozen=True):
    """The metadata that the node reads."""

    name: str = ""
    namespace: str = ""
    creation_timestamp: str = ""
    labels: MeshLabels = MeshLabels()
    annotations: MeshAnnotations = MeshAnnotations()


class ServicePort(KubeStruct, frozen=True):
    """A port of a Service."""

    name: str = ""
    protocol: str = "TCP"
    port: int = 0
    target_port: int | str | None = None
    node_port: int = 0


class ClientIpConfig(KubeStruct, frozen=True):
    """Time for which a client keeps its endpoint, in seconds."""

    timeout_seconds: int | None = None


class SessionAffinityConfig(KubeStruct, frozen=True):
    """Settings of the session affinity."""

    client_ip: ClientIpConfig | None = None


class ServiceSpec(KubeStruct, frozen=True):
    """The specification of a Service."""

    type: str = "ClusterIP"
    cluster_ip: str = ""
    cluster_ips: tuple[str, ...] = ()
    ports: tuple[ServicePort, ...] = ()
    selector: dict[str, str] = field(default_factory=dict)
    session_affinity: str = ""
    session_affinity_config: SessionAffinityConfig | None = None
    external_ips: tuple[str, ...] = ()
    external_name: str = ""
    external_traffic_policy: str = ""
    internal_traffic_policy: str = ""
    publish_not_ready_addresses: bool = False
    traffic_distribution: str = ""


class Ingress(KubeStruct, frozen=True):
    """An address of a load balancer."""

    ip: str = ""
    ip_mode: str = ""
    """`Proxy`: packets for the address must pass the load balancer, also from inside (KEP-1860)."""


class LoadBalancerStatus(KubeStruct, frozen=True):
    """The addresses of a load balancer."""

    ingress: tuple[Ingress, ...] = ()


class ServiceStatus(KubeStruct, frozen=True):
    """The status of a Service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(KubeStruct, frozen=True):
    """A Service."""

    metadata: MeshMeta = MeshMeta()
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def is_of_another_proxy(self) -> bool:
        """Whether a label leaves it to another proxy, or to none."""
        labels = self.metadata.labels
        return any(each is not None for each in (labels.proxy, labels.edgemesh_proxy, labels.headless))


class EndpointPort(KubeStruct, frozen=True):
    """A port of all endpoints of a slice; without a number none is served."""

    name: str | None = None
    protocol: str | None = None
    port: int | None = None


class Conditions(KubeStruct, frozen=True):
    """Conditions of an endpoint; None means unknown: ready, serving and not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Hint(KubeStruct, frozen=True):
    """A zone or node that should use an endpoint."""

    name: str = ""


class Hints(KubeStruct, frozen=True):
    """The zones and nodes that should use an endpoint."""

    for_zones: tuple[Hint, ...] = ()
    for_nodes: tuple[Hint, ...] = ()


class TargetRef(KubeStruct, frozen=True):
    """The object behind an endpoint."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class SliceEndpoint(KubeStruct, frozen=True):
    """An endpoint of a slice."""

    addresses: tuple[str, ...] = ()
    conditions: Conditions = Conditions()
    hostname: str | None = None
    node_name: str | None = None
    zone: str | None = None
    hints: Hints | None = None
    target_ref: TargetRef | None = None


class EndpointSlice(KubeStruct, frozen=True):
    """A part of the endpoints of a Service."""

    metadata: MeshMeta = MeshMeta()
    address_type: str = ""
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()

    @property
    def service(self) -> str:
        """Name of its Service; empty for a slice without one."""
        return self.metadata.labels.service


class EndpointAddress(KubeStruct, frozen=True):
    """An address of Endpoints."""

    ip: str = ""
    hostname: str = ""
    node_name: str | None = None
    target_ref: TargetRef | None = None


class EndpointSubset(KubeStruct, frozen=True):
    """Addresses of Endpoints that have the same ports."""

    addresses: tuple[EndpointAddress, ...] = ()
    not_ready_addresses: tuple[EndpointAddress, ...] = ()
    ports: tuple[EndpointPort, ...] = ()


class Endpoints(KubeStruct, frozen=True):
    """The endpoints of the Service of the same name, as clouds sent them before there were slices."""

    metadata: MeshMeta = MeshMeta()
    subsets: tuple[EndpointSubset, ...] = ()


class ServiceKey(Struct, frozen=True, order=True, gc=False):
    """Namespace and name of a Service."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
