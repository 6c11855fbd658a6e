"""A ResourceConfig as the kernel's interface files: controller, file and text.

Pure. cgroup v1 has a hierarchy for each controller (or a few of them); v2 has a single one, other names and another
scale of weights (kubelet's cgroup_v1_manager and cgroup_v2_manager over libcontainer).
"""

from collections.abc import Iterator

import msgspec

from edged.cgroups.resource_config import UNLIMITED, ResourceConfig

CONTROLLERS = ("cpu", "cpuacct", "memory", "pids", "hugetlb")
"""Controllers in whose hierarchies edged itself makes cgroups; the runtime makes them in the others."""


class Knob(msgspec.Struct, frozen=True):
    """One interface file and its new content."""

    controller: str
    file: str
    value: str


def knobs(limits: ResourceConfig, *, unified: bool, page_sizes: tuple[str, ...] = ()) -> list[Knob]:
    """Return the files to write, in this order.

    Args:
        limits: to set.
        unified: whether the hierarchy is cgroup v2.
        page_sizes: sizes of the machine's huge pages (`2MB`); those without a limit get 0.
    """
    found = list(_v2(limits) if unified else _v1(limits))
    if limits.huge_pages is not None:
        file = "hugetlb.{}.max" if unified else "hugetlb.{}.limit_in_bytes"
        sizes = sorted({*page_sizes, *limits.huge_pages})
        found += [Knob("hugetlb", file.format(size), str(limits.huge_pages.get(size, 0))) for size in sizes]
    return found


def weight_of(cpu_shares: int) -> int:
    """Return cgroup v2's weight, 1 to 10000, for v1's shares, 2 to 262144 (cpuSharesToCPUWeight of kubelets up to
    1.33).
    """
    return 1 + (cpu_shares - 2) * 9999 // 262142


def _v1(limits: ResourceConfig) -> Iterator[Knob]:
    if limits.cpu_shares is not None:
        yield Knob("cpu", "cpu.shares", str(limits.cpu_shares))
    if limits.cpu_period is not None:
        yield Knob("cpu", "cpu.cfs_period_us", str(limits.cpu_period))
    if limits.cpu_quota is not None:
        yield Knob("cpu", "cpu.cfs_quota_us", str(limits.cpu_quota))
    if limits.memory is not None:
        yield Knob("memory", "memory.limit_in_bytes", str(limits.memory))
    if limits.pids is not None:
        yield Knob("pids", "pids.max", _or_max(limits.pids))


def _v2(limits: ResourceConfig) -> Iterator[Knob]:
    if limits.cpu_shares is not None:
        yield Knob("cpu", "cpu.weight", str(weight_of(limits.cpu_shares)))
    if limits.cpu_quota is not None:
        period = "" if limits.cpu_period is None else f" {limits.cpu_period}"
        yield Knob("cpu", "cpu.max", _or_max(limits.cpu_quota) + period)
    if limits.memory is not None:
        yield Knob("memory", "memory.max", _or_max(limits.memory))
    if limits.pids is not None:
        yield Knob("pids", "pids.max", _or_max(limits.pids))


def _or_max(number: int) -> str:
    return "max" if number == UNLIMITED else str(number)
