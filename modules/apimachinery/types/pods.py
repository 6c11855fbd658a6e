"""Pod and its specification."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.containers import Container, EphemeralContainer, ResourceRequirements
from modules.apimachinery.types.meta import ListMeta, LocalObjectReference, ObjectMeta
from modules.apimachinery.types.pod_status import PodStatus
from modules.apimachinery.types.quantity import Quantity
from modules.apimachinery.types.scheduling import Affinity, PodOS
from modules.apimachinery.types.security import PodSecurityContext
from modules.apimachinery.types.volumes import Volume


class HostAlias(KubeStruct, frozen=True):
    """A line of the pod's /etc/hosts."""

    ip: str = field(default_factory=str)
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(KubeStruct, frozen=True):
    """An option of resolv.conf, with or without a value."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(KubeStruct, frozen=True):
    """Additions to the resolv.conf of the DNS policy."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class PodReadinessGate(KubeStruct, frozen=True):
    """An additional condition for Ready, set by others."""

    condition_type: str = field(default_factory=str)


class Toleration(KubeStruct, frozen=True):
    """Taints that do not repel this pod."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodSpec(KubeStruct, frozen=True):
    """The specification of a pod."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = field(default_factory=tuple)
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: dict[str, Quantity] = field(default_factory=dict)
    set_hostname_as_fqdn: bool | None = None
    host_users: bool | None = None
    resources: ResourceRequirements | None = None

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init, regular and ephemeral containers."""
        return (*self.init_containers, *self.containers, *self.ephemeral_containers)

    affinity: Affinity | None = None
    os: PodOS | None = None


class Pod(KubeStruct, frozen=True):
    """v1.Pod."""

    kind: str = ""
    api_version: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)


class PodList(KubeStruct, frozen=True):
    """v1.PodList."""

    kind: str = ""
    api_version: str = ""
    metadata: ListMeta = field(default_factory=ListMeta)
    items: tuple[Pod, ...] = field(default_factory=tuple)
