"""The usage of containers and pods as CRI messages."""

from collections.abc import Iterable

from modules.runtimes.cri_server.model import RuntimeContainer, Sandbox
from protos.cri.v1 import api_pb2 as cri


def container_stats(
    container: RuntimeContainer,
    cpu: cri.CpuUsage,
    memory: cri.MemoryUsage,
    writable_layer: cri.FilesystemUsage | None = None,
) -> cri.ContainerStats:
    """Return the usage of a container."""
    return cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=container.config.metadata,
            labels=container.config.labels,
            annotations=container.config.annotations,
        ),
        cpu=cpu,
        memory=memory,
        writable_layer=writable_layer,
    )


def sandbox_stats(
    sandbox: Sandbox,
    cpu: cri.CpuUsage,
    memory: cri.MemoryUsage,
    processes: int | None,
    containers: Iterable[cri.ContainerStats],
) -> cri.PodSandboxStats:
    """Return the usage of a pod, and of each of its containers."""
    return cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        ),
        linux=cri.LinuxPodSandboxStats(
            cpu=cpu,
            memory=memory,
            process=cri.ProcessUsage(timestamp=cpu.timestamp, process_count=value_of(processes)),
            containers=containers,
        ),
    )


def cpu_usage(at: int, nanoseconds: int | None) -> cri.CpuUsage:
    """Return the processor time since the start; `at` in nanoseconds since the epoch."""
    return cri.CpuUsage(timestamp=at, usage_core_nano_seconds=value_of(nanoseconds))


def value_of(number: int | None) -> cri.UInt64Value:
    """Return a number as CRI's; 0 for an unknown one."""
    return cri.UInt64Value(value=number or 0)
