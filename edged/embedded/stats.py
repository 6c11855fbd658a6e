"""What containers use, from /proc. There is no cgroup: a container is its shepherd's descendants."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from edged.embedded.model import Container, Sandbox
from edged.embedded.shepherd.procfs import ProcessStat, descendants
from edged.embedded.shepherd.protocol import Pid
from protos.cri.v1 import api_pb2 as cri

_NANOSECONDS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage(NamedTuple):
    """Sums over processes. `cpu_ns` counts children that ended as well; `memory` is resident memory, in bytes."""

    cpu_ns: int = 0
    memory: int = 0
    page_faults: int = 0
    major_page_faults: int = 0
    processes: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(*(mine + its for mine, its in zip(self, other, strict=True)))


def measure(container: Container, processes: dict[Pid, ProcessStat]) -> Usage:
    """What the container uses; nothing when it does not run."""
    main = processes.get(Pid(container.run.pid)) if container.run and not container.exit else None
    if main is None:
        return Usage()
    shepherd = processes.get(main.parent)
    found = descendants(main.parent, processes)
    orphans = shepherd.reaped_ticks if shepherd else 0
    return Usage(
        cpu_ns=(orphans + sum(each.own_ticks + each.reaped_ticks for each in found)) * _NANOSECONDS_PER_TICK,
        memory=sum(each.resident_pages for each in found) * _PAGE,
        page_faults=sum(each.minor_faults for each in found),
        major_page_faults=sum(each.major_faults for each in found),
        processes=len(found),
    )


def container_stats(container: Container, usage: Usage, now_ns: int) -> cri.ContainerStats:
    """One container's figures as CRI has them."""
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=container.config.metadata,
            labels=container.config.labels,
            annotations=container.config.annotations,
        ),
        cpu=_cpu(usage, now_ns),
        memory=_memory(usage, now_ns),
    )


def sandbox_stats(sandbox: Sandbox, members: Iterable[tuple[Container, Usage]], now_ns: int) -> cri.PodSandboxStats:
    """A pod's figures: the sum of its containers, and each of them."""
    members = list(members)
    total = Usage()
    for _, usage in members:
        total = total.plus(usage)
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=cri.LinuxPodSandboxStats(
            cpu=_cpu(total, now_ns),
            memory=_memory(total, now_ns),
            process=cri.ProcessUsage(timestamp=now_ns, process_count=_value(total.processes)),
            containers=[container_stats(container, usage, now_ns) for container, usage in members],
        ),
    )


def _cpu(usage: Usage, now_ns: int) -> cri.CpuUsage:
    return cri.CpuUsage(timestamp=now_ns, usage_core_nano_seconds=_value(usage.cpu_ns))


def _memory(usage: Usage, now_ns: int) -> cri.MemoryUsage:
    return cri.MemoryUsage(
        timestamp=now_ns,
        working_set_bytes=_value(usage.memory),
        usage_bytes=_value(usage.memory),
        rss_bytes=_value(usage.memory),
        page_faults=_value(usage.page_faults),
        major_page_faults=_value(usage.major_page_faults),
    )


def _value(number: int) -> cri.UInt64Value:
    return cri.UInt64Value(value=number)
