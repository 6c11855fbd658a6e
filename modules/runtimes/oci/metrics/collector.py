"""Collects the metrics of pods and their containers for ListPodSandboxMetrics."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.opening import machine_hierarchies
from edged.cgroups.usage import read_number, read_table
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.oci.images import RootFilesystems
from modules.runtimes.oci.metrics.descriptors import Sample, metrics
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.stats import control_group
from protos.cri.v1 import api_pb2 as cri

_DEV: Final = Path("/proc/thread-self/net/dev")
"""`/proc/self` is the main thread, which stays in the machine's network."""
_SECOND: Final = 1_000_000_000
_RECEIVE: Final = ("bytes", "packets", "errors", "packets_dropped")
"""The first columns of /proc/net/dev; the other direction's are the same, eight further."""
_TRANSMIT_AT: Final = 8
_MOST_INTERFACES: Final = 256
_MOST_CHARACTERS: Final = 1024 * 1024
"""Of a file of the kernel's."""
_MOST_PROCESSES: Final = 4096
_MOST_LINKS: Final = 16_384
"""Descriptors of a container that are looked at for sockets; more are counted only."""
_OPEN_FILES: Final = "Max open files"

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_MICROSECONDS: Final = 1_000_000
_NANOSECONDS: Final = 1_000_000_000
_MOST_DEVICES: Final = 256
_PAGE_SIZES: Final = 16


def process_samples(processes: Sequence[int]) -> Iterator[Sample]:
    """Yield the metrics of processes; a process that has ended meanwhile has no descriptors and sockets."""
    descriptors, sockets = _descriptors(processes[:_MOST_PROCESSES])
    yield Sample("container_processes", len(processes))
    yield Sample("container_file_descriptors", descriptors)
    yield Sample("container_sockets", sockets)


def limit_samples(process: int) -> Iterator[Sample]:
    """Yield the soft limits of a process; -1 (unlimited) counts as 0."""
    try:
        lines = Path(f"/proc/{process}/limits").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith(_OPEN_FILES):
            soft = line.removeprefix(_OPEN_FILES).split()[0]
            yield Sample("container_ulimits_soft", int(soft) if soft.isdecimal() else 0, ("max_open_files",))


def _descriptors(processes: Sequence[int]) -> tuple[int, int]:
    descriptors = sockets = 0
    for process in processes:
        directory = f"/proc/{process}/fd"
        try:
            names = os.listdir(directory)  # noqa: PTH208
        except OSError:
            continue
        looked_at = max(0, _MOST_LINKS - descriptors)
        sockets += sum(_is_socket(f"{directory}/{name}") for name in names[:looked_at])
        descriptors += len(names)
    return descriptors, sockets


def _is_socket(path: str) -> bool:
    try:
        return os.readlink(path).startswith("socket:")  # noqa: PTH115
    except OSError:
        return False


class MetricsCollector:
    """The meter of pods.

    Args:
        roots: has the containers' writable layers.
        namespaces: has the pods' networks.
        clock: for the time of a measurement.
    """

    def __init__(self, roots: RootFilesystems, namespaces: PodNamespaces, clock: Clock) -> None:
        self._roots = roots
        self._namespaces = namespaces
        self._clock = clock
        self._hierarchies = machine_hierarchies()
        self._groups = GroupMetrics(self._hierarchies)

    def of_pod(self, sandbox: Sandbox, containers: Sequence[OciContainer]) -> cri.PodSandboxMetrics:
        """Return the metrics of a pod: its network's and its running containers'."""
        now = self._clock.now_ns()
        metadata = sandbox.config.metadata
        pod = (metadata.namespace, metadata.name)
        labels = ("", sandbox.config.linux.cgroup_parent, "", sandbox.id, *pod)
        return cri.PodSandboxMetrics(
            pod_sandbox_id=sandbox.id,
            metrics=metrics(list(self._network(sandbox)), labels, now),
            container_metrics=[
                self._container(each, pod, now) for each in containers if each.state == cri.CONTAINER_RUNNING
            ],
        )

    def _container(self, container: OciContainer, pod: tuple[str, str], now: int) -> cri.ContainerMetrics:
        pid = container.run.pid if container.run else 0
        group = control_group(pid, container.id, self._hierarchies)
        config = container.config
        labels = (config.metadata.name, group, config.image.user_specified_image or config.image.image, container.id)
        samples = [*_asked(config.linux.resources), *_disk(container.directory, self._roots)]
        if group:
            samples += [*self._groups.read(group), *process_samples(self._groups.processes(group)), *limit_samples(pid)]
        samples.append(Sample("container_last_seen", now // _SECOND))
        samples.append(
            Sample("container_start_time_seconds", container.run.started_at // _SECOND if container.run else 0)
        )
        return cri.ContainerMetrics(container_id=container.id, metrics=metrics(samples, (*labels, *pod), now))

    def _network(self, sandbox: Sandbox) -> Iterator[Sample]:
        """Yield the counters of a pod's interfaces; nothing for a pod on the machine's network."""
        pinned = self._namespaces.pinned(sandbox.id)
        if pinned is None or pinned.network is None:
            return
        try:
            lines = in_network_namespace(pinned.network, lambda: _lines(_DEV))
        except OSError:  # the pod is being stopped
            return
        for line in lines[2 : 2 + _MOST_INTERFACES]:
            yield from _interface(line)


def _interface(line: str) -> Iterator[Sample]:
    """Yield the figures of a line of /proc/net/dev."""
    name, _, rest = line.partition(":")
    columns, label = rest.split(), (name.strip(),)
    if label == ("lo",) or len(columns) < _TRANSMIT_AT + len(_RECEIVE):
        return
    for number, kind in enumerate(_RECEIVE):
        yield Sample(f"container_network_receive_{kind}_total", int(columns[number]), label)
        yield Sample(f"container_network_transmit_{kind}_total", int(columns[_TRANSMIT_AT + number]), label)


def _disk(directory: Path, roots: RootFilesystems) -> Iterator[Sample]:
    """Yield the use of the writable layer, and the file system that it is on."""
    try:
        whole, device = os.statvfs(directory), directory.stat().st_dev
    except OSError:  # it is being removed
        return
    label = (device_name(os.major(device), os.minor(device)),)
    yield Sample("container_fs_usage_bytes", roots.usage(directory).bytes, label)
    yield Sample("container_fs_limit_bytes", whole.f_blocks * whole.f_frsize, label)
    yield Sample("container_fs_inodes_total", whole.f_files, label)
    yield Sample("container_fs_inodes_free", whole.f_favail, label)


def _asked(resources: cri.LinuxContainerResources) -> Iterator[Sample]:
    """Yield the limits that a container asks for."""
    yield Sample("container_spec_cpu_period", resources.cpu_period)
    yield Sample("container_spec_cpu_shares", resources.cpu_shares)
    yield Sample("container_spec_memory_limit_bytes", resources.memory_limit_in_bytes)
    yield Sample("container_spec_memory_reservation_limit_bytes", 0)
    yield Sample("container_spec_memory_swap_limit_bytes", resources.memory_swap_limit_in_bytes)
    if resources.cpu_quota > 0:
        yield Sample("container_spec_cpu_quota", resources.cpu_quota)


class GroupMetrics:
    """The reader of containers' control groups.

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
    """Return the lines of a file of the kernel's; a pod with NET_ADMIN names its interfaces as it likes."""
    try:
        with file.open(errors="replace") as opened:
            return [line for line in opened.read(_MOST_CHARACTERS).splitlines() if line]
    except OSError:
        return []
