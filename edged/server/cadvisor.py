"""`/metrics/cadvisor`: use of containers under cAdvisor's names and labels, which dashboards for kubelets ask for.

Only the figures of `/stats/summary` are served: no network, disk traffic or processor throttling of containers.
"""

from collections.abc import Iterable, Iterator

from edged.server.samples import Sample, milliseconds, prometheus_text
from edged.stats.model import ContainerStats, CpuStats, FsStats, MemoryStats, PodReference, Summary
from modules.apimachinery.types import Pod, parse_time
from modules.apimachinery.types.pod_status import ContainerStatus

_CPU = "container_cpu_usage_seconds_total"
_FAILURES = "container_memory_failures_total"
_DISK = "container_fs_usage_bytes"
_START = "container_start_time_seconds"
_NAMES = {
    _CPU: ("counter", "Cumulative cpu time consumed in seconds."),
    _DISK: ("gauge", "Number of bytes that are consumed by the container on this filesystem."),
    _FAILURES: ("counter", "Cumulative count of memory allocation failures."),
    "container_memory_rss": ("gauge", "Size of RSS in bytes."),
    "container_memory_usage_bytes": (
        "gauge",
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
    ),
    "container_memory_working_set_bytes": ("gauge", "Current working set in bytes."),
    _START: ("gauge", "Start time of the container since unix epoch in seconds."),
}


def cadvisor_text(summary: Summary, pods: Iterable[Pod]) -> str:
    """Return the metrics of a summary.

    Args:
        summary: of the node.
        pods: the pods whose statuses name the images and the runtime's identifiers.
    """
    statuses = {pod.metadata.uid: _statuses(pod) for pod in pods}
    return prometheus_text(_NAMES, _samples(summary, statuses))


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    lists = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    return {each.name: each for some in lists for each in some}


def _samples(summary: Summary, statuses: dict[str, dict[str, ContainerStatus]]) -> Iterator[Sample]:
    yield from _used(_labels("/"), summary.node.cpu, summary.node.memory)
    for pod in summary.pods:
        of_pod = f"/kubepods/pod{pod.pod_ref.uid}"
        yield from _used(_labels(of_pod, pod=pod.pod_ref), pod.cpu, pod.memory)
        for container in pod.containers:
            status = statuses.get(pod.pod_ref.uid, {}).get(container.name, ContainerStatus())
            own = status.container_id.rpartition("//")[2]
            labels = _labels(f"{of_pod}/{own}", container.name, status.image, own, pod.pod_ref)
            yield from _of_container(labels, container)


def _labels(
    place: str, container: str = "", image: str = "", name: str = "", pod: PodReference | None = None
) -> dict[str, str]:
    of_pod = {"namespace": pod.namespace, "pod": pod.name} if pod else {"namespace": "", "pod": ""}
    return {"container": container, "id": place, "image": image, "name": name, **of_pod}


def _of_container(labels: dict[str, str], container: ContainerStats) -> Iterator[Sample]:
    yield from _used(labels, container.cpu, container.memory)
    disk: FsStats | None = container.rootfs
    if disk is not None and disk.used_bytes is not None:
        yield _DISK, {**labels, "device": ""}, disk.used_bytes, milliseconds(disk.time)
    if container.start_time is not None:
        yield _START, labels, parse_time(container.start_time) / 1e9, ""


def _used(labels: dict[str, str], cpu: CpuStats | None, memory: MemoryStats | None) -> Iterator[Sample]:
    if cpu is not None and cpu.usage_core_nano_seconds is not None:
        yield _CPU, {**labels, "cpu": "total"}, cpu.usage_core_nano_seconds / 1e9, milliseconds(cpu.time)
    if memory is None:
        return
    time = milliseconds(memory.time)
    for name, value in (
        ("rss", memory.rss_bytes),
        ("usage_bytes", memory.usage_bytes),
        ("working_set_bytes", memory.working_set_bytes),
    ):
        if value is not None:
            yield f"container_memory_{name}", labels, value, time
    for kind, count in (("pgfault", memory.page_faults), ("pgmajfault", memory.major_page_faults)):
        if count is not None:
            yield _FAILURES, {**labels, "failure_type": kind, "scope": "container"}, count, time
