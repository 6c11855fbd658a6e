"""Makes kubelet's Summary."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import asdict

from beehive import Clock
from edged.cgroups.hierarchies import Hierarchy
from edged.cgroups.names import CgroupNames, CgroupPath
from edged.cgroups.usage import UsageFiles
from edged.cri.contract import ContainerRuntime
from edged.pods.labels import CONTAINER_NAME, POD_UID, ref_of
from edged.pods.model import PodUid
from edged.pods.paths import PodPaths
from edged.settings.cgroups import CgroupSettings
from edged.stats.model import (
    ContainerStats,
    FsStats,
    NetworkStats,
    NodeStats,
    PodReference,
    PodStats,
    ProcessStats,
    PvcRef,
    RuntimeStats,
    Summary,
    VolumeStats,
)
from edged.stats.pod_disks import PodDisk, PodDisks
from edged.stats.procfs_usage import ProcfsUsage, file_system, part_of
from edged.stats.usage import CpuRates, ResourceUsage, cpu_stats, memory_stats, total
from edged.volumes.claims import claim_of
from modules.apimachinery.pods.qos import qos_class
from modules.apimachinery.types import Nanoseconds, Pod, Time, format_time
from protos.cri.v1 import api_pb2 as cri

FRESH = 2.0
"""Seconds that a summary is reused. Less would make the average of processor time jump."""
DISK_PERIOD = 60.0
"""Seconds that a count of files holds (kubelet's volumeStatsAggPeriod)."""


class CgroupUsage:
    """The reader of the resource usage of control groups.

    Args:
        hierarchies: of the machine, the unified one with its controllers.
    """

    def __init__(self, hierarchies: Iterable[Hierarchy]) -> None:
        self._files = UsageFiles(hierarchies)

    def read(self, path: CgroupPath, at: Nanoseconds) -> ResourceUsage | None:
        """Return the current usage; None for a missing cgroup, or one without controllers."""
        usage = self._files.read(path)
        return None if usage is None else ResourceUsage(at, *usage)

    def process(self, path: CgroupPath) -> int | None:
        """Return a process in a cgroup below this one; None without any."""
        return self._files.process(path)


class StatsProvider:
    """The provider of the Summary of the node and its pods, made on request. Thread-safe.

    Nothing is measured without a request, and a fresh summary is reused, so that several requesters (a polling page,
    evictions) cost no more than one. A measurement calls the container runtime three times, for any number of pods.

    Args:
        node_name: of this node.
        paths: of pods and logs.
        clock: for the times of measurements.
        pods: returns the pods of this node.
        cgroups: settings, for their names.
        hierarchies: usage of cgroups; None when pods have no cgroups.
        machine: usage of the machine.
        local_volumes: returns the names of pods' local volumes by their directories.
    """

    def __init__(
        self,
        node_name: str,
        paths: PodPaths,
        clock: Clock,
        pods: Callable[[], tuple[Pod, ...]],
        *,
        cgroups: CgroupSettings,
        hierarchies: CgroupUsage | None,
        machine: ProcfsUsage | None = None,
        local_volumes: Callable[[], Mapping[Path, str]] = dict,
    ) -> None:
        self._node_name = node_name
        self._root = paths.root
        self._clock = clock
        self._pods = pods
        self._names = CgroupNames(cgroups.driver, cgroups.root)
        self._hierarchies = hierarchies
        self._machine = machine or ProcfsUsage()
        self._disks = PodDisks(paths, clock, DISK_PERIOD, local_volumes)
        self._rates = CpuRates()
        self._lock = threading.Lock()
        self._last: dict[bool, tuple[float, Summary]] = {}

    def summary(self, runtime: ContainerRuntime, *, disk: bool = True, anew: bool = False) -> Summary:
        """Return the current usage, at most `FRESH` seconds old. Raises CriError.

        Args:
            runtime: the container runtime.
            disk: whether to count files; without it there are CPU and memory only.
            anew: measure again, files too, even if there is a fresh summary.
        """
        with self._lock:
            now = self._clock.monotonic()
            for whole in {True, disk}:
                made, summary = self._last.get(whole, (float("-inf"), None))
                if summary is not None and not anew and 0 <= now - made < FRESH:
                    return summary
            if anew:
                self._disks.keep(set())
            summary = self._measure(runtime, disk=disk)
            self._last = {disk: (now, summary)}
            return summary

    def _measure(self, runtime: ContainerRuntime, *, disk: bool) -> Summary:
        at = Nanoseconds(self._clock.now_ns())
        running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING))
        ids = {container.id for container in runtime.list_containers(running)}
        runs = by_pod(runtime.list_container_stats(), ids)
        pods = self._pods()
        node_fs = file_system(self._root, at) if disk else None
        images = _image_fs(runtime.image_fs_info(), at) if disk else None
        found = []
        for pod in pods:
            ref = ref_of(pod)
            counted = self._disks.of(ref) if disk else None
            found.append(
                pod_stats(
                    pod, runs.get(ref.uid, []), self._of_pod(pod, at), counted, rates=self._rates, node_fs=node_fs,
                    images=images, network=self._network_of(pod, at) if disk else None, at=at,
                )
            )  # fmt: skip
        self._disks.keep({ref_of(pod).uid for pod in pods})
        summary = Summary(self._node(at, node_fs, images), tuple(sorted(found, key=_order)))
        self._rates.rotate()
        return summary

    def _of_pod(self, pod: Pod, at: Nanoseconds) -> ResourceUsage | None:
        if self._hierarchies is None:
            return None
        return self._hierarchies.read(self._names.of_pod(ref_of(pod).uid, qos_class(pod)), at)

    def _network_of(self, pod: Pod, at: Nanoseconds) -> NetworkStats | None:
        """Return the traffic of a pod with a network of its own, as one of its processes sees it."""
        if self._hierarchies is None or pod.spec.host_network:
            return None
        process = self._hierarchies.process(self._names.of_pod(ref_of(pod).uid, qos_class(pod)))
        return None if process is None else self._machine.network(at, process)

    def _node(self, at: Nanoseconds, node_fs: FsStats | None, images: FsStats | None) -> NodeStats:
        usage, agent = self._machine.node(at), self._machine.agent(at)
        pods = self._hierarchies.read(self._names.pods, at) if self._hierarchies is not None else None
        system = [self._system("kubelet", agent, self._machine.agent_start())]
        if pods is not None:
            system.append(self._system("pods", pods))
        return NodeStats(
            node_name=self._node_name,
            system_containers=tuple(system),
            start_time=self._machine.boot_time(),
            cpu=cpu_stats(usage, self._rates.nano_cores("node", usage)),
            memory=memory_stats(usage),
            network=self._machine.network(at),
            fs=node_fs,
            runtime=RuntimeStats(images, images) if images is not None else None,
            rlimit=self._machine.rlimit(at),
        )

    def _system(self, name: str, usage: ResourceUsage, start: Time | None = None) -> ContainerStats:
        rate = self._rates.nano_cores(f"system/{name}", usage)
        return ContainerStats(name=name, start_time=start, cpu=cpu_stats(usage, rate), memory=memory_stats(usage))


def _image_fs(answers: Sequence[cri.FilesystemUsage], at: Nanoseconds) -> FsStats | None:
    """Return the first file system of images, with the images' usage of it from the runtime."""
    if not answers:
        return None
    answer = answers[0]
    whole = file_system(Path(answer.fs_id.mountpoint), at)
    return part_of(whole, int(answer.used_bytes.value), int(answer.inodes_used.value), at)


def _order(stats: PodStats) -> tuple[str, str]:
    return stats.pod_ref.namespace, stats.pod_ref.name


def by_pod(stats: Iterable[cri.ContainerStats], running: set[str]) -> dict[PodUid, list[cri.ContainerStats]]:
    """Return the runtime's stats of running containers, by pod; containerd lists ended ones too."""
    found: dict[PodUid, list[cri.ContainerStats]] = {}
    for each in stats:
        uid = each.attributes.labels.get(POD_UID)
        if uid and each.attributes.id in running:
            found.setdefault(PodUid(uid), []).append(each)
    return found


def usage_of(stats: cri.ContainerStats, at: Nanoseconds) -> ResourceUsage:
    """Return one container's usage from the runtime's stats, with their own time."""
    memory = stats.memory
    available = _value(memory, "available_bytes")
    working_set = _value(memory, "working_set_bytes")
    return ResourceUsage(
        at=Nanoseconds(stats.cpu.timestamp or at),
        cpu=_value(stats.cpu, "usage_core_nano_seconds"),
        memory=_value(memory, "usage_bytes"),
        working_set=working_set,
        rss=_value(memory, "rss_bytes"),
        limit=None if not available else available + (working_set or 0),
        faults=_value(memory, "page_faults"),
        major_faults=_value(memory, "major_page_faults"),
    )


def pod_stats(
    pod: Pod, runs: list[cri.ContainerStats], own: ResourceUsage | None, disk: PodDisk | None, *, rates: CpuRates,
    node_fs: FsStats | None, images: FsStats | None, network: NetworkStats | None, at: Nanoseconds,
) -> PodStats:  # fmt: skip
    """Return one pod's stats. `own` is the usage of its cgroup; without it its containers are summed up."""
    meta = pod.metadata
    usage = own or total((usage_of(each, at) for each in runs), at)
    containers = tuple(_container(pod, each, disk, rates, node_fs, images, at) for each in runs)
    return PodStats(
        pod_ref=PodReference(meta.name, meta.namespace, meta.uid),
        start_time=pod.status.start_time,
        containers=containers,
        cpu=cpu_stats(usage, rates.nano_cores(meta.uid, usage)),
        memory=memory_stats(usage),
        network=network,
        volume=tuple(_volumes(pod, disk, node_fs, at)) if disk is not None else (),
        ephemeral_storage=_ephemeral(containers, disk, node_fs, at) if disk is not None else None,
        process_stats=None if usage.processes is None else ProcessStats(usage.processes),
    )


def _container(
    pod: Pod, stats: cri.ContainerStats, disk: PodDisk | None, rates: CpuRates, node_fs: FsStats | None,
    images: FsStats | None, at: Nanoseconds,
) -> ContainerStats:  # fmt: skip
    name = stats.attributes.labels.get(CONTAINER_NAME, stats.attributes.metadata.name)
    usage, layer = usage_of(stats, at), stats.writable_layer
    log = disk.logs.get(name) if disk is not None else None
    used, inodes = _value(layer, "used_bytes"), _value(layer, "inodes_used")
    return ContainerStats(
        name=name,
        start_time=_started(pod, name),
        cpu=cpu_stats(usage, rates.nano_cores(f"{pod.metadata.uid}/{name}", usage)),
        memory=memory_stats(usage),
        rootfs=None if used is None else part_of(images, used, inodes, at),
        logs=None if log is None else part_of(node_fs, log.size, log.inodes, at),
    )


def _ephemeral(
    containers: Iterable[ContainerStats], disk: PodDisk, node_fs: FsStats | None, at: Nanoseconds
) -> FsStats:
    """Return the sum of layers, logs, and volumes on the node's disk (kubelet's calcEphemeralStorage)."""
    layers = [each.rootfs for each in containers if each.rootfs is not None]
    counted = [*disk.logs.values(), disk.rest, *(each.usage for each in disk.volumes if each.usage is not None)]
    used = sum(layer.used_bytes or 0 for layer in layers) + sum(each.size for each in counted)
    inodes = sum(layer.inodes_used or 0 for layer in layers) + sum(each.inodes for each in counted)
    return part_of(node_fs, used, inodes, at)


def _volumes(pod: Pod, disk: PodDisk, node_fs: FsStats | None, at: Nanoseconds) -> Iterable[VolumeStats]:
    claims = {volume.name: claim_of(pod, volume) for volume in pod.spec.volumes}
    for volume in disk.volumes:
        claim = claims.get(volume.name)
        reference = PvcRef(claim.name, pod.metadata.namespace) if claim is not None else None
        if (own := volume.usage) is not None:
            stats = part_of(node_fs, own.size, own.inodes, at)
        else:
            stats = file_system(volume.directory, at) or FsStats(format_time(at))
        yield VolumeStats(name=volume.name, pvc_ref=reference, **asdict(stats))


def _started(pod: Pod, name: str) -> Time | None:
    everyone = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    running = next((status.state.running for status in everyone if status.name == name), None)
    return running.started_at if running is not None else None


def _value(message: cri.CpuUsage | cri.MemoryUsage | cri.FilesystemUsage, name: str) -> int | None:
    return int(getattr(message, name).value) if message.HasField(name) else None  # type: ignore[arg-type]
