"""Kubernetes types as edged reads and writes them: objects, quantities, times, and their JSON."""

from edged.api.base import KubeStruct, kube_name
from edged.api.codec import DecodeError, decode, encode, from_value, to_value
from edged.api.config import ConfigMap, Secret
from edged.api.containers import (
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
from edged.api.events import Event, EventSource
from edged.api.leases import Lease, LeaseSpec
from edged.api.meta import (
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
from edged.api.nodes import (
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
from edged.api.pod_status import (
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
from edged.api.pods import (
    HostAlias,
    Pod,
    PodDNSConfig,
    PodDNSConfigOption,
    PodList,
    PodReadinessGate,
    PodSpec,
    Toleration,
)
from edged.api.probes import (
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
from edged.api.quantity import (
    Quantity,
    QuantityError,
    format_binary_quantity,
    format_quantity,
    milli_value,
    parse_quantity,
    whole_value,
)
from edged.api.security import (
    AppArmorProfile,
    Capabilities,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
    Sysctl,
)
from edged.api.times import (
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
from edged.api.tokens import BoundObjectReference, TokenRequest, TokenRequestSpec, TokenRequestStatus
from edged.api.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
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
