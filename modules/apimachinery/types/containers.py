"""The specification of a container: image, command, environment, resources, mounts."""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.probes import Lifecycle, Probe
from modules.apimachinery.types.quantity import Quantity
from modules.apimachinery.types.security import SecurityContext
from modules.apimachinery.types.volumes import ObjectFieldSelector, ResourceFieldSelector


class ContainerPort(KubeStruct, frozen=True):
    """A port of the container, and the node's port it is bound to when `host_port` is not 0."""

    name: str = ""
    host_port: int = 0
    container_port: int = field(default_factory=int)
    protocol: str = ""
    host_ip: str = ""


class ConfigMapKeySelector(KubeStruct, frozen=True):
    """One key of a configmap."""

    name: str = ""
    key: str = field(default_factory=str)
    optional: bool | None = None


class SecretKeySelector(KubeStruct, frozen=True):
    """One key of a secret."""

    name: str = ""
    key: str = field(default_factory=str)
    optional: bool | None = None


class EnvVarSource(KubeStruct, frozen=True):
    """The source of a variable's value: exactly one is set."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: ConfigMapKeySelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(KubeStruct, frozen=True):
    """A variable with a value of its own or from a source."""

    name: str = field(default_factory=str)
    value: str = ""
    value_from: EnvVarSource | None = None


class ConfigMapEnvSource(KubeStruct, frozen=True):
    """All keys of a configmap as variables."""

    name: str = ""
    optional: bool | None = None


class SecretEnvSource(KubeStruct, frozen=True):
    """All keys of a secret as variables."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(KubeStruct, frozen=True):
    """All keys of an object as variables, each with a prefix."""

    prefix: str = ""
    config_map_ref: ConfigMapEnvSource | None = None
    secret_ref: SecretEnvSource | None = None


class ResourceRequirements(KubeStruct, frozen=True):
    """The limits and requests of a container."""

    limits: dict[str, Quantity] = field(default_factory=dict)
    requests: dict[str, Quantity] = field(default_factory=dict)


class VolumeMount(KubeStruct, frozen=True):
    """The mount of a volume in the container."""

    name: str = field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: str = field(default_factory=str)
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(KubeStruct, frozen=True):
    """The path of a block volume in the container."""

    name: str = field(default_factory=str)
    device_path: str = field(default_factory=str)


class ContainerRestartRuleOnExitCodes(KubeStruct, frozen=True):
    """The exit codes of a rule: those listed (`In`), or all others (`NotIn`)."""

    operator: str = field(default_factory=str)
    values: tuple[int, ...] = ()


class ContainerRestartRule(KubeStruct, frozen=True):
    """The action when a container ends with a matching exit code; the only action on one container is `Restart`."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class Container(KubeStruct, frozen=True):
    """A container of a pod. `restart_policy` overrides the pod's (Kubernetes since 1.34); an init container with
    `Always` is a sidecar.
    """

    name: str = field(default_factory=str)
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = field(default_factory=ResourceRequirements)
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False


class EphemeralContainer(Container, frozen=True):
    """A container that is added to a running pod. The API server refuses probes, hooks, ports and resources of it."""

    target_container_name: str = ""
