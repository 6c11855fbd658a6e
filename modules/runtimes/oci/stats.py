"""The usage of containers and pods as CRI messages, from control groups and writable layers."""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from beehive.clock import Clock
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.opening import machine_hierarchies
from edged.cgroups.usage import GroupUsage, UsageFiles
from modules.runtimes.engine.model import RuntimeContainer, Sandbox
from modules.runtimes.engine.views import container_stats, cpu_usage, sandbox_stats, value_of
from modules.runtimes.oci.images.model import StorageUsage
from modules.runtimes.shim.procfs import all_processes
from protos.cri.v1 import api_pb2 as cri

_SECTOR: Final = 512
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_TICK: Final = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
"""Nanoseconds."""
_CONTROLLERS: Final = ("memory", "pids", "cpuacct", "")
"""Hierarchies in order: a process's first one gives its control group; "" is v2."""


class _Layers(Protocol):
    def usage(self, directory: Path) -> StorageUsage:
        """Return the disk usage of the writable layer of the container of a directory."""


class UsageMeter:
    """The meter of containers.

    Args:
        roots: has their writable layers.
        files: returns the further files of the machine's disk that a container may write, such as /etc/resolv.conf:
            without them a pod could fill the disk past its limit (as with /etc/hosts in CVE-2020-8557).
        clock: for the time of a measurement.
    """

    def __init__(self, roots: _Layers, files: Callable[[RuntimeContainer], Iterable[Path]], clock: Clock) -> None:
        self._roots = roots
        self._further = files
        self._clock = clock
        self._hierarchies = machine_hierarchies()
        self._files = UsageFiles(self._hierarchies)

    def of_container(self, container: RuntimeContainer) -> cri.ContainerStats:
        """Return the usage of one container; zero if it does not run."""
        return self._container(container, self._measure(container))

    def of_pod(self, sandbox: Sandbox, containers: Sequence[RuntimeContainer]) -> cri.PodSandboxStats:
        """Return the usage of a pod: the sum of its containers, and each of them."""
        usages = [self._measure(each) for each in containers]
        now = self._clock.now_ns()
        total = GroupUsage(*(sum(number or 0 for number in numbers) for numbers in zip(GroupUsage(), *usages)))  # noqa: B905 - all are GroupUsage
        members = [self._container(each, usage) for each, usage in zip(containers, usages, strict=True)]
        return sandbox_stats(sandbox, cpu_usage(now, total.cpu), _memory(total, now), total.processes, members)

    def _measure(self, container: RuntimeContainer) -> GroupUsage:
        if container.run is None or container.exit is not None:
            return GroupUsage()
        group = control_group(container.run.pid, container.id, self._hierarchies)
        return (self._files.read(group) if group else _usage_of_processes(container.run.pid)) or GroupUsage()

    def _container(self, container: RuntimeContainer, usage: GroupUsage) -> cri.ContainerStats:
        now, layer = self._clock.now_ns(), self._roots.usage(container.directory)
        writable_layer = cri.FilesystemUsage(
            timestamp=now,
            fs_id=cri.FilesystemIdentifier(mountpoint=str(container.directory)),
            used_bytes=value_of(layer.bytes + sum(map(_bytes_of, self._further(container)))),
            inodes_used=value_of(layer.inodes),
        )
        return container_stats(container, cpu_usage(now, usage.cpu), _memory(usage, now), writable_layer)


def _usage_of_processes(first: int) -> GroupUsage | None:
    """Return the usage of a container without a control group: that of the processes in its mounts; None if it has
    ended. Shared memory counts for each process.
    """
    mounts = _mounts_of(first)
    if not mounts:
        return None
    found = [each for each in all_processes().values() if _mounts_of(each.pid) == mounts]
    resident = sum(each.resident_pages for each in found) * _PAGE
    return GroupUsage(
        cpu=sum(each.own_ticks + each.reaped_ticks for each in found) * _TICK,
        memory=resident,
        working_set=resident,
        rss=resident,
        faults=sum(each.minor_faults for each in found),
        major_faults=sum(each.major_faults for each in found),
        processes=len(found),
    )


def _mounts_of(pid: int) -> str:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/mnt").readlink())
    return ""


def _bytes_of(file: Path) -> int:
    with suppress(OSError):
        return file.lstat().st_blocks * _SECTOR
    return 0


def control_group(pid: int, container_id: str, hierarchies: Iterable[Hierarchy]) -> str:
    """Return the path of a container's control group below each hierarchy's mount; "" if the process has ended.

    Args:
        pid: of the container's first process.
        container_id: of the container; it is in the names of its groups.
        hierarchies: of the machine.
    """
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return ""
    groups: dict[str, str] = {}
    for line in lines:
        _, names, path = line.split(":", 2)
        groups |= dict.fromkeys(names.split(","), path)
    for controller in _CONTROLLERS:
        path = groups.get(controller, "")
        for each in hierarchies:
            if controller in each.controllers or (each.unified and not controller):
                path = each.shown(path)
        if container_id in path:
            return path[: path.index(container_id) + len(container_id)] + (".scope" if ".scope" in path else "")
    return ""


def _memory(usage: GroupUsage, now: int) -> cri.MemoryUsage:
    available = None
    if usage.limit and usage.working_set is not None:
        available = value_of(max(0, usage.limit - usage.working_set))
    return cri.MemoryUsage(
        timestamp=now,
        working_set_bytes=value_of(usage.working_set),
        available_bytes=available,
        usage_bytes=value_of(usage.memory),
        rss_bytes=value_of(usage.rss),
        page_faults=value_of(usage.faults),
        major_page_faults=value_of(usage.major_faults),
    )
