"""critest: PodSandbox metrics, Streaming List."""

import os
import socket
from typing import Any, Final

from modules.runtimes.oci.metrics.collector import process_samples
from protos.cri.v1 import api_pb2 as cri
from tests.cri_contract.client import LOOP, Client

_NAMES: Final = """
blkio_device_usage_total cpu_cfs_periods_total cpu_cfs_throttled_periods_total cpu_cfs_throttled_seconds_total
cpu_system_seconds_total cpu_usage_seconds_total cpu_user_seconds_total file_descriptors fs_inodes_free fs_inodes_total
fs_limit_bytes fs_reads_bytes_total fs_reads_total fs_usage_bytes fs_writes_bytes_total fs_writes_total last_seen
memory_cache memory_failcnt memory_failures_total memory_kernel_usage memory_mapped_file memory_max_usage_bytes
memory_rss memory_swap memory_usage_bytes memory_working_set_bytes network_receive_bytes_total
network_receive_errors_total network_receive_packets_dropped_total network_receive_packets_total
network_transmit_bytes_total network_transmit_errors_total network_transmit_packets_dropped_total
network_transmit_packets_total oom_events_total processes sockets spec_cpu_period spec_cpu_shares
spec_memory_limit_bytes spec_memory_swap_limit_bytes start_time_seconds threads threads_max
"""
"""What critest demands, without `container_`; it exempts huge pages, pressure, quota, reservation and ulimits."""
_EXPECTED: Final = _NAMES.split()
_MAY_LACK_VALUES: Final = {
    "blkio_device_usage_total", "fs_reads_bytes_total", "fs_reads_total", "fs_writes_bytes_total", "fs_writes_total",
}  # fmt: skip
_LIMITS: Final = cri.LinuxContainerResources(
    cpu_period=100_000,
    cpu_quota=20_000,
    cpu_shares=1024,
    memory_limit_in_bytes=64 << 20,
    memory_swap_limit_in_bytes=64 << 20,
)


def _descriptors(client: Client) -> dict[str, cri.MetricDescriptor]:
    answer = client.runtime.ListMetricDescriptors(cri.ListMetricDescriptorsRequest())
    return {each.name: each for each in answer.descriptors}


def test_descriptors(client: Client) -> None:
    """critest: PodSandbox metrics: the runtime should return metrics descriptors, each with help and labels."""
    descriptors = _descriptors(client)
    assert {f"container_{name}" for name in _EXPECTED} <= set(descriptors)
    assert all(each.help and each.label_keys for each in descriptors.values())


def test_values(client: Client) -> None:
    """critest: PodSandbox metrics: each descriptor has values in a pod with limits, with as many labels as it names."""
    pod = client.pod(network=True)
    container = client.start(*LOOP, pod=pod, linux={"resources": _LIMITS})
    client.said(container, "for i in 1 2 3; do echo hi > /var/$i; done")
    answer = client.runtime.ListPodSandboxMetrics(cri.ListPodSandboxMetricsRequest())
    (found,) = (each for each in answer.pod_metrics if each.pod_sandbox_id == pod)
    (of_container,) = found.container_metrics
    assert of_container.container_id == container
    samples = [*found.metrics, *of_container.metrics]
    keys = {name: list(each.label_keys) for name, each in _descriptors(client).items()}
    assert {f"container_{name}" for name in _EXPECTED if name not in _MAY_LACK_VALUES} <= {
        each.name for each in samples
    }
    assert all(len(each.label_values) == len(keys[each.name]) and each.timestamp > 0 for each in samples)
    values = {each.name: each.value.value for each in samples}
    assert values["container_spec_memory_limit_bytes"] == 64 << 20
    assert values["container_spec_cpu_quota"] == 20_000
    assert 0 < values["container_memory_rss"] <= values["container_memory_usage_bytes"] < 64 << 20
    assert values["container_processes"] == 1
    assert values["container_file_descriptors"] >= 3
    processes = next(each for each in samples if each.name == "container_processes")
    named = dict(zip(keys[processes.name], processes.label_values, strict=True))
    assert named["pod"] == client.pod_status(pod).metadata.name
    assert named["container"].startswith("main-")


def test_an_interface_with_a_name_of_any_bytes(client: Client) -> None:
    """A pod with NET_ADMIN names one so; the metrics of all pods are still there."""
    pod = client.pod(network=True)
    security = cri.LinuxContainerSecurityContext(capabilities=cri.Capability(add_capabilities=["NET_ADMIN"]))
    container = client.start(*LOOP, pod=pod, security=security)
    assert client.execute(container, "sh", "-c", r"brctl addbr $(printf '\377')").exit_code == 0
    answer = client.runtime.ListPodSandboxMetrics(cri.ListPodSandboxMetricsRequest())
    (found,) = (each for each in answer.pod_metrics if each.pod_sandbox_id == pod)
    names = {value for each in found.metrics for value in each.label_values}
    assert "\ufffd" in names


def test_sockets_are_told_from_other_descriptors() -> None:
    """Those of this process: one more, and a pipe."""

    def counts() -> list[int]:
        return [each.value for each in process_samples([os.getpid()])]

    before, pipe = counts(), os.pipe()
    with socket.socket():
        after = counts()
    for end in pipe:
        os.close(end)
    assert [one - other for one, other in zip(after, before, strict=True)] == [0, 3, 1]


def test_a_pod_without_containers(client: Client) -> None:
    """critest: Streaming List: pod metrics include a pod that has no container yet."""
    pod = client.pod()
    stream = client.runtime.StreamPodSandboxMetrics(cri.StreamPodSandboxMetricsRequest())
    assert pod in [each.pod_sandbox_id for answer in stream for each in answer.pod_sandbox_metrics]


def _streamed(client: Client, method: str, field: str, **wanted: Any) -> list[str]:
    service = client.image_service if method == "StreamImages" else client.runtime
    answers = getattr(service, method)(getattr(cri, f"{method}Request")(**wanted))
    items = [each for answer in answers for each in getattr(answer, field)]
    return [each.id if hasattr(each, "id") else each.attributes.id for each in items]


def test_streamed_pods(client: Client) -> None:
    """critest: Streaming List: pods by id, by state, by label; an unknown id gives an empty list."""
    pod = client.pod()
    ready = cri.PodSandboxFilter(state=cri.PodSandboxStateValue(state=cri.SANDBOX_READY))
    labels = dict(client.pod_status(pod).labels)
    assert _streamed(client, "StreamPodSandboxes", "pod_sandboxes", filter=cri.PodSandboxFilter(id=pod)) == [pod]
    assert pod in _streamed(client, "StreamPodSandboxes", "pod_sandboxes", filter=ready)
    named = cri.PodSandboxFilter(label_selector=labels)
    assert _streamed(client, "StreamPodSandboxes", "pod_sandboxes", filter=named) == [pod]
    assert _streamed(client, "StreamPodSandboxes", "pod_sandboxes", filter=cri.PodSandboxFilter(id="none")) == []


def test_streamed_containers(client: Client) -> None:
    """critest: Streaming List: containers by id, pod and state, several of one pod, none that was removed."""
    pod = client.pod()
    containers = [client.start(*LOOP, pod=pod), client.create(*LOOP, pod=pod)]
    running = cri.ContainerFilter(state=cri.ContainerStateValue(state=cri.CONTAINER_RUNNING), pod_sandbox_id=pod)
    of_pod = cri.ContainerFilter(pod_sandbox_id=pod)
    assert sorted(_streamed(client, "StreamContainers", "containers", filter=of_pod)) == sorted(containers)
    assert _streamed(client, "StreamContainers", "containers", filter=running) == containers[:1]
    client.remove(containers[1])
    assert _streamed(client, "StreamContainers", "containers", filter=cri.ContainerFilter(id=containers[1])) == []


def test_streamed_stats(client: Client) -> None:
    """critest: Streaming List: stats of containers and of pods, by id and by label."""
    pod = client.pod()
    container = client.start(*LOOP, pod=pod)
    wanted = cri.ContainerStatsFilter(label_selector=dict(client.status(container).labels))
    assert _streamed(client, "StreamContainerStats", "container_stats", filter=wanted) == [container]
    assert _streamed(
        client, "StreamPodSandboxStats", "pod_sandbox_stats", filter=cri.PodSandboxStatsFilter(id=pod)
    ) == [pod]
    assert pod in _streamed(client, "StreamPodSandboxStats", "pod_sandbox_stats")


def test_streamed_images(client: Client) -> None:
    """critest: Streaming List: images, all and by name."""
    name = client.pulled("busybox")
    image = client.image(name)
    assert image is not None
    wanted = cri.ImageFilter(image=cri.ImageSpec(image=name))
    assert image.id in _streamed(client, "StreamImages", "images")
    assert _streamed(client, "StreamImages", "images", filter=wanted) == [image.id]
