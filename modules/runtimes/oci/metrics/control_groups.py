"""Metrics from the files of a container's control group, versions 1 and 2."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.usage import read_number, read_table
from modules.runtimes.oci.metrics.descriptors import Sample

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MICROSECONDS: Final = 1_000_000
_NANOSECONDS: Final = 1_000_000_000
_MOST_DEVICES: Final = 256
_PAGE_SIZES: Final = 16


class GroupMetrics:
    """Reads the control groups of containers.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._of = {controller: each for each in hierarchies for controller in each.controllers}

    def read(self, path: str) -> Iterator[Sample]:
        """Yield the metrics of the control group at a path below each mount; of a missing group zeros or nothing."""
        yield from self._cpu(path)
        yield from self._memory(path)
        yield from self._huge_pages(path)
        yield from self._pressure(path)
        yield from self._threads(path)
        yield from self._devices(path)

    def processes(self, path: str) -> list[int]:
        """Return the processes in the control group itself."""
        directory = self._directory("pids", path) or self._directory("memory", path)
        try:
            return [] if directory is None else [int(each) for each in (directory / "cgroup.procs").read_text().split()]
        except (OSError, ValueError):
            return []

    def _cpu(self, path: str) -> Iterator[Sample]:
        directory = self._directory("cpu", path)
        table = {} if directory is None else read_table(directory / "cpu.stat")
        if self._is_unified("cpu"):
            used, user, system = (table.get(f"{name}_usec", 0) for name in ("usage", "user", "system"))
            throttled = table.get("throttled_usec", 0)
            times = (used // _MICROSECONDS, user // _MICROSECONDS, system // _MICROSECONDS, throttled // _MICROSECONDS)
        else:
            accounts = self._directory("cpuacct", path)
            split = {} if accounts is None else read_table(accounts / "cpuacct.stat")
            total = 0 if accounts is None else read_number(accounts / "cpuacct.usage") or 0
            times = (
                total // _NANOSECONDS,
                split.get("user", 0) // _TICKS,
                split.get("system", 0) // _TICKS,
                table.get("throttled_time", 0) // _NANOSECONDS,
            )
        yield Sample("container_cpu_usage_seconds_total", times[0])
        yield Sample("container_cpu_user_seconds_total", times[1])
        yield Sample("container_cpu_system_seconds_total", times[2])
        yield Sample("container_cpu_cfs_periods_total", table.get("nr_periods", 0))
        yield Sample("container_cpu_cfs_throttled_periods_total", table.get("nr_throttled", 0))
        yield Sample("container_cpu_cfs_throttled_seconds_total", times[3])

    def _memory(self, path: str) -> Iterator[Sample]:
        directory = self._directory("memory", path)
        if directory is None:
            return
        table = read_table(directory / "memory.stat")
        samples = _memory_2 if self._is_unified("memory") else _memory_1
        yield from samples(directory, table)

    def _huge_pages(self, path: str) -> Iterator[Sample]:
        directory = self._directory("hugetlb", path)
        if directory is None:
            return
        usage = "current" if self._is_unified("hugetlb") else "usage_in_bytes"
        for file in sorted(directory.glob(f"hugetlb.*B.{usage}"))[:_PAGE_SIZES]:
            size = file.name.split(".")[1]
            yield Sample("container_hugetlb_usage_bytes", read_number(file) or 0, (size,))
            most = read_number(directory / f"hugetlb.{size}.max_usage_in_bytes")
            if most is not None:
                yield Sample("container_hugetlb_max_usage_bytes", most, (size,))

    def _pressure(self, path: str) -> Iterator[Sample]:
        directory = self._directory("memory", path) if self._is_unified("memory") else None
        if directory is None:
            return
        for resource in ("cpu", "memory", "io"):
            for line in _lines(directory / f"{resource}.pressure"):
                kind, _, total = line.partition(" ")[0], *line.rpartition("total=")[1:]
                name = {"some": "waiting", "full": "stalled"}.get(kind)
                if name and total.isdecimal():
                    seconds = int(total) // _MICROSECONDS
                    yield Sample(f"container_pressure_{resource}_{name}_seconds_total", seconds)

    def _threads(self, path: str) -> Iterator[Sample]:
        directory = self._directory("pids", path)
        if directory is not None:
            yield Sample("container_threads", read_number(directory / "pids.current") or 0)
            yield Sample("container_threads_max", read_number(directory / "pids.max") or 0)

    def _devices(self, path: str) -> Iterator[Sample]:
        unified = self._is_unified("io")
        directory = self._directory("io" if unified else "blkio", path)
        if directory is None:
            return
        for device, counts in (_io_2 if unified else _io_1)(directory).items():
            major, _, minor = device.partition(":")
            name = device_name(int(major), int(minor))
            for operation, bytes_, times in (("Read", "rbytes", "rios"), ("Write", "wbytes", "wios")):
                labels = (name, major, minor, operation)
                yield Sample("container_blkio_device_usage_total", counts.get(bytes_, 0), labels)
                verb = operation.lower()
                yield Sample(f"container_fs_{verb}s_bytes_total", counts.get(bytes_, 0), (name,))
                yield Sample(f"container_fs_{verb}s_total", counts.get(times, 0), (name,))

    def _is_unified(self, controller: str) -> bool:
        return controller in self._of and self._of[controller].unified

    def _directory(self, controller: str, path: str) -> Path | None:
        hierarchy = self._of.get(controller)
        return None if hierarchy is None else hierarchy.mount / path.strip("/")


def device_name(major: int, minor: int) -> str:
    """Return the path of a block device; of one without a name (overlays, memory) its numbers."""
    for line in _lines(Path(f"/sys/dev/block/{major}:{minor}/uevent")):
        if line.startswith("DEVNAME="):
            return f"/dev/{line.removeprefix('DEVNAME=')}"
    return f"{major}:{minor}"


def _memory_1(directory: Path, table: dict[str, int]) -> Iterator[Sample]:
    used = read_number(directory / "memory.usage_in_bytes") or 0
    yield from _usage(used, table.get("total_inactive_file", 0), read_number(directory / "memory.max_usage_in_bytes"))
    yield Sample("container_memory_cache", table.get("total_cache", 0))
    yield Sample("container_memory_rss", table.get("total_rss", 0))
    yield Sample("container_memory_mapped_file", table.get("total_mapped_file", 0))
    yield Sample("container_memory_swap", table.get("total_swap", 0))
    yield Sample("container_memory_kernel_usage", read_number(directory / "memory.kmem.usage_in_bytes") or 0)
    yield Sample("container_memory_failcnt", read_number(directory / "memory.failcnt") or 0)
    yield Sample("container_oom_events_total", read_table(directory / "memory.oom_control").get("oom_kill", 0))
    yield from _faults(table, "", "container")
    yield from _faults(table, "total_", "hierarchy")


def _memory_2(directory: Path, table: dict[str, int]) -> Iterator[Sample]:
    events = read_table(directory / "memory.events")
    used = read_number(directory / "memory.current") or 0
    yield from _usage(used, table.get("inactive_file", 0), read_number(directory / "memory.peak"))
    yield Sample("container_memory_cache", table.get("file", 0))
    yield Sample("container_memory_rss", table.get("anon", 0))
    yield Sample("container_memory_mapped_file", table.get("file_mapped", 0))
    yield Sample("container_memory_swap", read_number(directory / "memory.swap.current") or 0)
    yield Sample("container_memory_kernel_usage", table.get("kernel", 0))
    yield Sample("container_memory_failcnt", events.get("max", 0))
    yield Sample("container_oom_events_total", events.get("oom_kill", 0))
    yield from _faults(table, "", "hierarchy")


def _usage(used: int, inactive: int, most: int | None) -> Iterator[Sample]:
    yield Sample("container_memory_usage_bytes", used)
    yield Sample("container_memory_working_set_bytes", max(0, used - inactive))
    yield Sample("container_memory_max_usage_bytes", used if most is None else most)


def _faults(table: dict[str, int], prefix: str, scope: str) -> Iterator[Sample]:
    for kind, name in (("pgfault", "pgfault"), ("pgmajfault", "pgmajfault")):
        yield Sample("container_memory_failures_total", table.get(f"{prefix}{name}", 0), (kind, scope))


def _io_1(directory: Path) -> dict[str, dict[str, int]]:
    """Return counts by device, under version 2's names, from lines such as `8:0 Read 4096`."""
    found: dict[str, dict[str, int]] = {}
    for file, names in (
        ("blkio.throttle.io_service_bytes", {"Read": "rbytes", "Write": "wbytes"}),
        ("blkio.throttle.io_serviced", {"Read": "rios", "Write": "wios"}),
    ):
        for line in _lines(directory / file)[: _MOST_DEVICES * 8]:
            fields = line.split()
            if len(fields) == 3 and _is_device(fields[0]) and fields[1] in names and fields[2].isdecimal():
                found.setdefault(fields[0], {})[names[fields[1]]] = int(fields[2])
    return found


def _io_2(directory: Path) -> dict[str, dict[str, int]]:
    """Return counts by device, from lines such as `8:0 rbytes=4096 wbytes=0 rios=1 wios=0`."""
    found: dict[str, dict[str, int]] = {}
    for line in _lines(directory / "io.stat")[:_MOST_DEVICES]:
        device, *fields = line.split()
        pairs = (field.partition("=") for field in fields)
        if _is_device(device):
            found[device] = {name: int(value) for name, _, value in pairs if value.isdecimal()}
    return found


def _is_device(text: str) -> bool:
    major, _, minor = text.partition(":")
    return major.isdecimal() and minor.isdecimal()


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(errors="replace").splitlines() if line]
    except OSError:
        return []
