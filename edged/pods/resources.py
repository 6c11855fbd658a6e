"""Requests and limits as the kernel takes them: shares, quota, memory limit, and who dies first."""

from msgspec import Struct

from edged.api import Container, Pod, ResourceRequirements, milli_value, whole_value
from edged.pods.qos import QosClass, qos_class
from edged.pods.restart import is_sidecar
from protos.cri.v1 import api_pb2 as cri

SMALLEST_SHARES = 2
"""The weight of what asks for no CPU."""

_PERIOD_US = 100_000
_SMALLEST_QUOTA_US = 1_000
_LARGEST_QUOTA_US = 2**63 - 1
_LARGEST_SHARES = 262_144
_GUARANTEED_ADJUST = -997
_BEST_EFFORT_ADJUST = 1000
_NODE_CRITICAL = 2_000_000_000
_STATIC_SOURCES = frozenset({"file", "http"})


class Machine(Struct, frozen=True, gc=False):
    """What resources depend on.

    Attributes:
        memory: bytes of memory of the node.
        smallest_oom_adjust: the lowest oom_score_adj that this process may give a container: its own when it lacks
            CAP_SYS_RESOURCE, None when it may give any. Asking for less makes every container fail.
        cfs_quota: whether CPU limits are enforced (`cpuCFSQuota`).
        cfs_period: microseconds in which a limited container gets its share (`cpuCFSQuotaPeriod`).
        masked_paths: what of this machine's own /sys no container may read: how its processors are throttled tells of
            the other containers' work.
    """

    memory: int
    smallest_oom_adjust: int | None = None
    cfs_quota: bool = True
    cfs_period: int = _PERIOD_US
    masked_paths: tuple[str, ...] = ()


def linux_resources(pod: Pod, container: Container, machine: Machine) -> cri.LinuxContainerResources:
    """The resources of one container (kubelet's calculateLinuxResources)."""
    limits, requests = container.resources.limits, container.resources.requests
    cpu_limit, memory_limit = milli_value(limits.get("cpu", 0)), whole_value(limits.get("memory", 0))
    cpu_request = milli_value(requests.get("cpu", 0)) if "cpu" in requests else cpu_limit
    resources = cri.LinuxContainerResources(
        cpu_shares=cpu_shares(cpu_request),
        memory_limit_in_bytes=memory_limit,
        oom_score_adj=oom_score_adjust(pod, container, machine),
    )
    if machine.cfs_quota and cpu_limit:
        resources.cpu_period = machine.cfs_period
        resources.cpu_quota = cpu_quota(cpu_limit, machine.cfs_period)
    resources.hugepage_limits.extend(_huge_pages(container))
    return resources


def cpu_shares(milli_cpu: int) -> int:
    """The weight of so many thousandths of a CPU among all: 1024 for one, never less than 2
    (MilliCPUToShares).
    """
    return min(max(milli_cpu * 1024 // 1000, SMALLEST_SHARES), _LARGEST_SHARES)


def cpu_quota(milli_cpu: int, period: int) -> int:
    """Microseconds of so many thousandths of a CPU in a period of so many; 0 for none, never less than the kernel
    takes (MilliCPUToQuota), nor more than CRI's number holds.
    """
    return min(max(milli_cpu * period // 1000, _SMALLEST_QUOTA_US), _LARGEST_QUOTA_US) if milli_cpu else 0


def oom_score_adjust(pod: Pod, container: Container, machine: Machine) -> int:
    """Who is killed when memory ends: −997 the last, 1000 the first (kubelet's GetContainerOOMScoreAdjust).

    Between them, a burstable container is the safer the more memory it asks for; a sidecar is at least as safe as the
    least safe of the containers that need it. Never below what the kernel lets this process give.
    """
    wanted = _wanted_adjust(pod, container, machine)
    return wanted if machine.smallest_oom_adjust is None else max(wanted, machine.smallest_oom_adjust)


def _wanted_adjust(pod: Pod, container: Container, machine: Machine) -> int:
    qos = qos_class(pod)
    if qos is QosClass.GUARANTEED or _is_node_critical(pod):
        return _GUARANTEED_ADJUST
    if qos is QosClass.BEST_EFFORT:
        return _BEST_EFFORT_ADJUST
    request = _memory_request(pod, container)
    if is_sidecar(container) and pod.spec.containers:
        request = max(request, min(_memory_request(pod, regular) for regular in pod.spec.containers))
    share = 1000 * request // max(machine.memory, 1)
    return min(max(1000 - share, 1000 + _GUARANTEED_ADJUST), _BEST_EFFORT_ADJUST - 1)


def _memory_request(pod: Pod, container: Container) -> int:
    """Bytes that a container is promised: its own request, and its part of what the pod asks for beyond its
    containers (a kubelet shares that out evenly).
    """
    own = _asked_memory(container.resources)
    whole = pod.spec.resources
    if whole is None or not _asked_memory(whole):
        return own
    everyone = [c for c in pod.spec.init_containers if is_sidecar(c)] + list(pod.spec.containers)
    rest = _asked_memory(whole) - sum(_asked_memory(c.resources) for c in everyone)
    return own + max(0, rest) // max(1, len(everyone))


def _asked_memory(resources: ResourceRequirements) -> int:
    return whole_value(resources.requests.get("memory", resources.limits.get("memory", 0)))


def _is_node_critical(pod: Pod) -> bool:
    source = pod.metadata.annotations.get("kubernetes.io/config.source")
    return source in _STATIC_SOURCES or (pod.spec.priority or 0) >= _NODE_CRITICAL


def _huge_pages(container: Container) -> list[cri.HugepageLimit]:
    prefix = "hugepages-"
    limits = {n.removeprefix(prefix): q for n, q in container.resources.limits.items() if n.startswith(prefix)}
    return [
        cri.HugepageLimit(page_size=f"{size.removesuffix('i')}B", limit=whole_value(limits[size]))
        for size in sorted(limits)
    ]
