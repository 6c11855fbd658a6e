"""Resources in the kernel's terms: CPU shares and quota, memory limit, OOM score."""

from msgspec import Struct
from msgspec.structs import replace

from edged.pods.critical import is_critical
from modules.apimachinery.pods.demand import requests_without_overhead
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.pods.sidecars import is_sidecar
from modules.apimachinery.types import Container, Pod, ResourceRequirements, milli_value, whole_value
from protos.cri.v1 import api_pb2 as cri

SMALLEST_SHARES = 2
"""The CPU shares of a container without a request."""

_PERIOD_US = 100_000
_SMALLEST_QUOTA_US = 1_000
_LARGEST_QUOTA_US = 2**63 - 1
_LARGEST_SHARES = 262_144
_GUARANTEED_ADJUST = -997
_BEST_EFFORT_ADJUST = 1000
_NODE_CRITICAL = "system-node-critical"


class HostResources(Struct, frozen=True, gc=False):
    """The node's values that containers' resources depend on.

    Attributes:
        memory: memory of the node, in bytes.
        smallest_oom_adjust: the lowest oom_score_adj that this process may give a container: its own when it lacks
            CAP_SYS_RESOURCE, None when it may give any. With a lower one every container fails.
        cfs_quota: whether CPU limits are enforced (`cpuCFSQuota`).
        cfs_period: period of the CPU quota, in microseconds (`cpuCFSQuotaPeriod`).
        masked_paths: paths of this machine's /sys that no container may read: the throttling of its processors reveals
            the work of other containers.
    """

    memory: int
    smallest_oom_adjust: int | None = None
    cfs_quota: bool = True
    cfs_period: int = _PERIOD_US
    masked_paths: tuple[str, ...] = ()


def linux_resources(pod: Pod, container: Container, machine: HostResources) -> cri.LinuxContainerResources:
    """Return the resources of one container. Without a limit of its own it has the pod's, which is what its processes
    read in their cgroup (kubelet's getCPULimit and getMemoryLimit).
    """
    whole = pod.spec.resources
    limits, requests = container.resources.limits, container.resources.requests
    if whole is not None:
        limits = {**whole.limits, **{name: limit for name, limit in limits.items() if whole_value(limit)}}
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
    """Return the CPU shares of so many thousandths of a CPU: 1024 for one CPU, at least 2 (MilliCPUToShares)."""
    return min(max(milli_cpu * 1024 // 1000, SMALLEST_SHARES), _LARGEST_SHARES)


def cpu_quota(milli_cpu: int, period: int) -> int:
    """Return the CPU quota in microseconds of so many thousandths of a CPU (MilliCPUToQuota).

    It is 0 without a limit, else at least the kernel's minimum and at most the largest number of the CRI. `period` is
    in microseconds.
    """
    return min(max(milli_cpu * period // 1000, _SMALLEST_QUOTA_US), _LARGEST_QUOTA_US) if milli_cpu else 0


def oom_score_adjust(pod: Pod, container: Container, machine: HostResources) -> int:
    """Return the oom_score_adj: −997 is killed last, 1000 first (kubelet's GetContainerOOMScoreAdjust).

    A burstable container's falls with its memory request; a sidecar's is at most the highest of the regular
    containers'. It is never below the lowest that the kernel allows this process.
    """
    adjust = _adjust_by_qos(pod, container, machine)
    return adjust if machine.smallest_oom_adjust is None else max(adjust, machine.smallest_oom_adjust)


def _adjust_by_qos(pod: Pod, container: Container, machine: HostResources) -> int:
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
    """Return a container's memory request in bytes, with its even share, among all containers, of the pod-level request
    beyond its containers' (remainingPodMemReqPerContainer).
    """
    own = _requested_memory(container.resources)
    if pod.spec.resources is None:
        return own
    apart = replace(pod, spec=replace(pod.spec, resources=None))
    whole, together = (requests_without_overhead(each).get("memory", 0) for each in (pod, apart))
    return own + max(0, int(whole - together)) // (len(pod.spec.init_containers) + len(pod.spec.containers))


def _requested_memory(resources: ResourceRequirements) -> int:
    return whole_value(resources.requests.get("memory", resources.limits.get("memory", 0)))


def _is_node_critical(pod: Pod) -> bool:
    """Return whether a pod is critical for its node, not only for the cluster (kubelet's IsNodeCriticalPod)."""
    return pod.spec.priority_class_name == _NODE_CRITICAL and is_critical(pod)


def _huge_pages(container: Container) -> list[cri.HugepageLimit]:
    prefix = "hugepages-"
    limits = {n.removeprefix(prefix): q for n, q in container.resources.limits.items() if n.startswith(prefix)}
    return [
        cri.HugepageLimit(page_size=f"{size.removesuffix('i')}B", limit=whole_value(limits[size]))
        for size in sorted(limits)
    ]
