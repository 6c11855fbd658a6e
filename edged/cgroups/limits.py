"""What each control group is limited to, as pure functions of pods and of the node.

A kubelet's rules: ResourceConfigForPod for a pod, setCPUCgroupConfig for the classes, getCgroupConfig for all pods
together (node allocatable).
"""

from collections.abc import Mapping
from fractions import Fraction

from msgspec import Struct

from edged.api import Pod, parse_quantity
from edged.cgroups.settings import CgroupSettings, Reservation
from edged.pods.demand import Amounts, all_limited, pod_limits, pod_requests
from edged.pods.qos import QosClass, qos_class
from edged.pods.resources import SMALLEST_SHARES, Machine, cpu_quota, cpu_shares

UNLIMITED = -1

_HUGE_PAGES = "hugepages-"


class Limits(Struct, frozen=True, gc=False):
    """What a cgroup is set to; a field that is None is left as it is.

    Attributes:
        cpu_shares: weight in cgroup v1's scale, 2 to 262144.
        cpu_quota: microseconds of processor time in each period; -1 for no limit.
        cpu_period: microseconds.
        memory: bytes; -1 for no limit.
        pids: processes; -1 for no limit.
        huge_pages: bytes by size of page (`2MB`); a size that is not named gets none.
    """

    cpu_shares: int | None = None
    cpu_quota: int | None = None
    cpu_period: int | None = None
    memory: int | None = None
    pids: int | None = None
    huge_pages: Mapping[str, int] | None = None


class Node(Struct, frozen=True):
    """The node's capacity, as far as its pods' cgroups depend on it: CPUs, and bytes of memory."""

    cpus: int
    memory: int


def limits_of_pod(pod: Pod, machine: Machine, pids: int = UNLIMITED) -> Limits:
    """A pod's limits: of what its containers are limited to in sum, if each of them is limited.

    A best-effort pod has the smallest weight. What is not limited is said so too, for it may have been limited before.
    """
    requests, limits = pod_requests(pod), pod_limits(pod)
    qos = qos_class(pod)
    free = qos is QosClass.BEST_EFFORT
    quota = machine.cfs_quota and not free and all_limited(pod, "cpu")
    memory = not free and all_limited(pod, "memory")
    return Limits(
        cpu_shares=SMALLEST_SHARES if free else cpu_shares(_milli(requests.get("cpu"))),
        cpu_quota=cpu_quota(_milli(limits.get("cpu")), machine.cfs_period) if quota else UNLIMITED,
        cpu_period=machine.cfs_period,
        memory=_whole(limits.get("memory")) if memory else UNLIMITED,
        pids=pids if pids > 0 else UNLIMITED,
        huge_pages=_huge_pages(requests),
    )


def milli_cpu_of_class(pod: Pod, qos: QosClass) -> int:
    """Thousandths of a CPU that a pod adds to what its class asks for."""
    return _milli(pod_requests(pod).get("cpu")) if qos is QosClass.BURSTABLE else 0


def limits_of_class(qos: QosClass, milli_cpu: int) -> Limits:
    """A class's limits: its weight is that of the CPU its pods ask for; best effort always has the smallest."""
    return Limits(cpu_shares=SMALLEST_SHARES if qos is QosClass.BEST_EFFORT else cpu_shares(milli_cpu))


def limits_of_pods(node: Node, settings: CgroupSettings) -> Limits:
    """The limits of all pods together: the node's capacity, less what is reserved when `pods` is enforced."""
    amounts = {"cpu": Fraction(node.cpus), "memory": Fraction(node.memory)}
    if "pods" in settings.enforce:
        amounts = allocatable(amounts, settings)
    return Limits(cpu_shares=cpu_shares(_milli(amounts["cpu"])), memory=_whole(amounts["memory"]))


def limits_of_reserved(reservation: Reservation) -> Limits:
    """The limits of others than pods, when they are enforced (enforceExistingCgroup)."""
    amounts = {name: parse_quantity(quantity) for name, quantity in reservation.amounts.items()}
    return Limits(
        cpu_shares=cpu_shares(_milli(amounts["cpu"])) if "cpu" in amounts else None,
        memory=_whole(amounts["memory"]) if "memory" in amounts else None,
        pids=_whole(amounts["pid"]) if "pid" in amounts else None,
    )


def allocatable(capacity: Amounts, settings: CgroupSettings) -> Amounts:
    """What is left of the node's capacity for pods: without both reservations, never less than nothing."""
    reserved = settings.reserved()
    return {name: max(Fraction(0), amount - reserved.get(name, Fraction(0))) for name, amount in capacity.items()}


def _huge_pages(amounts: Amounts) -> dict[str, int]:
    """Bytes by size, in the kernel's notation (`2MB`), which counts in powers of two as Kubernetes' `2Mi` does."""
    named = sorted(name for name in amounts if name.startswith(_HUGE_PAGES))
    return {f"{name.removeprefix(_HUGE_PAGES).removesuffix('i')}B": _whole(amounts[name]) for name in named}


def _milli(amount: Fraction | None) -> int:
    return -(-(amount or Fraction(0)) * 1000 // 1)


def _whole(amount: Fraction | None) -> int:
    return -(-(amount or Fraction(0)) // 1)
