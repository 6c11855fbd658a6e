"""Usage of CPU and memory at one time, in one form for all sources, and its conversion into stats."""

from collections.abc import Iterable

from msgspec import Struct

from edged.stats.model import CpuStats, MemoryStats
from modules.apimachinery.types import Nanoseconds, format_time


class ResourceUsage(Struct, frozen=True, gc=False):
    """One measurement. Amounts are bytes, and nanoseconds of processor time since the start; None is unknown."""

    at: Nanoseconds
    cpu: int | None = None
    memory: int | None = None
    working_set: int | None = None
    rss: int | None = None
    limit: int | None = None
    """Limit of the memory in bytes; None for no limit."""
    faults: int | None = None
    major_faults: int | None = None
    processes: int | None = None


def total(parts: Iterable[ResourceUsage], at: Nanoseconds) -> ResourceUsage:
    """Return the sum; unknown values count nothing."""
    found = list(parts)
    names = ("cpu", "memory", "working_set", "rss", "faults", "major_faults", "processes")
    sums = {name: [n for part in found if (n := getattr(part, name)) is not None] for name in names}
    return ResourceUsage(at, **{name: sum(numbers) for name, numbers in sums.items() if numbers})


class CpuRates:
    """The rates of processor time between two measurements."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[Nanoseconds, int]] = {}
        self._now: dict[str, tuple[Nanoseconds, int]] = {}

    def nano_cores(self, who: str, usage: ResourceUsage) -> int | None:
        """Return billionths of a core since the last measurement; None without one, or if the counter has restarted."""
        if usage.cpu is None:
            return None
        self._now[who] = (usage.at, usage.cpu)
        at, cpu = self._before.get(who, (usage.at, usage.cpu))
        if usage.at <= at or usage.cpu < cpu:
            return None
        return (usage.cpu - cpu) * 1_000_000_000 // (usage.at - at)

    def rotate(self) -> None:
        """End a measurement: it becomes the last one. Subjects missing in it are dropped."""
        self._before, self._now = self._now, {}


def cpu_stats(usage: ResourceUsage, nano_cores: int | None) -> CpuStats | None:
    """Return the usage as CpuStats."""
    return None if usage.cpu is None else CpuStats(format_time(usage.at), nano_cores, usage.cpu)


def memory_stats(usage: ResourceUsage) -> MemoryStats | None:
    """Return the usage as MemoryStats; with the available bytes if there is a limit."""
    if usage.working_set is None and usage.memory is None:
        return None
    bounded = usage.limit is not None and usage.working_set is not None
    return MemoryStats(
        time=format_time(usage.at),
        available_bytes=max(0, (usage.limit or 0) - (usage.working_set or 0)) if bounded else None,
        usage_bytes=usage.memory,
        working_set_bytes=usage.working_set,
        rss_bytes=usage.rss,
        page_faults=usage.faults,
        major_page_faults=usage.major_faults,
    )
