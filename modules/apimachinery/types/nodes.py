"""The Node object that edged registers and reports."""

from types import NoneType

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.meta import ObjectMeta
from modules.apimachinery.types.quantity import Quantity
from modules.apimachinery.types.times import Time


class Taint(KubeStruct, frozen=True):
    """A property of the node that repels pods without a matching toleration."""

    key: str = field(default_factory=str)
    value: str = ""
    effect: str = field(default_factory=str)
    time_added: Time | None = None


class NodeSpec(KubeStruct, frozen=True):
    """The node's specification, set in the cloud."""

    pod_cidr: str = ""
    pod_cidrs: tuple[str, ...] = ()
    provider_id: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(KubeStruct, frozen=True):
    """One fact about the node that is True, False or Unknown."""

    type: str = field(default_factory=str)
    status: str = field(default_factory=str)
    last_heartbeat_time: Time | None = field(default_factory=NoneType)
    last_transition_time: Time | None = field(default_factory=NoneType)
    reason: str = ""
    message: str = ""


class NodeAddress(KubeStruct, frozen=True):
    """One address of the node: InternalIP, Hostname, …"""

    type: str = field(default_factory=str)
    address: str = field(default_factory=str)


class DaemonEndpoint(KubeStruct, frozen=True):
    """A port; capitalised on the wire."""

    port: int = field(default_factory=int, name="Port")


class NodeDaemonEndpoints(KubeStruct, frozen=True):
    """The port of the node's own server."""

    kubelet_endpoint: DaemonEndpoint = field(default_factory=DaemonEndpoint)


class NodeSystemInfo(KubeStruct, frozen=True):
    """Machine, kernel, runtime and agent."""

    machine_id: str = field(default_factory=str)
    system_uuid: str = field(default_factory=str)
    boot_id: str = field(default_factory=str)
    kernel_version: str = field(default_factory=str)
    os_image: str = field(default_factory=str)
    container_runtime_version: str = field(default_factory=str)
    kubelet_version: str = field(default_factory=str)
    kube_proxy_version: str = field(default_factory=str)
    operating_system: str = field(default_factory=str)
    architecture: str = field(default_factory=str)


class ContainerImage(KubeStruct, frozen=True):
    """An image on the node; `size_bytes` in bytes."""

    names: tuple[str, ...] = field(default_factory=tuple)
    size_bytes: int = 0


class AttachedVolume(KubeStruct, frozen=True):
    """A volume attached to the node."""

    name: str = field(default_factory=str)
    device_path: str = field(default_factory=str)


class NodeRuntimeHandlerFeatures(KubeStruct, frozen=True):
    """The features of a runtime handler."""

    recursive_read_only_mounts: bool | None = None
    user_namespaces: bool | None = None


class NodeRuntimeHandler(KubeStruct, frozen=True):
    """A handler of the container runtime; the default one has no name."""

    name: str = field(default_factory=str)
    features: NodeRuntimeHandlerFeatures = field(default_factory=NodeRuntimeHandlerFeatures)


class NodeStatus(KubeStruct, frozen=True):
    """The status that the node reports."""

    capacity: dict[str, Quantity] = field(default_factory=dict)
    allocatable: dict[str, Quantity] = field(default_factory=dict)
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = field(default_factory=NodeDaemonEndpoints)
    node_info: NodeSystemInfo = field(default_factory=NodeSystemInfo)
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    runtime_handlers: tuple[NodeRuntimeHandler, ...] = ()


class Node(KubeStruct, frozen=True):
    """v1.Node."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)
