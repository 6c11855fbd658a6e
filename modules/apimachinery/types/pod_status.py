"""The status of a pod: phase, conditions, and the state of each container."""

from types import NoneType

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.times import Time


class ContainerStateWaiting(KubeStruct, frozen=True):
    """Waiting for its start or restart, with the reason."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(KubeStruct, frozen=True):
    """Running since a point in time."""

    started_at: Time | None = field(default_factory=NoneType)


class ContainerStateTerminated(KubeStruct, frozen=True):
    """Ended, with exit code, reason and time."""

    exit_code: int = field(default_factory=int)
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = field(default_factory=NoneType)
    finished_at: Time | None = field(default_factory=NoneType)
    container_id: str = ""


class ContainerState(KubeStruct, frozen=True):
    """Exactly one state is set; none means waiting without a reason."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(KubeStruct, frozen=True):
    """The mount of a volume in a container."""

    name: str = field(default_factory=str)
    mount_path: str = field(default_factory=str)
    read_only: bool = False
    recursive_read_only: str | None = None


class ContainerStatus(KubeStruct, frozen=True):
    """The current and the last state of one container."""

    name: str = field(default_factory=str)
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)
    ready: bool = field(default_factory=bool)
    restart_count: int = field(default_factory=int)
    image: str = field(default_factory=str)
    image_id: str = field(default_factory=str)
    container_id: str = ""
    started: bool | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] = ()


class PodCondition(KubeStruct, frozen=True):
    """One condition of a pod: True, False or Unknown."""

    type: str = field(default_factory=str)
    observed_generation: int = 0
    status: str = field(default_factory=str)
    last_probe_time: Time | None = field(default_factory=NoneType)
    last_transition_time: Time | None = field(default_factory=NoneType)
    reason: str = ""
    message: str = ""


class PodIP(KubeStruct, frozen=True):
    """One address of a pod."""

    ip: str = field(default_factory=str)


class HostIP(KubeStruct, frozen=True):
    """One address of the node."""

    ip: str = field(default_factory=str)


class PodStatus(KubeStruct, frozen=True):
    """The whole status of a pod, as kubectl shows it."""

    observed_generation: int = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: tuple[HostIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
