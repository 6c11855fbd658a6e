"""The types of kubelet's stats/v1alpha1, the answer of `/stats/summary`. Amounts are bytes, nanoseconds or counts.

Unknown values are None and left out, as opposed to 0.
"""

from msgspec import field

from modules.apimachinery.types.base import KubeStruct
from modules.apimachinery.types.times import Time


class CpuStats(KubeStruct, frozen=True):
    """Processor time. `usage_nano_cores` is the average since the last measurement, in billionths of a core."""

    time: Time
    usage_nano_cores: int | None = None
    usage_core_nano_seconds: int | None = None


class MemoryStats(KubeStruct, frozen=True):
    """Memory. The working set cannot be reclaimed without harm: usage without inactive file pages."""

    time: Time
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None


class FsStats(KubeStruct, frozen=True):
    """A file system, or the usage of a part of it."""

    time: Time
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None
    inodes_free: int | None = None
    inodes: int | None = None
    inodes_used: int | None = None


class InterfaceStats(KubeStruct, frozen=True):
    """One network interface."""

    name: str
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None


class NetworkStats(KubeStruct, frozen=True):
    """All interfaces; the first fields are the default route's."""

    time: Time
    name: str = ""
    rx_bytes: int | None = None
    rx_errors: int | None = None
    tx_bytes: int | None = None
    tx_errors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class RlimitStats(KubeStruct, frozen=True):
    """Process ids of the machine."""

    time: Time
    maxpid: int | None = None
    curproc: int | None = None


class ProcessStats(KubeStruct, frozen=True):
    """Processes of a pod."""

    process_count: int | None = field(default=None, name="process_count")


class PvcRef(KubeStruct, frozen=True):
    """The claim of a volume."""

    name: str
    namespace: str


class VolumeStats(FsStats, frozen=True, kw_only=True):
    """One volume of a pod, with its usage of its file system."""

    name: str
    pvc_ref: PvcRef | None = None


class ContainerStats(KubeStruct, frozen=True):
    """One container: its writable layer is `rootfs`."""

    name: str
    start_time: Time | None = None
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None


class PodReference(KubeStruct, frozen=True):
    """Name, namespace and uid of a pod."""

    name: str
    namespace: str
    uid: str


class PodStats(KubeStruct, frozen=True):
    """One pod. `ephemeral_storage` is its whole usage of the node's disk: layers, logs, local volumes."""

    pod_ref: PodReference
    start_time: Time | None = None
    containers: tuple[ContainerStats, ...] = field(default_factory=tuple)
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeStats, ...] = ()
    ephemeral_storage: FsStats | None = field(default=None, name="ephemeral-storage")
    process_stats: ProcessStats | None = field(default=None, name="process_stats")


class RuntimeStats(KubeStruct, frozen=True):
    """File systems of the container runtime."""

    image_fs: FsStats | None = None
    container_fs: FsStats | None = None


class NodeStats(KubeStruct, frozen=True):
    """The node. Its system containers are `kubelet` (this process) and `pods` (all of them)."""

    node_name: str
    system_containers: tuple[ContainerStats, ...] = ()
    start_time: Time | None = None
    cpu: CpuStats | None = None
    memory: MemoryStats | None = None
    network: NetworkStats | None = None
    fs: FsStats | None = None
    runtime: RuntimeStats | None = None
    rlimit: RlimitStats | None = None


class Summary(KubeStruct, frozen=True):
    """The node and its pods."""

    node: NodeStats
    pods: tuple[PodStats, ...] = field(default_factory=tuple)
