"""The stats of a pod from its sources: cgroup, container runtime, disk. Pure."""

from collections.abc import Iterable

from msgspec.structs import asdict

from edged.api import Nanoseconds, Pod, Time, format_time
from edged.pods.labels import CONTAINER_NAME, POD_UID
from edged.pods.model import PodUid
from edged.stats.model import (
    ContainerStats,
    FsStats,
    PodReference,
    PodStats,
    ProcessStats,
    PvcRef,
    VolumeStats,
)
from edged.stats.pod_disks import PodDisk
from edged.stats.procfs_usage import taken
from edged.stats.usage import CpuRates, ResourceUsage, cpu_stats, memory_stats, total
from protos.cri.v1 import api_pb2 as cri


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
    node_fs: FsStats | None, at: Nanoseconds,
) -> PodStats:  # fmt: skip
    """Return one pod's stats. `own` is the usage of its cgroup; without it its containers are summed up."""
    meta = pod.metadata
    usage = own or total((usage_of(each, at) for each in runs), at)
    containers = tuple(_container(pod, each, disk, rates, node_fs, at) for each in runs)
    return PodStats(
        pod_ref=PodReference(meta.name, meta.namespace, meta.uid),
        start_time=pod.status.start_time,
        containers=containers,
        cpu=cpu_stats(usage, rates.nano_cores(meta.uid, usage)),
        memory=memory_stats(usage),
        volume=tuple(_volumes(pod, disk, node_fs, at)) if disk is not None else (),
        ephemeral_storage=_ephemeral(containers, disk, node_fs, at) if disk is not None else None,
        process_stats=None if usage.processes is None else ProcessStats(usage.processes),
    )


def _container(
    pod: Pod, stats: cri.ContainerStats, disk: PodDisk | None, rates: CpuRates, node_fs: FsStats | None, at: Nanoseconds
) -> ContainerStats:
    name = stats.attributes.labels.get(CONTAINER_NAME, stats.attributes.metadata.name)
    usage, layer = usage_of(stats, at), stats.writable_layer
    log = disk.logs.get(name) if disk is not None else None
    used, inodes = _value(layer, "used_bytes"), _value(layer, "inodes_used")
    return ContainerStats(
        name=name,
        start_time=_started(pod, name),
        cpu=cpu_stats(usage, rates.nano_cores(f"{pod.metadata.uid}/{name}", usage)),
        memory=memory_stats(usage),
        rootfs=None if used is None else FsStats(format_time(at), used_bytes=used, inodes_used=inodes),
        logs=None if log is None else taken(node_fs, log.size, log.inodes, at),
    )


def _ephemeral(
    containers: Iterable[ContainerStats], disk: PodDisk, node_fs: FsStats | None, at: Nanoseconds
) -> FsStats:
    """Return the sum of layers, logs, and volumes on the node's disk (kubelet's calcEphemeralStorage)."""
    layers = [each.rootfs for each in containers if each.rootfs is not None]
    counted = [*disk.logs.values(), disk.rest, *(volume.usage for volume in disk.volumes if volume.local)]
    used = sum(layer.used_bytes or 0 for layer in layers) + sum(each.size for each in counted)
    inodes = sum(layer.inodes_used or 0 for layer in layers) + sum(each.inodes for each in counted)
    return taken(node_fs, used, inodes, at)


def _volumes(pod: Pod, disk: PodDisk, node_fs: FsStats | None, at: Nanoseconds) -> Iterable[VolumeStats]:
    claims = {volume.name: volume.persistent_volume_claim for volume in pod.spec.volumes}
    for volume in disk.volumes:
        claim = claims.get(volume.name)
        reference = PvcRef(claim.claim_name, pod.metadata.namespace) if claim is not None else None
        sizes = asdict(taken(node_fs if volume.local else None, volume.usage.size, volume.usage.inodes, at))
        yield VolumeStats(name=volume.name, pvc_ref=reference, **sizes)


def _started(pod: Pod, name: str) -> Time | None:
    everyone = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    running = next((status.state.running for status in everyone if status.name == name), None)
    return running.started_at if running is not None else None


def _value(message: cri.CpuUsage | cri.MemoryUsage | cri.FilesystemUsage, name: str) -> int | None:
    return int(getattr(message, name).value) if message.HasField(name) else None  # type: ignore[arg-type]
