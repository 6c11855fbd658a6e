"""`/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`: use of the node and its pods, in a kubelet's forms."""

from collections.abc import Iterator, Sequence

from beehive.http.errors import HttpStatusError
from beehive.http.request import Request
from beehive.http.responses import Response, json
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import UnimplementedError
from edged.server.cadvisor import RuntimeMetrics, cadvisor_text
from edged.server.samples import TEXT, Sample, milliseconds, prometheus_text
from edged.server.snapshots import Snapshots
from edged.stats.model import ContainerStats, CpuStats, MemoryStats, Summary
from modules.apimachinery.types import encode, parse_time
from protos.cri.v1.api_pb2 import MetricDescriptor

_NAMES = {
    "node_cpu_usage_seconds_total": ("counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds"),
    "node_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the node in bytes"),
    "pod_cpu_usage_seconds_total": ("counter", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds"),
    "pod_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the pod in bytes"),
    "container_cpu_usage_seconds_total": (
        "counter",
        "[STABLE] Cumulative cpu time consumed by the container in core-seconds",
    ),
    "container_memory_working_set_bytes": ("gauge", "[STABLE] Current working set of the container in bytes"),
    "container_start_time_seconds": ("gauge", "[STABLE] Start time of the container since unix epoch in seconds"),
    "resource_scrape_error": ("gauge", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise"),
}


class Statistics:
    """Handlers of the statistics, which are measured at each request."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._descriptors: Sequence[MetricDescriptor] = ()

    def summary(self, request: Request) -> Response:
        """Answer with a kubelet's Summary; `only_cpu_and_memory=true` leaves disk use unmeasured."""
        return json(encode(self._measure(disk=not request.flag("only_cpu_and_memory"))))

    def resources(self, _request: Request) -> Response:
        """Answer Prometheus and the metrics server."""
        return Response(200, TEXT, exposition(self._measure(disk=False)).encode())

    def containers(self, _request: Request) -> Response:
        """Answer Prometheus with cAdvisor's names."""
        summary = self._measure(disk=True)
        with self._snapshots.calling() as runtime:
            further = self._runtime_metrics(runtime)
        return Response(200, TEXT, cadvisor_text(summary, self._snapshots.pods, further).encode())

    def _measure(self, *, disk: bool) -> Summary:
        stats = self._snapshots.stats
        if stats is None:
            raise HttpStatusError(503, "there are no statistics", hint="edged does not run here")
        with self._snapshots.calling() as runtime:
            return stats.summary(runtime, disk=disk)

    def _runtime_metrics(self, runtime: ContainerRuntime) -> RuntimeMetrics:
        """Return the runtime's metrics; none if it counts none. Their descriptors are asked for once (kubelet). Raises
        CriError.
        """
        try:
            self._descriptors = self._descriptors or runtime.list_metric_descriptors()
            return RuntimeMetrics(self._descriptors, runtime.list_pod_sandbox_metrics())
        except UnimplementedError:
            return RuntimeMetrics()


def exposition(summary: Summary) -> str:
    """Return the text of `/metrics/resource`, with a kubelet's names and labels."""
    return prometheus_text(_NAMES, _samples(summary))


def _samples(summary: Summary) -> Iterator[Sample]:
    yield from _pair("node", {}, summary.node.cpu, summary.node.memory)
    for pod in summary.pods:
        labels = {"namespace": pod.pod_ref.namespace, "pod": pod.pod_ref.name}
        yield from _pair("pod", labels, pod.cpu, pod.memory)
        for container in pod.containers:
            own = {"container": container.name, **labels}
            yield from _pair("container", own, container.cpu, container.memory)
            yield from _start(own, container)
    yield "resource_scrape_error", {}, 0, ""


def _pair(of: str, labels: dict[str, str], cpu: CpuStats | None, memory: MemoryStats | None) -> Iterator[Sample]:
    if cpu is not None and cpu.usage_core_nano_seconds is not None:
        yield f"{of}_cpu_usage_seconds_total", labels, cpu.usage_core_nano_seconds / 1e9, milliseconds(cpu.time)
    if memory is not None and memory.working_set_bytes is not None:
        yield f"{of}_memory_working_set_bytes", labels, memory.working_set_bytes, milliseconds(memory.time)


def _start(labels: dict[str, str], container: ContainerStats) -> Iterator[Sample]:
    if container.start_time is not None:
        yield "container_start_time_seconds", labels, parse_time(container.start_time) / 1e9, ""
