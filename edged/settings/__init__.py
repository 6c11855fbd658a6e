"""Settings of edged. They have no form of a file: the process fills them from its configuration, tests directly."""

from functools import cache
from pathlib import Path

import msgspec

from edged.eviction_api.thresholds import DEFAULT_HARD, EvictionSettings, parse_thresholds
from edged.settings.cgroups import CgroupSettings
from edged.settings.gc import GcSettings
from modules.apimachinery.types import Taint


class PullLimits(msgspec.Struct, frozen=True):
    """Limits of image pulls."""

    parallel: int = 1
    """Largest number of running pulls; 0: no limit."""
    rate: float = 5.0
    """Pulls started per second, on average; 0: no limit."""
    burst: int = 10
    """Pulls that may start in a burst."""


class Group(msgspec.Struct, frozen=True, gc=False):
    """The pods from this priority up to the next group's, and their seconds to terminate at a shutdown (kubelet's
    ShutdownGracePeriodByPodPriority).
    """

    priority: int
    seconds: int


class EdgedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one edged."""

    node_name: str
    """Name of the node, as the cloud knows it (`hostnameOverride`)."""

    root: Path
    """Directory of pods and plug-ins (`rootDirectory`); made with mode 0750."""

    pod_logs: Path
    """Directory of container logs (`podLogsDir`)."""

    runtime_endpoint: str
    """CRI socket of the runtime service, `unix:///…`."""

    image_endpoint: str = ""
    """CRI socket of the image service; empty: the runtime's. Unlike in KubeEdge 2019 it is used when set."""

    request_timeout: float = 120.0
    """Seconds that a CRI call may take (`runtimeRequestTimeout`, KubeEdge's 2 minutes)."""

    register_node: bool = True
    """Whether the node registers itself (`registerNode`)."""

    register_schedulable: bool = True
    """Whether it registers as schedulable (`registerSchedulable`)."""

    node_ip: str = ""
    """Address to report; empty means the default route's."""

    node_labels: dict[str, str] = {}
    """Labels to register with, beside the standard ones (`nodeLabels`)."""

    node_taints: tuple[Taint, ...] = ()
    """Taints of a new node (`registerWithTaints`)."""

    max_pods: int = 110
    """Capacity `pods` (`maxPods`)."""

    event_rate: float = 50.0
    """Events a second that are stored and reported; 0: no limit (`eventRecordQPS`)."""

    event_burst: int = 100
    """Events in a burst (`eventBurst`)."""

    pulls: PullLimits = PullLimits()
    """How many images are pulled in parallel (`serializeImagePulls`, `maxParallelImagePulls`) and how often
    (`registryPullQPS`, `registryBurst`)."""

    node_status_max_images: int = 50
    """Images that the node reports, the largest; -1: all (`nodeStatusMaxImages`)."""

    workers: int = 4
    """Pods that are synced in parallel: 4 saturate two cores, and more only slow each other down."""

    relist_period: float = 1.0
    """Seconds between two relists of the runtime (a kubelet's PLEG period)."""

    relist_period_with_events: float = 10.0
    """Seconds between two relists while the runtime sends events and has not missed one (a kubelet with evented PLEG:
    300 s): a change without an event is noticed this late at most. 0: no events are requested."""

    resync_period: float = 60.0
    """Seconds after which a healthy pod is synced again, longer by up to a half (KubeEdge 2019)."""

    has_service_proxy: bool = False
    """Whether connections to the addresses of Services are answered on the node (`modules.edgeMesh`)."""

    has_stream_tunnel: bool = False
    """Whether the node dials a stream tunnel (`modules.edgeStream.enable`). The kubelet's port in the Node's status is
    then the cloud's to write: it is the cloud's port for streams of the node."""

    status_period: float = 10.0
    """Seconds after which statuses that the cloud has not acknowledged are sent again, and the node is inspected
    (`nodeStatusUpdateFrequency`)."""

    node_report_period: float = 3600.0
    """Seconds after which an unchanged node status is sent too (`nodeStatusReportFrequency`)."""

    lease_duration: int = 40
    """Seconds of the node's lease; it is renewed after 5/16 of it (`nodeLeaseDurationSeconds`)."""

    crash_loop_limit: float = 300.0
    """Upper limit in seconds of the back-off of a container that keeps ending
    (`crashLoopBackOff.maxContainerRestartPeriod`)."""

    gc: GcSettings = GcSettings()
    """Limits of dead containers, images and logs that are kept."""

    eviction: EvictionSettings = EvictionSettings(thresholds=parse_thresholds(DEFAULT_HARD))
    """Thresholds for evictions (`evictionHard`, `evictionSoft` and their settings)."""

    shutdown: tuple[Group, ...] = ()
    """Groups of pods that end when the machine shuts down, the lowest priority first; none: the shutdown does not wait
    for pods (`shutdownGracePeriod`, `shutdownGracePeriodCriticalPods`, `shutdownGracePeriodByPodPriority`)."""

    static_pods: Path | None = None
    """Directory of static pods (`staticPodPath`); None: no static pods."""

    cgroups: CgroupSettings = CgroupSettings()
    """Control groups of pods, and resources of the node that are reserved for others."""

    cpu_quota: bool = True
    """Whether CPU limits are enforced (`cpuCFSQuota`)."""

    cpu_quota_period: float = 0.1
    """Period, in seconds, of a container's share of a limited CPU (`cpuCFSQuotaPeriod`)."""

    seccomp_default: bool = False
    """Whether containers without a seccomp profile get the runtime's, and not none (`seccompDefault`)."""

    allowed_unsafe_sysctls: tuple[str, ...] = ()
    """Kernel parameters that pods may set beside the safe ones; `net.*` stands for all with this prefix
    (`allowedUnsafeSysctls`)."""

    cluster_dns: tuple[str, ...] = ()
    """Addresses of the cluster's DNS servers (`clusterDNS`)."""

    cluster_domain: str = "cluster.local"
    """Domain that is searched first (`clusterDomain`)."""

    resolv_conf: Path = Path("/etc/resolv.conf")
    """The node's resolver configuration (`resolvConf`)."""

    server_port: int = 10255
    """Its port (`readOnlyPort`); 0 means no server, as a kubelet's."""

    @property
    def owner(self) -> str:
        """Mark of the sandboxes that this agent makes: the absolute path of its root directory."""
        return _resolved(self.root)


@cache
def _resolved(root: Path) -> str:
    return str(root.resolve())
