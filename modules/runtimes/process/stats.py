"""Usage of containers, from /proc. Without cgroups, a container is its shim's descendants."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.views import container_stats, cpu_usage, sandbox_stats, value_of
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.shim.procfs import ProcessStat, descendants
from modules.runtimes.shim.protocol import Pid
from protos.cri.v1 import api_pb2 as cri

_NANOSECONDS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ProcessesUsage(NamedTuple):
    """Sums over processes. `cpu_ns` includes ended children; `memory` is resident memory, in bytes."""

    cpu_ns: int = 0
    memory: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0

    def plus(self, other: "ProcessesUsage") -> "ProcessesUsage":
        """Return the sum of both."""
        return ProcessesUsage(*(mine + its for mine, its in zip(self, other, strict=True)))


def measure(container: ProcessContainer, processes: dict[Pid, ProcessStat]) -> ProcessesUsage:
    """Return the usage of the container; zero when it does not run."""
    main = processes.get(Pid(container.run.pid)) if container.run and not container.exit else None
    if main is None:
        return ProcessesUsage()
    shim = processes.get(main.parent)
    found = descendants(main.parent, processes)
    orphans = shim.reaped_ticks if shim else 0
    return ProcessesUsage(
        cpu_ns=(orphans + sum(each.own_ticks + each.reaped_ticks for each in found)) * _NANOSECONDS_PER_TICK,
        memory=sum(each.resident_pages for each in found) * _PAGE,
        page_faults=sum(each.minor_faults for each in found),
        major_page_faults=sum(each.major_faults for each in found),
        processes=len(found),
    )


def container_usage(container: ProcessContainer, usage: ProcessesUsage, now_ns: int) -> cri.ContainerStats:
    """Return one container's usage as a CRI message."""
    return container_stats(container, cpu_usage(now_ns, usage.cpu_ns), _memory(usage, now_ns))


def sandbox_usage(
    sandbox: Sandbox, members: Iterable[tuple[ProcessContainer, ProcessesUsage]], now_ns: int
) -> cri.PodSandboxStats:
    """Return a pod's usage: the sum of its containers, and each of them."""
    members = list(members)
    total = ProcessesUsage()
    for _, usage in members:
        total = total.plus(usage)
    containers = [container_usage(container, usage, now_ns) for container, usage in members]
    return sandbox_stats(sandbox, cpu_usage(now_ns, total.cpu_ns), _memory(total, now_ns), total.processes, containers)


def _memory(usage: ProcessesUsage, now_ns: int) -> cri.MemoryUsage:
    return cri.MemoryUsage(
        timestamp=now_ns,
        working_set_bytes=value_of(usage.memory),
        usage_bytes=value_of(usage.memory),
        rss_bytes=value_of(usage.memory),
        page_faults=value_of(usage.page_faults),
        major_page_faults=value_of(usage.major_page_faults),
    )
