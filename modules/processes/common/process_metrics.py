"""The metrics of a process as in Prometheus' client libraries (`process_*`), and its version (`…_build_info`)."""

import os
import resource
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.exposition import GaugeFamily, MetricFamily, counter, gauge
from modules.processes.common.version import COMMIT, VERSION

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STARTED: Final = 19
"""Index of `starttime` in /proc/self/stat, after the name (proc(5))."""


def process_metrics(program: str, proc: Path = Path("/proc")) -> list[MetricFamily]:
    """Return processor time, memory, descriptors and start of this process, as far as the kernel has them, and its
    version.

    Args:
        program: `edgecore` or `cloudcore`.
        proc: where the kernel has processes.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    labels = ("version", "commit")
    if program == "edgecore":
        build = GaugeFamily("edgecore_build_info", "Version of edgecore; always 1.", labels)
    else:
        build = GaugeFamily("cloudcore_build_info", "Version of cloudcore; always 1.", labels)
    build.add_metric((VERSION, COMMIT), 1)
    cpu = counter("process_cpu_seconds", "User and system processor time in seconds.", used.ru_utime + used.ru_stime)
    families: list[MetricFamily] = [build, cpu]
    with suppress(OSError, ValueError, IndexError):
        families.append(gauge("process_resident_memory_bytes", "Resident memory in bytes.", _resident(proc)))
    with suppress(OSError, ValueError, IndexError):
        families.append(gauge("process_start_time_seconds", "Start in seconds since 1970.", _start(proc)))
    with suppress(OSError):
        number, limit = sum(1 for _ in (proc / "self/fd").iterdir()), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        families.append(gauge("process_open_fds", "Open file descriptors.", number))
        families.append(gauge("process_max_fds", "Limit of open file descriptors.", limit))
    return families


def _resident(proc: Path) -> float:
    return int((proc / "self/statm").read_text().split()[1]) * _PAGE


def _start(proc: Path) -> float:
    since_boot = int((proc / "self/stat").read_text().rpartition(")")[2].split()[_STARTED]) / _TICKS
    lines = (proc / "stat").read_text().splitlines()
    return since_boot + next(int(line.split()[1]) for line in lines if line.startswith("btime "))
