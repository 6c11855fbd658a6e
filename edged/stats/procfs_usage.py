"""Resource usage of the whole machine, from /proc: independent of the version of cgroups, and readable for any user."""

import os
from collections.abc import Iterable
from pathlib import Path

from beehive.whole_numbers import whole_number
from edged.stats.model import FsStats, InterfaceStats, NetworkStats, RlimitStats
from edged.stats.usage import ResourceUsage
from modules.apimachinery.types import Nanoseconds, Time, format_time

_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_INTERFACES = 256
_MOST_CHARACTERS = 1024 * 1024
"""Of a file."""
_BUSY = (0, 1, 2, 5, 6, 7)
"""Fields of /proc/stat with busy time: user, nice, system, irq, softirq, steal."""


class ProcfsUsage:
    """The reader of the resource usage of the machine.

    Args:
        proc: mount point of the kernel's process file system.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def node(self, at: Nanoseconds) -> ResourceUsage:
        """Return the usage of all processes. The working set is all memory but free and inactive file pages
        (kubelet's).
        """
        memory = {line.partition(":")[0]: line.split() for line in self._lines("meminfo")}
        sizes = {name: int(words[1]) * 1024 for name, words in memory.items() if len(words) > 1}
        capacity, free = sizes.get("MemTotal", 0), sizes.get("MemFree", 0)
        ticks = [int(word) for word in next(iter(self._lines("stat")), "cpu").split()[1:]]
        events = {words[0]: int(words[1]) for line in self._lines("vmstat") if len(words := line.split()) == 2}
        return ResourceUsage(
            at,
            cpu=sum(ticks[index] for index in _BUSY if index < len(ticks)) * _TICK,
            memory=capacity - free,
            working_set=max(0, capacity - free - sizes.get("Inactive(file)", 0)),
            rss=sizes.get("AnonPages"),
            limit=capacity,
            faults=events.get("pgfault"),
            major_faults=events.get("pgmajfault"),
        )

    def agent(self, at: Nanoseconds) -> ResourceUsage:
        """Return the usage of this process."""
        fields = " ".join(self._lines("self/stat")).rpartition(")")[2].split()
        pages = " ".join(self._lines("self/statm")).split()
        if len(fields) < 13 or len(pages) < 2:
            return ResourceUsage(at)
        resident = int(pages[1]) * _PAGE
        return ResourceUsage(
            at, (int(fields[11]) + int(fields[12])) * _TICK, resident, resident, resident, None, int(fields[7]),
            int(fields[9]),
        )  # fmt: skip

    def agent_start(self) -> Time | None:
        """Return the time of this process's start."""
        boot, fields = self._boot(), " ".join(self._lines("self/stat")).rpartition(")")[2].split()
        return None if boot is None or len(fields) < 20 else format_time(Nanoseconds(boot + int(fields[19]) * _TICK))

    def boot_time(self) -> Time | None:
        """Return the time of the machine's boot."""
        boot = self._boot()
        return None if boot is None else format_time(boot)

    def _boot(self) -> Nanoseconds | None:
        lines = [line.split() for line in self._lines("stat") if line.startswith("btime ")]
        return Nanoseconds(int(lines[0][1]) * 1_000_000_000) if lines else None

    def rlimit(self, at: Nanoseconds) -> RlimitStats:
        """Return the number of processes and threads, and its limit."""
        load, most = " ".join(self._lines("loadavg")).split(), " ".join(self._lines("sys/kernel/pid_max")).strip()
        running = load[3].partition("/")[2] if len(load) > 3 else ""
        return RlimitStats(format_time(at), whole_number(most), whole_number(running))

    def network(self, at: Nanoseconds, process: int | None = None) -> NetworkStats:
        """Return the interfaces except the loopback; the default route's stands for all.

        Args:
            at: time of the measurement.
            process: whose network it is; the machine's without one.
        """
        place = "net" if process is None else f"{process}/net"
        found = tuple(_interface(line) for line in self._lines(f"{place}/dev")[2 : 2 + _MOST_INTERFACES])
        interfaces = tuple(each for each in found if each.name != "lo")
        routes = (line.split() for line in self._lines(f"{place}/route")[1:])
        name = next((words[0] for words in routes if len(words) > 1 and words[1] == "00000000"), "")
        main = next((each for each in interfaces if each.name == name), None)
        if main is None:
            return NetworkStats(format_time(at), interfaces=interfaces)
        return NetworkStats(
            format_time(at), name, main.rx_bytes, main.rx_errors, main.tx_bytes, main.tx_errors, interfaces
        )

    def _lines(self, name: str) -> list[str]:
        """Return the lines of a file; a pod with NET_ADMIN may have any number of routes and names of any bytes."""
        try:
            with (self._proc / name).open(errors="replace") as file:
                return file.read(_MOST_CHARACTERS).splitlines()
        except OSError:
            return []


def file_system(directory: Path, at: Nanoseconds) -> FsStats | None:
    """Return the stats of the file system with a directory; None if they cannot be read."""
    try:
        found = os.statvfs(directory)
    except OSError:
        return None
    return FsStats(
        time=format_time(at),
        available_bytes=found.f_bavail * found.f_frsize,
        capacity_bytes=found.f_blocks * found.f_frsize,
        used_bytes=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes_free=found.f_ffree,
        inodes=found.f_files,
        inodes_used=found.f_files - found.f_ffree,
    )


def part_of(whole: FsStats | None, used: int, inodes: int | None, at: Nanoseconds) -> FsStats:
    """Return the stats of a part of a file system."""
    if whole is None:
        return FsStats(format_time(at), used_bytes=used, inodes_used=inodes)
    return FsStats(
        format_time(at), whole.available_bytes, whole.capacity_bytes, used, whole.inodes_free, whole.inodes, inodes
    )


def _interface(line: str) -> InterfaceStats:
    name, _, numbers = line.partition(":")
    fields: Iterable[str] = numbers.split()
    words = list(fields)
    if len(words) < 11:
        return InterfaceStats(name.strip())
    return InterfaceStats(name.strip(), int(words[0]), int(words[2]), int(words[8]), int(words[10]))
