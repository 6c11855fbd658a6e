"""What a sandbox is told of its pod's size: runtimes that make a virtual machine of it have to choose one beforehand.

Others (runc) take no notice: there the pod's cgroup does it. Kubelet's calculateSandboxResources and
convertOverheadToLinuxResources.
"""

from fractions import Fraction

from msgspec.structs import replace

from edged.api import Pod, parse_quantity
from edged.pods.demand import Amounts, pod_limits, pod_requests
from edged.pods.resources import Machine, cpu_quota, cpu_shares
from protos.cri.v1 import api_pb2 as cri


def sum_resources(pod: Pod, machine: Machine) -> cri.LinuxContainerResources | None:
    """What the pod's containers need together; None when they ask for nothing."""
    containers = replace(pod, spec=replace(pod.spec, overhead={}))
    requests, limits = pod_requests(containers), pod_limits(containers)
    return _resources(requests, limits, machine) if requests else None


def overhead_resources(pod: Pod, machine: Machine) -> cri.LinuxContainerResources | None:
    """What the sandbox itself costs; None when its class does not say."""
    overhead = {name: parse_quantity(quantity) for name, quantity in pod.spec.overhead.items()}
    return _resources(overhead, overhead, machine) if overhead else None


def _resources(requests: Amounts, limits: Amounts, machine: Machine) -> cri.LinuxContainerResources:
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
