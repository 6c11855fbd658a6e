"""Limits of a container and its place among the control groups."""

from collections.abc import Iterator
from typing import Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError, WrongStateError
from modules.runtimes.oci.spec.machine import CgroupLayout, Machine
from modules.runtimes.oci.spec.model import Json
from modules.runtimes.oci.spec.paths import checked_path
from protos.cri.v1 import api_pb2 as cri

_PREFIX: Final = "edgecore"
"""Prefix of a container's scope among systemd's units, and the parent of containers without a pod's group."""
_SLICE: Final = pattern(r"[A-Za-z0-9_:.\\-]+\.slice")
_HUGE_PAGE: Final = pattern(r"[1-9][0-9]{0,8}[KMG]B")
_PROCESSORS: Final = pattern(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*")
_UNIFIED: Final = pattern(r"[a-z0-9_]{1,64}(\.[A-Za-z0-9_]{1,64}){1,4}")
_LARGEST: Final = (1 << 63) - 1
_SHARES: Final = (2, 1 << 18)
_PERIODS: Final = (1_000, 1_000_000)
"""Microseconds."""
_LEAST_QUOTA: Final = 1_000
_SCORES: Final = (-1000, 1000)
_MOST: Final = 256
"""Files of `unified`, and sizes of huge pages."""


def check_resources(attempt: str, resources: cri.LinuxContainerResources, machine: Machine) -> None:
    """Refuse limits that the kernel would refuse (BadRequestError) or this machine does not have (WrongStateError)."""
    if problem := next(_problems(resources), None):
        raise BadRequestError(attempt, problem)
    if resources.unified and machine.cgroup_layout is not CgroupLayout.UNIFIED:
        raise WrongStateError(attempt, f"`unified` needs cgroup v2 alone, this machine is {machine.cgroup_layout}")


def _problems(resources: cri.LinuxContainerResources) -> Iterator[str]:
    memory, swap = resources.memory_limit_in_bytes, resources.memory_swap_limit_in_bytes
    if memory < 0 or swap < -1:
        yield "a memory limit is negative"
    if 0 < swap < memory:
        yield f"the limit of memory and swap together, {swap}, is less than that of memory, {memory}"
    yield from _cpu_problems(resources)
    if max(len(resources.hugepage_limits), len(resources.unified)) > _MOST:
        yield f"more than {_MOST} limits"
    for limit in resources.hugepage_limits:
        if not _HUGE_PAGE.fullmatch(limit.page_size):
            yield f"{limit.page_size[:60]!r} is no size of huge pages such as 2MB"
    for name, value in resources.unified.items():
        if not _UNIFIED.fullmatch(name) or not value or len(value) > 4096 or "\0" in value:
            yield f"`unified` has {name[:60]!r}, which is no file of cgroup v2 with a value"


def _cpu_problems(resources: cri.LinuxContainerResources) -> Iterator[str]:
    if resources.cpu_shares < 0:
        yield f"the CPU shares are negative: {resources.cpu_shares}"
    if resources.cpu_period and not _PERIODS[0] <= resources.cpu_period <= _PERIODS[1]:
        yield f"the CPU period is {resources.cpu_period} µs, it must be from 1000 to 1000000"
    if resources.cpu_quota < -1 or 0 < resources.cpu_quota < _LEAST_QUOTA:
        yield f"the CPU quota is {resources.cpu_quota} µs, the least is 1000"
    for processors in (resources.cpuset_cpus, resources.cpuset_mems):
        if processors and (len(processors) > 4096 or not _PROCESSORS.fullmatch(processors)):
            yield f"{processors[:60]!r} is no list of processors or memory nodes such as 0-2,5"


def container_resources(resources: cri.LinuxContainerResources, machine: Machine) -> Json:
    """Return OCI's `linux.resources` without devices, as far as this machine can limit. A limit of 0 means no limit."""
    limits: Json = {}
    if machine.can_limit("memory") and (memory := _memory(resources, machine)):
        limits["memory"] = memory
    if cpu := _cpu(resources, machine):
        limits["cpu"] = cpu
    if resources.hugepage_limits and "hugetlb" in machine.cgroup_controllers:
        limits["hugepageLimits"] = [
            {"pageSize": each.page_size, "limit": min(each.limit, _LARGEST)} for each in resources.hugepage_limits
        ]
    if resources.unified:
        limits["unified"] = dict(resources.unified)
    return limits


def _memory(resources: cri.LinuxContainerResources, machine: Machine) -> Json:
    """Return the limits of memory; without another limit of swap, the container gets no swap, as in Kubernetes."""
    memory: Json = {}
    if resources.memory_limit_in_bytes:
        memory["limit"] = resources.memory_limit_in_bytes
    swap = resources.memory_swap_limit_in_bytes or resources.memory_limit_in_bytes
    if swap and machine.swap_accounting:
        memory["swap"] = swap
    return memory


def _cpu(resources: cri.LinuxContainerResources, machine: Machine) -> Json:
    cpu: Json = {}
    if machine.can_limit("cpu"):
        if resources.cpu_shares:
            cpu["shares"] = min(max(resources.cpu_shares, _SHARES[0]), _SHARES[1])
        if resources.cpu_quota:
            cpu["quota"] = resources.cpu_quota
        if resources.cpu_period:
            cpu["period"] = resources.cpu_period
    if machine.can_limit("cpuset"):
        if resources.cpuset_cpus:
            cpu["cpus"] = resources.cpuset_cpus
        if resources.cpuset_mems:
            cpu["mems"] = resources.cpuset_mems
    return cpu


def updated_resources(spec_config: Json, resources: cri.LinuxContainerResources, machine: Machine) -> Json:
    """Return `linux.resources` after a change, without devices: the file of `crun update -r`, and, with the devices as
    they are, part of the container's stored configuration. Limits that the change leaves out stay.

    Raises:
        BadRequestError: the limits together are wrong.
        WrongStateError: this machine does not have them.
    """
    attempt = "change the container's resources"
    check_resources(attempt, resources, machine)
    before = spec_config["linux"]["resources"]
    change = container_resources(resources, machine)
    merged: Json = {key: value for key, value in before.items() if key != "devices"}
    for key in ("memory", "cpu", "unified"):
        if key in change:
            merged[key] = {**before.get(key, {}), **change[key]}
    if "hugepageLimits" in change:
        sizes = {each["pageSize"]: each for each in (*before.get("hugepageLimits", ()), *change["hugepageLimits"])}
        merged["hugepageLimits"] = list(sizes.values())
    memory = merged.get("memory", {})
    if 0 < memory.get("swap", 0) < memory.get("limit", 0):
        reason = f"the limit of memory and swap together, {memory['swap']}, is less than that of memory"
        raise BadRequestError(attempt, reason)
    return merged


def oom_score_adj(config: cri.ContainerConfig, machine: Machine) -> int | None:
    """Return the score that the container's process gets; None to inherit edgecore's."""
    if not config.linux.HasField("resources"):
        return None
    may_lower = "SYS_RESOURCE" in machine.capabilities and not machine.rootless
    least = _SCORES[0] if may_lower else machine.oom_score_adj
    return min(max(config.linux.resources.oom_score_adj, least), _SCORES[1])


def check_cgroup_parent(attempt: str, parent: str, machine: Machine) -> None:
    """Refuse a parent that is no path, or, with systemd, no slice. Raises BadRequestError."""
    if not parent:
        return
    path = checked_path(attempt, f"/{parent.lstrip('/')}", "the parent cgroup")
    if machine.systemd_cgroups and not _SLICE.fullmatch(path.rpartition("/")[2]):
        hint = "edged's cgroupDriver and the runtime's must be the same"
        raise BadRequestError(attempt, f'the parent cgroup "{parent[:200]}" is no slice of systemd', hint)


def cgroups_path(attempt: str, parent: str, container_id: str, machine: Machine) -> str:
    """Return OCI's `linux.cgroupsPath`. Raises BadRequestError as `check_cgroup_parent`."""
    check_cgroup_parent(attempt, parent, machine)
    path = checked_path(attempt, f"/{parent.lstrip('/')}", "the parent cgroup")
    if machine.systemd_cgroups:
        return f"{path.rpartition('/')[2] or 'system.slice'}:{_PREFIX}:{container_id}"
    return f"/{_PREFIX}/{container_id}" if path == "/" else f"{path}/{container_id}"
