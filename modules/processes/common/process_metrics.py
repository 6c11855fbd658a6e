"""The metrics of a process as in Prometheus' client libraries (`process_*`), and its version (`…_build_info`)."""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.exposition import Collector, GaugeFamily, MetricFamily, counter, gauge
from modules.processes.common.version import COMMIT, VERSION

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STARTED: Final = 19
"""Index of `starttime` in /proc/self/stat, after the name (proc(5))."""


class ProcessCollector(Collector):
    """The collector of processor time, memory, descriptors and start of this process, and its version.

    Args:
        program: `edgecore` or `cloudcore`.
        proc: where the kernel has processes.
    """

    def __init__(self, program: str, proc: Path = Path("/proc")) -> None:
        self._program = program
        self._proc = proc

    def collect(self) -> list[MetricFamily]:
        """Return the present values, as far as the kernel has them."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = used.ru_utime + used.ru_stime
        cpu = counter("process_cpu_seconds", "User and system processor time in seconds.", seconds)
        families: list[MetricFamily] = [self._build(), cpu]
        with suppress(OSError, ValueError, IndexError):
            families.append(gauge("process_resident_memory_bytes", "Resident memory in bytes.", self._resident()))
        with suppress(OSError, ValueError, IndexError):
            families.append(gauge("process_start_time_seconds", "Start in seconds since 1970.", self._start()))
        with suppress(OSError):
            families.append(gauge("process_open_fds", "Open file descriptors.", self._descriptors()))
            families.append(gauge("process_max_fds", "Limit of open file descriptors.", _limit()))
        return families

    def _build(self) -> MetricFamily:
        labels = ("version", "commit")
        if self._program == "edgecore":
            build = GaugeFamily("edgecore_build_info", "Version of edgecore; always 1.", labels)
        else:
            build = GaugeFamily("cloudcore_build_info", "Version of cloudcore; always 1.", labels)
        build.add_metric((VERSION, COMMIT), 1)
        return build

    def _resident(self) -> float:
        return int((self._proc / "self/statm").read_text().split()[1]) * _PAGE

    def _descriptors(self) -> float:
        return sum(1 for _ in (self._proc / "self/fd").iterdir())

    def _start(self) -> float:
        since_boot = int((self._proc / "self/stat").read_text().rpartition(")")[2].split()[_STARTED]) / _TICKS
        lines = (self._proc / "stat").read_text().splitlines()
        return since_boot + next(int(line.split()[1]) for line in lines if line.startswith("btime "))


def _limit() -> float:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
