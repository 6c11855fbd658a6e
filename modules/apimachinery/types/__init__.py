"""Kubernetes types as edged reads and writes them: objects, quantities, times, and their JSON."""

from modules.apimachinery.types.base import KubeStruct, kube_name
from modules.apimachinery.types.codec import DecodeError, decode, encode, from_value, to_value
from modules.apimachinery.types.config import ConfigMap, Secret
from modules.apimachinery.types.containers import (
    ConfigMapEnvSource,
    ConfigMapKeySelector,
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerRestartRuleOnExitCodes,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    EphemeralContainer,
    ResourceRequirements,
    SecretEnvSource,
    SecretKeySelector,
    VolumeDevice,
    VolumeMount,
)
from modules.apimachinery.types.events import Event, EventSource
from modules.apimachinery.types.leases import Lease, LeaseSpec
from modules.apimachinery.types.meta import (
    DeleteOptions,
    ListMeta,
    LocalObjectReference,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    Preconditions,
    Status,
    StatusCause,
    StatusDetails,
)
from modules.apimachinery.types.nodes import (
    AttachedVolume,
    ContainerImage,
    DaemonEndpoint,
    Node,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeSpec,
    NodeStatus,
    NodeSystemInfo,
    Taint,
)
from modules.apimachinery.types.pod_status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    PodStatus,
    VolumeMountStatus,
)
from modules.apimachinery.types.pods import (
    HostAlias,
    Pod,
    PodDNSConfig,
    PodDNSConfigOption,
    PodList,
    PodReadinessGate,
    PodSpec,
    Toleration,
)
from modules.apimachinery.types.probes import (
    ExecAction,
    GRPCAction,
    HTTPGetAction,
    HTTPHeader,
    IntOrString,
    Lifecycle,
    LifecycleHandler,
    Probe,
    SleepAction,
    TCPSocketAction,
)
from modules.apimachinery.types.quantity import (
    Quantity,
    QuantityError,
    format_binary_quantity,
    format_quantity,
    milli_value,
    parse_quantity,
    whole_value,
)
from modules.apimachinery.types.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
    Sysctl,
)
from modules.apimachinery.types.times import (
    SECOND,
    MicroTime,
    Nanoseconds,
    Time,
    TimeError,
    format_micro_time,
    format_time,
    parse_time,
    seconds,
)
from modules.apimachinery.types.tokens import BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus
from modules.apimachinery.types.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    EphemeralVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    ResourceFieldSelector,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
