"""The limits of each control group, as pure functions of pods and of the node.

The rules are kubelet's: ResourceConfigForPod for a pod, setCPUCgroupConfig for the classes, getCgroupConfig for all
pods together (node allocatable).
"""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from edged.pods.config.resources import SMALLEST_SHARES, HostResources, cpu_quota, cpu_shares
from edged.settings.cgroups import CgroupSettings, Reservation
from modules.apimachinery.pods.demand import Amounts, all_limited, pod_limits, pod_requests
from modules.apimachinery.pods.qos import QosClass, qos_class
from modules.apimachinery.types import Pod, parse_quantity

UNLIMITED = -1

_HUGE_PAGES = "hugepages-"


class ResourceConfig(Struct, frozen=True, gc=False):
    """The limits of a cgroup; a field that is None is not changed.

    Attributes:
        cpu_shares: weight in cgroup v1's scale, 2 to 262144.
        cpu_quota: microseconds of processor time in each period; -1 for no limit.
        cpu_period: microseconds.
        memory: bytes; -1 for no limit.
        pids: processes; -1 for no limit.
        huge_pages: bytes by size of page (`2MB`); missing sizes get 0.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory: int | None = None
    pids: int | None = None
    huge_pages: Mapping[str, int] | None = None


class NodeCapacity(Struct, frozen=True):
    """The node's capacity, as far as cgroups depend on it: CPUs, and bytes of memory."""

    cpus: int
    memory: int


def resource_config_for_pod(pod: Pod, machine: HostResources, pids: int = UNLIMITED) -> ResourceConfig:
    """Return a pod's limits: the sum of its containers', if each of them has one.

    A best-effort pod has the smallest weight. Missing limits are removed explicitly, because there may have been
    one before.
    """
    requests, limits = pod_requests(pod), pod_limits(pod)
    qos = qos_class(pod)
    free = qos is QosClass.BEST_EFFORT
    quota = machine.cfs_quota and not free and all_limited(pod, "cpu")
    memory = not free and all_limited(pod, "memory")
    return ResourceConfig(
        cpu_shares=SMALLEST_SHARES if free else cpu_shares(_milli(requests.get("cpu"))),
        cpu_quota=cpu_quota(_milli(limits.get("cpu")), machine.cfs_period) if quota else UNLIMITED,
        cpu_period=machine.cfs_period,
        memory=_whole(limits.get("memory")) if memory else UNLIMITED,
        pids=pids if pids > 0 else UNLIMITED,
        huge_pages=_huge_pages(requests),
    )


def milli_cpu_of_class(pod: Pod, qos: QosClass) -> int:
    """Return the thousandths of a CPU that a pod adds to the requests of its class."""
    return _milli(pod_requests(pod).get("cpu")) if qos is QosClass.BURSTABLE else 0


def resource_config_for_class(qos: QosClass, milli_cpu: int) -> ResourceConfig:
    """Return a class's limits: its weight follows the CPU requests of its pods; best effort has the smallest."""
    return ResourceConfig(cpu_shares=SMALLEST_SHARES if qos is QosClass.BEST_EFFORT else cpu_shares(milli_cpu))


def resource_config_for_pods(node: NodeCapacity, settings: CgroupSettings) -> ResourceConfig:
    """Return the limits of all pods together: the node's capacity, less the reservations when `pods` is enforced."""
    amounts = {"cpu": Fraction(node.cpus), "memory": Fraction(node.memory)}
    if "pods" in settings.enforce:
        amounts = allocatable(amounts, settings)
    return ResourceConfig(cpu_shares=cpu_shares(_milli(amounts["cpu"])), memory=_whole(amounts["memory"]))


def resource_config_for_reserved(reservation: Reservation) -> ResourceConfig:
    """Return the limits of others than pods, when they are enforced (enforceExistingCgroup)."""
    amounts = {name: parse_quantity(quantity) for name, quantity in reservation.amounts.items()}
    return ResourceConfig(
        cpu_shares=cpu_shares(_milli(amounts["cpu"])) if "cpu" in amounts else None,
        memory=_whole(amounts["memory"]) if "memory" in amounts else None,
        pids=_whole(amounts["pid"]) if "pid" in amounts else None,
    )


def allocatable(capacity: Amounts, settings: CgroupSettings) -> Amounts:
    """Return the node's capacity without both reservations, never below zero."""
    reserved = settings.reserved()
    return {name: max(Fraction(0), amount - reserved.get(name, Fraction(0))) for name, amount in capacity.items()}


def _huge_pages(amounts: Amounts) -> dict[str, int]:
    """Return bytes by size of page, in the kernel's notation (`2MB`), a power of two like Kubernetes' `2Mi`."""
    named = sorted(name for name in amounts if name.startswith(_HUGE_PAGES))
    return {f"{name.removeprefix(_HUGE_PAGES).removesuffix('i')}B": _whole(amounts[name]) for name in named}


def _milli(amount: Fraction | None) -> int:
    return -(-(amount or Fraction(0)) * 1000 // 1)


def _whole(amount: Fraction | None) -> int:
    return -(-(amount or Fraction(0)) // 1)
