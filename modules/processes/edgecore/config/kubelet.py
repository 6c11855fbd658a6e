"""Settings that KubeEdge took over from the kubelet (`modules.edged.tailoredKubeletConfig`).

Names and defaults are from `KubeletConfiguration` as KubeEdge tailored it. Keys that this edged does not use are in
`without_effect`.
"""

from pathlib import Path
from typing import Annotated, Final

from msgspec import field

from edged.eviction_api.signals import Signal
from edged.eviction_api.thresholds import DEFAULT_HARD
from edged.settings.cgroups import CgroupDriver
from edged.settings.pod_cidrs import parse_pod_cidrs
from modules.apimachinery.types import Taint
from modules.processes.common.durations import format_duration
from modules.processes.edgecore.config.names import (
    CGROUP,
    DNS_DOMAIN,
    ENFORCED,
    IMAGE_ENDPOINT,
    IP_ADDRESS,
    LABEL_KEY,
    LABEL_VALUE,
    OPTIONAL_PATH,
    QUANTITY,
    RESOURCE,
    RUNTIME_ENDPOINT,
    SYSCTL_PATTERN,
)
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import (
    AbsolutePath,
    Choice,
    Duration,
    Size,
    Switch,
    Text,
    TextList,
    TextMap,
    UnfitError,
    ValueKind,
    Whole,
    shown,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FIELDS = {"key", "value", "effect"}


class Taints(ValueKind[tuple[Taint, ...]]):
    """A list of mappings with key, optional value, and effect, as in a Node's spec."""

    def __init__(self, most: int) -> None:
        """`most` is the largest number of taints."""
        self.most = most

    @property
    def expected(self) -> str:
        """The form of a taint."""
        return f"a list of at most {self.most} taints, each with key, value and effect ({', '.join(EFFECTS)})"

    def read(self, value: object) -> tuple[Taint, ...]:
        """Read a list; every taint is checked, and no key may have an effect twice (the API server would refuse the
        node).
        """
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        taints = tuple(map(_read, value))
        if len({(taint.key, taint.effect) for taint in taints}) < len(taints):
            raise UnfitError("a key has the same effect twice")
        return taints

    def write(self, setting: tuple[Taint, ...]) -> object:
        """Return a list."""
        return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in setting]


def _read(entry: object) -> Taint:
    if not isinstance(entry, dict) or not {"key", "effect"} <= set(entry) <= _FIELDS:
        raise UnfitError(shown(entry))
    key, value, effect = entry["key"], entry.get("value"), entry["effect"]
    if effect not in EFFECTS:
        raise UnfitError(f"{shown(effect)} is no effect")
    return Taint(key=LABEL_KEY.read(key), value=LABEL_VALUE.read("" if value is None else value), effect=effect)


_PRIORITY = "priority"
_SECONDS = "shutdownGracePeriodSeconds"


class PriorityPeriods(ValueKind[dict[int, int]]):
    """A list of priorities with their seconds, which becomes a mapping."""

    priority = Whole("", -(2**31), 2**31 - 1)
    seconds = Whole("seconds", 0, 86_400)

    def __init__(self, most: int) -> None:
        """`most` is the largest number of entries."""
        self.most = most

    @property
    def expected(self) -> str:
        """The form of an entry."""
        return f"a list of at most {self.most}, each with {_PRIORITY} and {_SECONDS} (0 to {self.seconds.high})"

    def read(self, value: object) -> dict[int, int]:
        """Read a list; every entry is checked, and no priority may occur twice."""
        if not isinstance(value, list) or len(value) > self.most:
            raise UnfitError
        found: dict[int, int] = {}
        for entry in value:
            if not isinstance(entry, dict) or set(entry) != {_PRIORITY, _SECONDS}:
                raise UnfitError(shown(entry))
            priority = self.priority.read(entry[_PRIORITY])
            if priority in found:
                raise UnfitError(f"the priority {priority} comes twice")
            found[priority] = self.seconds.read(entry[_SECONDS])
        return found

    def write(self, setting: dict[int, int]) -> object:
        """Return a list."""
        return [{_PRIORITY: priority, _SECONDS: seconds} for priority, seconds in setting.items()]


class PodCidrs(ValueKind[tuple[str, ...]]):
    """Ranges of addresses for pods, at most one of each IP version, with a comma between them."""

    @property
    def expected(self) -> str:
        """The form of the text."""
        return "a range such as 10.86.0.0/16, an IPv4 and an IPv6 range with a comma between them, or empty"

    def read(self, value: object) -> tuple[str, ...]:
        """Read a text; a range must be one of addresses that pods can have."""
        if not isinstance(value, str):
            raise UnfitError
        if not value:
            return ()
        try:
            return parse_pod_cidrs(value)
        except ValueError as error:
            raise UnfitError(str(error)) from None

    def write(self, setting: tuple[str, ...]) -> object:
        """Return a text."""
        return ",".join(setting)


SIGNAL: Final = Text(f"one of {', '.join(Signal)}", "|".join(signal.replace(".", r"\.") for signal in Signal))

THRESHOLD: Final = Text(
    "an amount such as 500Mi or a percentage such as 10%",
    r"[0-9]{1,3}(?:\.[0-9]{1,6})?%|[0-9]+(?:\.[0-9]+)?(?:k|[MGTPE]|[KMGTPE]i)?",
    most=32,
)


class DurationMap(ValueKind[dict[str, float]]):
    """A mapping from text to durations, which become seconds."""

    def __init__(self, key: ValueKind[str], most: int) -> None:
        """`most` is the largest number of entries."""
        self.key, self.most = key, most
        self.value = Duration(0.0, 24 * 3600.0)

    @property
    def expected(self) -> str:
        """Descriptions of key and value."""
        return f"a mapping from {self.key.expected} to {self.value.expected}"

    def read(self, value: object) -> dict[str, float]:
        """Read a mapping; every entry is checked."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise UnfitError
        try:
            return {self.key.read(name): self.value.read(entry) for name, entry in value.items()}
        except UnfitError as error:
            raise UnfitError(str(error) or shown(str(value))) from None

    def write(self, setting: dict[str, float]) -> object:
        """Return a mapping."""
        return {name: format_duration(seconds) for name, seconds in setting.items()}


_DAY = 24 * 3600.0


class CrashLoopBackOff(Section, frozen=True, kw_only=True):
    """Back-off of a container that keeps failing."""

    max_container_restart_period: Annotated[float, Duration(1.0, 300.0)] = 300.0
    """Upper bound of the back-off, which begins at 10 s (or at this, when it is less) and doubles. The
    kubelet's default and bounds."""


class TailoredKubeletConfig(Section, frozen=True, kw_only=True):
    """The kubelet's configuration."""

    address: Annotated[str, IP_ADDRESS] = "127.0.0.1"
    """Address of the read-only server. It asks for no credentials, so leave it on the loopback interface."""

    allowed_unsafe_sysctls: Annotated[tuple[str, ...], TextList(SYSCTL_PATTERN, 64)] = ()
    """Kernel parameters that pods may set beside the safe ones; `*` at the end stands for any end."""

    cgroup_driver: Annotated[CgroupDriver, Choice(CgroupDriver, "it must be the container runtime's too")] = (
        CgroupDriver.CGROUPFS
    )
    """Who makes control groups: edgecore itself, or systemd. It must be the container runtime's too."""

    cgroup_root: Annotated[str, CGROUP] = ""
    """Parent of the pods' cgroup (`kubepods`). Default empty: the top. Two agents on one machine need two of them."""

    cgroups_per_qos: Annotated[bool, Switch()] = field(default=True, name="cgroupsPerQOS")
    """Whether classes and pods have cgroups of their own. Where they cannot be made, pods run without, and the log has
    the reason."""

    cluster_dns: Annotated[tuple[str, ...], TextList(IP_ADDRESS, 3)] = field(default=(), name="clusterDNS")
    """Name servers of pods with dnsPolicy ClusterFirst. Default none: they get the host's, as on any KubeEdge node
    without edgemesh."""

    cluster_domain: Annotated[str, DNS_DOMAIN] = "cluster.local"
    """Domain in which pods with dnsPolicy ClusterFirst look names up, beside the host's own. Used with clusterDNS."""

    container_log_max_files: Annotated[int, Whole("files", 2, 10_000)] = 5
    """Most files of a container's log, the open one included."""

    container_log_max_size: Annotated[int, Size(0, 1 << 40)] = 10 << 20
    """Size above which a container's log is rotated. Rotated files are compressed, except for the newest. 0: never."""

    container_log_monitor_interval: Annotated[float, Duration(3.0, _DAY)] = 10.0
    """Time between two checks of the sizes of logs."""

    container_runtime_endpoint: Annotated[str, RUNTIME_ENDPOINT] = "unix:///run/containerd/containerd.sock"
    """Socket of the container runtime (CRI). The runtimes `embedded://oci`, `embedded://docker` and `embedded://`
    (plain processes, no isolation) are inside edgecore."""

    cpu_cfs_quota: Annotated[bool, Switch()] = field(default=True, name="cpuCFSQuota")
    """Whether CPU limits are enforced."""

    cpu_cfs_quota_period: Annotated[float, Duration(0.001, 1.0)] = field(default=0.1, name="cpuCFSQuotaPeriod")
    """Time during which a container gets its share of a limited CPU."""

    crash_loop_back_off: CrashLoopBackOff = CrashLoopBackOff()
    """Back-off of failing containers."""

    event_burst: Annotated[int, Whole("events", 1, 100_000)] = 100
    """Events in a burst, before eventRecordQPS holds them back."""

    event_record_qps: Annotated[int, Whole("events a second", 0, 100_000)] = field(default=50, name="eventRecordQPS")
    """Most events a second that are stored and reported. 0: no limit, as with the kubelet."""

    enforce_node_allocatable: Annotated[tuple[str, ...], TextList(ENFORCED, 3)] = ("pods",)
    """Whose share of the node is enforced by cgroups: `pods`, and `kube-reserved` and `system-reserved` when
    their cgroups are named."""

    enable_debugging_handlers: Annotated[bool, Switch()] = True
    """Whether logs of containers, `/runningpods` and `/configz` are served, and exec, attach and port-forward on the
    socket. Off: they answer that they are, as a kubelet's do."""

    eviction_hard: Annotated[dict[str, str], TextMap(SIGNAL, THRESHOLD, 6)] = field(
        default_factory=lambda: dict(DEFAULT_HARD)
    )
    """Resources that must be left on the node: below a threshold pods are ended immediately, one after the other. The
    reserve is not allocatable. This key replaces all defaults; `0%` switches a signal off."""

    eviction_max_pod_grace_period: Annotated[int, Whole("seconds", 0, 86_400)] = 0
    """Longest time that a pod gets to end when a soft threshold is met."""

    eviction_minimum_reclaim: Annotated[dict[str, str], TextMap(SIGNAL, THRESHOLD, 6)] = field(default_factory=dict)
    """How much beyond a threshold must be reclaimed. Default nothing."""

    eviction_pressure_transition_period: Annotated[float, Duration(0.0, _DAY)] = 300.0
    """How long the node still reports pressure that is over."""

    eviction_soft: Annotated[dict[str, str], TextMap(SIGNAL, THRESHOLD, 6)] = field(default_factory=dict)
    """Resources that should be left: below a threshold for longer than evictionSoftGracePeriod, pods are ended with
    their grace period. Default nothing."""

    eviction_soft_grace_period: Annotated[dict[str, float], DurationMap(SIGNAL, 6)] = field(default_factory=dict)
    """How long each soft threshold must be met before pods are ended."""

    image_gc_high_threshold_percent: Annotated[int, Whole("percent", 0, 100)] = field(
        default=85, name="imageGCHighThresholdPercent"
    )
    """Usage of the images' file system above which unused images are removed. 100: never."""

    image_gc_low_threshold_percent: Annotated[int, Whole("percent", 0, 100)] = field(
        default=80, name="imageGCLowThresholdPercent"
    )
    """Usage at which their removal ends."""

    image_maximum_gc_age: Annotated[float, Duration(0.0, 365 * _DAY)] = field(default=0.0, name="imageMaximumGCAge")
    """Time without use after which an image is removed although there is room. 0s: never."""

    image_minimum_gc_age: Annotated[float, Duration(0.0, 365 * _DAY)] = field(default=120.0, name="imageMinimumGCAge")
    """How long an image stays after it was first seen: it may have been pulled to be used."""

    image_service_endpoint: Annotated[str, IMAGE_ENDPOINT] = ""
    """Socket of the image service. Default empty: the same as containerRuntimeEndpoint, as with the kubelet; KubeEdge's
    default is containerd's socket."""

    kube_reserved: Annotated[dict[str, str], TextMap(RESOURCE, QUANTITY, 16)] = field(default_factory=dict)
    """Resources reserved for edgecore and the container runtime; they are not allocatable. Default nothing."""

    kube_reserved_cgroup: Annotated[str, CGROUP] = ""
    """Their cgroup, when enforceNodeAllocatable says kube-reserved. It must exist."""

    max_parallel_image_pulls: Annotated[int, Whole("pulls", 0, 1000)] = 0
    """Most images that are pulled at a time when serializeImagePulls is false. 0: no limit."""

    max_pods: Annotated[int, Whole("pods", 0, 10_000)] = 110
    """Most pods on this node, which it reports as its capacity."""

    node_lease_duration_seconds: Annotated[int, Whole("seconds", 1, 3600)] = 40
    """How long the node's lease is valid. It is renewed after 5/16 of this. The cloud marks a node NotReady that has
    not renewed for its --node-monitor-grace-period (40 s): more than 100 here needs more there."""

    node_status_max_images: Annotated[int, Whole("images", -1, 100_000)] = 50
    """Images that the node's status names, the largest. -1: all. KubeEdge's own file has 0, none."""

    node_status_report_frequency: Annotated[float, Duration(1.0, _DAY)] = 3600.0
    """Time after which the node's status is sent although nothing changed; a change is sent immediately. The cloud
    answers each report with the whole node. KubeEdge's default is 5m0s."""

    node_status_update_frequency: Annotated[float, Duration(1.0, 3600.0)] = 10.0
    """Time between two checks of the node's own status."""

    pod_cidr: Annotated[tuple[str, ...], PodCidrs()] = field(default=(), name="podCIDR")
    """Addresses of pods, with embedded://oci and embedded://docker: of edgecore's own network, and `ipRanges` for a CNI
    configuration with this capability. Default empty: 10.86.0.0/16, or as in the CNI configuration. Remove the pods
    before you change it."""

    pod_logs_dir: Annotated[Path, AbsolutePath()] = Path("/var/log/pods")
    """Directory of the containers' logs, `<namespace>_<name>_<uid>/<container>/<attempt>.log` below it. The directory
    `containers` beside it has a link to each log, `<name>_<namespace>_<container>-<id>.log`, as collectors of logs
    expect it."""

    pod_pids_limit: Annotated[int, Whole("processes", -1, 4_194_304)] = -1
    """Most processes of a pod. -1: no limit but the machine's."""

    read_only_port: Annotated[int, Whole("", 0, 65_535)] = 10255
    """TCP port of the read-only server (`/pods`, `/healthz`, `/metrics`, logs of containers). 0: none. Default the
    kubelet's; KubeEdge's 10350 is also the port of its cloud's tunnel."""

    register_node: Annotated[bool, Switch()] = True
    """Whether edgecore creates its Node object in the cloud."""

    register_with_taints: Annotated[tuple[Taint, ...], Taints(64)] = ()
    """Taints of a Node that edgecore creates. An existing Node keeps its own, as with the kubelet."""

    registry_burst: Annotated[int, Whole("pulls", 1, 100_000)] = 10
    """Pulls in a burst, before registryPullQPS holds them back."""

    registry_pull_qps: Annotated[int, Whole("pulls a second", 0, 100_000)] = field(default=5, name="registryPullQPS")
    """Most pulls that begin a second. Further pulls wait; with the kubelet they fail. 0: no limit."""

    resolv_conf: Annotated[Path, AbsolutePath()] = Path("/etc/resolv.conf")
    """The host's resolver configuration, which pods' own is made from. In place of servers that only the host reaches
    (127.0.0.53), pods off its network get those of systemd-resolved or NetworkManager.
    """

    runtime_request_timeout: Annotated[float, Duration(1.0, 3600.0)] = 120.0
    """Deadline of a call to the container runtime, except for image pulls."""

    seccomp_default: Annotated[bool, Switch()] = False
    """Whether containers that name no seccomp profile get the container runtime's, instead of none."""

    streaming_connection_idle_timeout: Annotated[float, Duration(1.0, 7 * _DAY)] = 4 * 3600.0
    """Idle time that ends exec, attach and port-forward. The runtime has a limit of its own."""

    serialize_image_pulls: Annotated[bool, Switch()] = True
    """Whether images are pulled one after the other. false: up to maxParallelImagePulls at a time."""

    sync_frequency: Annotated[float, Duration(1.0, 3600.0)] = 60.0
    """Longest time between two syncs of a pod; a changed configmap whose message was missed reaches its volume this
    late at most."""

    shutdown_grace_period: Annotated[float, Duration(0.0, _DAY)] = 0.0
    """How long a shutdown of the machine waits until the pods have ended (systemd's logind; its InhibitDelayMaxSec must
    be as long). Without logind SIGPWR begins it. 0s: no wait, and pods run again after a reboot; pods that were ended
    in time stay Failed, as with the kubelet."""

    shutdown_grace_period_by_pod_priority: Annotated[dict[int, int], PriorityPeriods(32)] = field(default_factory=dict)
    """Grace periods by the lowest priority of the pods that get them, lowest first; replaces the two other keys."""

    shutdown_grace_period_critical_pods: Annotated[float, Duration(0.0, _DAY)] = 0.0
    """Part of shutdownGracePeriod that is kept for components of the system, which end last."""

    static_pod_path: Annotated[str, OPTIONAL_PATH] = "/etc/kubeedge/manifests"
    """Directory of static pods: each YAML or JSON file in it is a pod that this node runs, cloud or no cloud. It is
    read every second and need not exist. Empty: no static pods."""

    system_reserved: Annotated[dict[str, str], TextMap(RESOURCE, QUANTITY, 16)] = field(default_factory=dict)
    """Resources reserved for the system; they are not allocatable. Default nothing."""

    system_reserved_cgroup: Annotated[str, CGROUP] = ""
    """Its cgroup, when enforceNodeAllocatable says system-reserved. It must exist."""
