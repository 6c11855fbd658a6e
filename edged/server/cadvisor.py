"""`/metrics/cadvisor`: use of containers under cAdvisor's names and labels, which dashboards for kubelets ask for.

The figures are those of `/stats/summary`, and what else the container runtime counts (CRI's ListPodSandboxMetrics).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from edged.server.samples import Sample, milliseconds, prometheus_text
from edged.stats.model import ContainerStats, CpuStats, FsStats, MemoryStats, PodReference, PodStats, Summary
from modules.apimachinery.types import Pod, parse_time
from modules.apimachinery.types.pod_status import ContainerStatus
from protos.cri.v1 import api_pb2 as cri

_CPU = "container_cpu_usage_seconds_total"
_FAILURES = "container_memory_failures_total"
_DISK = "container_fs_usage_bytes"
_START = "container_start_time_seconds"
_NETWORK = "container_network_{}_total"
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
    _NETWORK.format("receive_bytes"): ("counter", "Cumulative count of bytes received"),
    _NETWORK.format("receive_errors"): ("counter", "Cumulative count of errors encountered while receiving"),
    _NETWORK.format("transmit_bytes"): ("counter", "Cumulative count of bytes transmitted"),
    _NETWORK.format("transmit_errors"): ("counter", "Cumulative count of errors encountered while transmitting"),
    _START: ("gauge", "Start time of the container since unix epoch in seconds."),
}


class RuntimeMetrics(Struct, frozen=True):
    """The metrics of pods that the container runtime counts."""

    descriptors: Sequence[cri.MetricDescriptor] = ()
    pods: Sequence[cri.PodSandboxMetrics] = ()


Place = tuple[str, str, str]
"""Namespace, pod and container; no container for what belongs to the pod."""


def cadvisor_text(summary: Summary, pods: Iterable[Pod], runtime: RuntimeMetrics) -> str:
    """Return the metrics of a summary, and those of the runtime that it has not.

    Args:
        summary: of the node.
        pods: the pods whose statuses name the images and the runtime's identifiers.
        runtime: metrics of the container runtime.
    """
    statuses = {pod.metadata.uid: _statuses(pod) for pod in pods}
    labels = dict(_labels_of_pods(summary, statuses))
    samples = list(_samples(summary, labels))
    further = _Further(runtime.descriptors, {sample[0] for sample in samples}, labels)
    samples += further.samples(runtime.pods)
    return prometheus_text({**further.names, **_NAMES}, samples)


class _Further:
    """Metrics of the runtime that the summary has not, with the labels that its metrics have.

    Args:
        descriptors: of the runtime's metrics.
        known: names of the metrics that are left out.
        labels: of pods and containers.
    """

    def __init__(
        self, descriptors: Iterable[cri.MetricDescriptor], known: set[str], labels: Mapping[Place, dict[str, str]]
    ) -> None:
        self._descriptors = {each.name: each for each in descriptors if each.name not in known}
        self._labels = labels
        self.names: dict[str, tuple[str, str]] = {}
        """Type and explanation of each metric that was found."""

    def samples(self, pods: Iterable[cri.PodSandboxMetrics]) -> Iterator[Sample]:
        """Yield the samples of the runtime's answer."""
        for pod in pods:
            for metric in (*pod.metrics, *(metric for each in pod.container_metrics for metric in each.metrics)):
                descriptor = self._descriptors.get(metric.name)
                if descriptor is None or len(descriptor.label_keys) != len(metric.label_values):
                    continue
                kind = "counter" if metric.metric_type == cri.COUNTER else "gauge"
                self.names[metric.name] = (kind, descriptor.help)
                labels = dict(zip(descriptor.label_keys, metric.label_values, strict=True))
                place = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""))
                own = self._labels.get(place, {})
                yield metric.name, {**labels, **own}, metric.value.value, str(metric.timestamp // 1_000_000)


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    lists = (status.init_container_statuses, status.container_statuses, status.ephemeral_container_statuses)
    return {each.name: each for some in lists for each in some}


def _labels_of_pods(
    summary: Summary, statuses: Mapping[str, dict[str, ContainerStatus]]
) -> Iterator[tuple[Place, dict[str, str]]]:
    for pod in summary.pods:
        ref, of_pod = pod.pod_ref, f"/kubepods/pod{pod.pod_ref.uid}"
        yield (ref.namespace, ref.name, ""), _labels(of_pod, pod=ref)
        for container in pod.containers:
            status = statuses.get(ref.uid, {}).get(container.name, ContainerStatus())
            own = status.container_id.rpartition("//")[2]
            labels = _labels(f"{of_pod}/{own}", container.name, status.image, own, ref)
            yield (ref.namespace, ref.name, container.name), labels


def _samples(summary: Summary, labels: Mapping[Place, dict[str, str]]) -> Iterator[Sample]:
    yield from _used(_labels("/"), summary.node.cpu, summary.node.memory)
    for pod in summary.pods:
        ref = pod.pod_ref
        yield from _of_pod(labels[ref.namespace, ref.name, ""], pod)
        for container in pod.containers:
            yield from _of_container(labels[ref.namespace, ref.name, container.name], container)


def _labels(
    place: str, container: str = "", image: str = "", name: str = "", pod: PodReference | None = None
) -> dict[str, str]:
    of_pod = {"namespace": pod.namespace, "pod": pod.name} if pod else {"namespace": "", "pod": ""}
    return {"container": container, "id": place, "image": image, "name": name, **of_pod}


def _of_pod(labels: dict[str, str], pod: PodStats) -> Iterator[Sample]:
    yield from _used(labels, pod.cpu, pod.memory)
    if pod.network is None:
        return
    time = milliseconds(pod.network.time)
    for each in pod.network.interfaces:
        for kind, count in (
            ("receive_bytes", each.rx_bytes),
            ("receive_errors", each.rx_errors),
            ("transmit_bytes", each.tx_bytes),
            ("transmit_errors", each.tx_errors),
        ):
            if count is not None:
                yield _NETWORK.format(kind), {**labels, "interface": each.name}, count, time


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
