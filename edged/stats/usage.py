"""What somebody uses of processors and memory at a moment, and how statistics say it: one form for all sources."""

from collections.abc import Iterable

from msgspec import Struct

from edged.api import Nanoseconds, format_time
from edged.stats.model import CpuStats, MemoryStats


class Usage(Struct, frozen=True, gc=False):
    """One look. Amounts are bytes and nanoseconds of processor time since the beginning; None is unknown."""

    at: Nanoseconds
    cpu: int | None = None
    memory: int | None = None
    working_set: int | None = None
    rss: int | None = None
    limit: int | None = None
    """Bytes of memory that it may have; None: all that there is."""
    faults: int | None = None
    major_faults: int | None = None
    processes: int | None = None


def total(parts: Iterable[Usage], at: Nanoseconds) -> Usage:
    """All of them together; what one of them does not know counts nothing."""
    found = list(parts)
    names = ("cpu", "memory", "working_set", "rss", "faults", "major_faults", "processes")
    sums = {name: [n for part in found if (n := getattr(part, name)) is not None] for name in names}
    return Usage(at, **{name: sum(numbers) for name, numbers in sums.items() if numbers})


class Rates:
    """Remembers the look before, for processor time per time."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[Nanoseconds, int]] = {}
        self._now: dict[str, tuple[Nanoseconds, int]] = {}

    def nano_cores(self, who: str, usage: Usage) -> int | None:
        """Billionths of a core since the look before; None when there was none, or the count began anew."""
        if usage.cpu is None:
            return None
        self._now[who] = (usage.at, usage.cpu)
        at, cpu = self._before.get(who, (usage.at, usage.cpu))
        if usage.at <= at or usage.cpu < cpu:
            return None
        return (usage.cpu - cpu) * 1_000_000_000 // (usage.at - at)

    def turn(self) -> None:
        """This look is over: it is the one before the next. Who was not seen is forgotten."""
        self._before, self._now = self._now, {}


def cpu_stats(usage: Usage, nano_cores: int | None) -> CpuStats | None:
    """As the summary has it."""
    return None if usage.cpu is None else CpuStats(format_time(usage.at), nano_cores, usage.cpu)


def memory_stats(usage: Usage) -> MemoryStats | None:
    """As the summary has it; what is available of a limit, when there is one."""
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
