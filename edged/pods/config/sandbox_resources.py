"""The total resources of a pod in its sandbox's configuration.

Runtimes that run the sandbox as a virtual machine choose its size by them (kubelet's calculateSandboxResources and
convertOverheadToLinuxResources). Others (runc) ignore them: there the pod's cgroup limits the pod.
"""

from fractions import Fraction

from msgspec.structs import replace

from edged.api import Pod, parse_quantity
from edged.pods.config.resources import HostResources, cpu_quota, cpu_shares
from edged.pods.demand import Amounts, pod_limits, pod_requests
from protos.cri.v1 import api_pb2 as cri


def sum_resources(pod: Pod, machine: HostResources) -> cri.LinuxContainerResources | None:
    """Return the resources of all containers together; None when they request nothing."""
    containers = replace(pod, spec=replace(pod.spec, overhead={}))
    requests, limits = pod_requests(containers), pod_limits(containers)
    return _resources(requests, limits, machine) if requests else None


def overhead_resources(pod: Pod, machine: HostResources) -> cri.LinuxContainerResources | None:
    """Return the sandbox's own overhead; None without one."""
    overhead = {name: parse_quantity(quantity) for name, quantity in pod.spec.overhead.items()}
    return _resources(overhead, overhead, machine) if overhead else None


def _resources(requests: Amounts, limits: Amounts, machine: HostResources) -> cri.LinuxContainerResources:
    resources = cri.LinuxContainerResources(
        cpu_shares=cpu_shares(_milli(requests)), memory_limit_in_bytes=_whole(limits.get("memory", Fraction(0)))
    )
    quota = cpu_quota(_milli(limits), machine.cfs_period)
    if machine.cfs_quota and quota:
        resources.cpu_period, resources.cpu_quota = machine.cfs_period, quota
    return resources


def _milli(amounts: Amounts) -> int:
    return _whole(amounts.get("cpu", Fraction(0)) * 1000)


def _whole(amount: Fraction) -> int:
    return -(-amount // 1)
