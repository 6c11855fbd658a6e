"""Resource usage of a control group, from the kernel's files: cgroup v1, v2, or both."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from beehive.whole_numbers import whole_number
from edged.cgroups.hierarchies import Hierarchy

_MOST_GROUPS = 64
_NO_LIMIT = 1 << 60
"""Bytes; cgroup v1 shows a larger limit when none is set."""


class GroupUsage(NamedTuple):
    """Usage of a control group and of the groups below it; None for figures that the machine does not count. CPU is in
    nanoseconds, memory in bytes.
    """

    cpu: int | None = None
    memory: int | None = None
    working_set: int | None = None
    rss: int | None = None
    limit: int | None = None
    faults: int | None = None
    major_faults: int | None = None
    processes: int | None = None


class UsageFiles:
    """The reader of the usage of control groups.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._of = {controller: h for h in hierarchies for controller in h.controllers}

    def read(self, path: str) -> GroupUsage | None:
        """Return the current usage; None for a missing control group, or one without controllers.

        Args:
            path: of the group below each hierarchy's mount.
        """
        cpu, memory = self._cpu(path), self._memory(path)
        if cpu is None and memory is None:
            return None
        pids = self._directory("pids", path)
        processes = None if pids is None else read_number(pids / "pids.current")
        return (memory or GroupUsage())._replace(cpu=cpu, processes=processes)

    def process(self, path: str) -> int | None:
        """Return a process in one of the control groups below a path; None without any."""
        directory = self._directory("pids", path) or self._directory("memory", path)
        files = () if directory is None else islice(directory.rglob("cgroup.procs"), _MOST_GROUPS)
        with suppress(OSError, ValueError):  # a group is removed, or has threads only
            return next((int(found[0]) for file in files if (found := file.read_text().split(maxsplit=1))), None)
        return None

    def _cpu(self, path: str) -> int | None:
        hierarchy = self._of.get("cpu")
        if hierarchy is not None and hierarchy.unified:
            microseconds = read_table(hierarchy.mount / path.strip("/") / "cpu.stat").get("usage_usec")
            return None if microseconds is None else microseconds * 1000
        directory = self._directory("cpuacct", path)
        return None if directory is None else read_number(directory / "cpuacct.usage")

    def _memory(self, path: str) -> GroupUsage | None:
        directory = self._directory("memory", path)
        if directory is None:
            return None
        unified = self._of["memory"].unified
        used = read_number(directory / ("memory.current" if unified else "memory.usage_in_bytes"))
        limit = read_number(directory / ("memory.max" if unified else "memory.limit_in_bytes"))
        table, total = read_table(directory / "memory.stat"), "" if unified else "total_"
        if used is None:
            return None
        return GroupUsage(
            memory=used,
            working_set=max(0, used - table.get(f"{total}inactive_file", 0)),
            rss=table.get("anon" if unified else "total_rss"),
            limit=limit if limit is not None and limit < _NO_LIMIT else None,
            faults=table.get(f"{total}pgfault"),
            major_faults=table.get(f"{total}pgmajfault"),
        )

    def _directory(self, controller: str, path: str) -> Path | None:
        hierarchy = self._of.get(controller)
        return None if hierarchy is None else hierarchy.mount / path.strip("/")


def read_number(file: Path) -> int | None:
    """Return the number in a file; None for `max`, or if it cannot be read."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def read_table(file: Path) -> dict[str, int]:
    """Return the numbers in a file by name; empty if it cannot be read."""
    try:
        pairs = [line.split(" ", 1) for line in file.read_text().splitlines()]
    except OSError:
        return {}
    return {pair[0]: number for pair in pairs if (number := whole_number(pair[-1], 20)) is not None and len(pair) == 2}
