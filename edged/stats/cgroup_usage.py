"""Resource usage of a control group, from the kernel's files: cgroup v1, v2, or both."""

from collections.abc import Iterable
from pathlib import Path

from edged.api import Nanoseconds
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.names import CgroupPath
from edged.stats.usage import ResourceUsage

_NO_LIMIT = 1 << 60
"""Bytes; cgroup v1 shows a larger limit when none is set."""


class CgroupUsage:
    """Reads the resource usage of control groups.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._of = {controller: h for h in hierarchies for controller in h.controllers}

    def read(self, path: CgroupPath, at: Nanoseconds) -> ResourceUsage | None:
        """Return the current usage; None for a missing cgroup, or one without controllers."""
        cpu, memory = self._cpu(path), self._memory(path, at)
        if cpu is None and memory is None:
            return None
        known = memory or ResourceUsage(at)
        pids = self._directory("pids", path)
        return ResourceUsage(
            at,
            cpu,
            known.memory,
            known.working_set,
            known.rss,
            known.limit,
            known.faults,
            known.major_faults,
            None if pids is None else _number(pids / "pids.current"),
        )

    def _cpu(self, path: CgroupPath) -> int | None:
        hierarchy = self._of.get("cpu")
        if hierarchy is not None and hierarchy.unified:
            microseconds = _table(hierarchy.mount / path.strip("/") / "cpu.stat").get("usage_usec")
            return None if microseconds is None else microseconds * 1000
        directory = self._directory("cpuacct", path)
        return None if directory is None else _number(directory / "cpuacct.usage")

    def _memory(self, path: CgroupPath, at: Nanoseconds) -> ResourceUsage | None:
        directory = self._directory("memory", path)
        if directory is None:
            return None
        unified = self._of["memory"].unified
        used = _number(directory / ("memory.current" if unified else "memory.usage_in_bytes"))
        limit = _number(directory / ("memory.max" if unified else "memory.limit_in_bytes"))
        table, total = _table(directory / "memory.stat"), "" if unified else "total_"
        if used is None:
            return None
        return ResourceUsage(
            at,
            memory=used,
            working_set=max(0, used - table.get(f"{total}inactive_file", 0)),
            rss=table.get("anon" if unified else "total_rss"),
            limit=limit if limit is not None and limit < _NO_LIMIT else None,
            faults=table.get(f"{total}pgfault"),
            major_faults=table.get(f"{total}pgmajfault"),
        )

    def _directory(self, controller: str, path: CgroupPath) -> Path | None:
        hierarchy = self._of.get(controller)
        return None if hierarchy is None else hierarchy.mount / path.strip("/")


def _number(file: Path) -> int | None:
    """Return the number in a file; None for `max`, or if it cannot be read."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _table(file: Path) -> dict[str, int]:
    """Return the numbers in a file by name; empty if it cannot be read."""
    try:
        pairs = [line.split(" ", 1) for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
