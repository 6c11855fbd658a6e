"""What Prometheus and the metrics server read."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.http.errors import HttpStatusError
from beehive.trace_context import current_context
from edged.cri.errors import CriError
from edged.server.cadvisor import RuntimeMetrics, cadvisor_text
from edged.server.snapshots import Snapshots
from edged.server.statistics import Statistics, exposition
from edged.stats.model import (
    ContainerStats,
    CpuStats,
    FsStats,
    InterfaceStats,
    MemoryStats,
    NetworkStats,
    NodeStats,
    PodReference,
    PodStats,
    Summary,
)
from modules.apimachinery.types import Pod, Time, from_value
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode
from tests.beehive.http.requests import parse

AT = Time("2026-11-20T01:00:00Z")
CPU, MEMORY = CpuStats(AT, None, 2_500_000_000), MemoryStats(AT, working_set_bytes=4096)


def test_figures_of_resources() -> None:
    """They have kubelet's names and labels; unknown values are left out; each name has one help text."""
    container = ContainerStats('we"b', Time("2026-11-20T00:00:00Z"), CPU, MEMORY)
    pods = (
        PodStats(PodReference("p", "ns", "u"), containers=(container,), cpu=CPU),
        PodStats(PodReference("q", "ns", "v")),
    )
    lines = exposition(Summary(NodeStats("n1", cpu=CPU, memory=MEMORY), pods)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "node_cpu_usage_seconds_total 2.5 1795136400000",
        "node_memory_working_set_bytes 4096 1795136400000",
        'pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 2.5 1795136400000',
        'container_cpu_usage_seconds_total{container="we\\"b",namespace="ns",pod="p"} 2.5 1795136400000',
        'container_memory_working_set_bytes{container="we\\"b",namespace="ns",pod="p"} 4096 1795136400000',
        'container_start_time_seconds{container="we\\"b",namespace="ns",pod="p"} 1795132800',
        "resource_scrape_error 0",
    ]
    helps = [line for line in lines if line.startswith("# HELP")]
    assert len(helps) == len({line.split()[2] for line in helps}) == 8


def test_nothing_used_is_a_figure() -> None:
    node = NodeStats("n1", cpu=CpuStats(AT, None, 0), memory=MemoryStats(AT, working_set_bytes=0))
    assert {
        "node_cpu_usage_seconds_total 0 1795136400000", "node_memory_working_set_bytes 0 1795136400000"
    } <= {*exposition(Summary(node, ())).splitlines()}  # fmt: skip


@pytest.mark.parametrize(
    ("target", "disk"), [("/stats/summary", True), ("/stats/summary?only_cpu_and_memory=1", False)]
)
def test_the_use_of_disks_is_measured_unless_it_is_not_wanted(target: str, disk: bool) -> None:
    snapshots = Snapshots()
    snapshots.runtime = cast("Any", object())
    summary = Mock(return_value=Summary(NodeStats("n1"), ()))
    snapshots.stats = cast("Any", SimpleNamespace(summary=summary))
    Statistics(snapshots).summary(parse(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()))
    assert summary.call_args.kwargs == {"disk": disk}


def test_figures_of_cadvisor() -> None:
    """Dashboards choose by `container`, `image`, `name` and `pod`: for pods and the node these are empty."""
    used = MemoryStats(AT, usage_bytes=8192, working_set_bytes=4096, rss_bytes=1024, page_faults=7)
    container = ContainerStats("web", Time("2026-11-20T00:00:00Z"), CPU, used, FsStats(AT, used_bytes=9))
    init = ContainerStats("init", memory=MemoryStats(AT, rss_bytes=0))
    containers = (container, ContainerStats("new"), init)
    pods = (PodStats(PodReference("p", "ns", "u"), containers=containers, cpu=CPU),)
    running = {"name": "web", "image": "i:1", "containerID": "containerd://c1"}
    ended = {"name": "init", "image": "i:0", "containerID": "containerd://c0"}
    status = {"containerStatuses": [running], "initContainerStatuses": [ended]}
    pod = from_value(Pod, {"metadata": {"uid": "u"}, "status": status})
    lines = cadvisor_text(Summary(NodeStats("n1", cpu=CPU), pods), (pod,), RuntimeMetrics()).splitlines()
    own = 'container="web",id="/kubepods/podu/c1",image="i:1",name="c1",namespace="ns",pod="p"'
    assert [line for line in lines if not line.startswith("#")] == [
        'container_cpu_usage_seconds_total{container="",id="/",image="",name="",namespace="",pod="",cpu="total"} 2.5 '
        "1795136400000",
        'container_cpu_usage_seconds_total{container="",id="/kubepods/podu",image="",name="",namespace="ns",pod="p",'
        'cpu="total"} 2.5 1795136400000',
        f'container_cpu_usage_seconds_total{{{own},cpu="total"}} 2.5 1795136400000',
        f'container_fs_usage_bytes{{{own},device=""}} 9 1795136400000',
        f'container_memory_failures_total{{{own},failure_type="pgfault",scope="container"}} 7 1795136400000',
        f"container_memory_rss{{{own}}} 1024 1795136400000",
        'container_memory_rss{container="init",id="/kubepods/podu/c0",image="i:0",name="c0",namespace="ns",pod="p"} 0 '
        "1795136400000",
        f"container_memory_usage_bytes{{{own}}} 8192 1795136400000",
        f"container_memory_working_set_bytes{{{own}}} 4096 1795136400000",
        f"container_start_time_seconds{{{own}}} 1795132800",
    ]


def measured(name: str, container: str, value: int, *own: str, kind: Any = cri.COUNTER) -> cri.Metric:
    """A metric as a runtime counts it, at the second 5, with labels of its own choice."""
    values = (container, "/of/the/runtime", "docker.io/i:1", "c1", "ns", "p", *own)
    return cri.Metric(
        name=name, timestamp=5_000_000_000, metric_type=kind, label_values=values, value=cri.UInt64Value(value=value)
    )


def test_what_only_the_runtime_counts_is_among_the_figures_of_cadvisor() -> None:
    """With the labels of the other figures, so that they can be divided; the network is the pod's in each case. Without
    the labels that it describes a metric is left out. The runtime is asked once what it describes.
    """
    traffic = NetworkStats(AT, interfaces=(InterfaceStats("eth0", 11, 1, 22, None),))
    pod = PodStats(PodReference("p", "ns", "u"), containers=(ContainerStats("web", cpu=CPU),), network=traffic)
    labels = ("container", "id", "image", "name", "namespace", "pod")
    of_container = [
        measured("container_cpu_usage_seconds_total", "web", 2), measured("container_spec_cpu_shares", "web", 2, "no"),
        measured("container_spec_memory_limit_bytes", "web", 64, kind=cri.GAUGE),
    ]  # fmt: skip
    runtime = cri.PodSandboxMetrics(
        metrics=[measured(f"container_network_receive_{each}_total", "", 3, "eth0") for each in ("bytes", "packets")],
        container_metrics=[cri.ContainerMetrics(metrics=of_container)],
    )
    descriptors = [
        cri.MetricDescriptor(name=each.name, help="Help", label_keys=(*labels, "interface")[: len(each.label_values)])
        for each in (*runtime.metrics, of_container[0], of_container[2])
    ] + [cri.MetricDescriptor(name="container_spec_cpu_shares", label_keys=labels)]
    snapshots = Snapshots()
    snapshots.runtime = asked = Mock(list_metric_descriptors=Mock(side_effect=[descriptors]))
    asked.list_pod_sandbox_metrics.return_value = [runtime]
    snapshots.stats = Mock(summary=Mock(return_value=Summary(NodeStats("n1"), (pod,))))
    statistics = Statistics(snapshots)
    text, again = (statistics.containers(parse(b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n")).body.decode() for _ in range(2))
    assert text == again
    at, of_pod = "1795136400000", 'container="",id="/kubepods/podu",image="",name="",namespace="ns",pod="p"'
    own = 'container="web",id="/kubepods/podu/",image="",name="",namespace="ns",pod="p"'
    assert sorted(line for line in text.splitlines() if not line.startswith("#")) == [
        f'container_cpu_usage_seconds_total{{{own},cpu="total"}} 2.5 {at}',
        f'container_network_receive_bytes_total{{{of_pod},interface="eth0"}} 11 {at}',
        f'container_network_receive_errors_total{{{of_pod},interface="eth0"}} 1 {at}',
        f'container_network_receive_packets_total{{{of_pod},interface="eth0"}} 3 5000',
        f'container_network_transmit_bytes_total{{{of_pod},interface="eth0"}} 22 {at}',
        f"container_spec_memory_limit_bytes{{{own}}} 64 5000",
    ]
    assert "# TYPE container_spec_memory_limit_bytes gauge\n" in text
    assert "# TYPE container_network_receive_packets_total counter\n" in text


def test_statistics_that_the_runtime_refuses_are_its_status() -> None:
    snapshots = Snapshots()
    snapshots.runtime = cast("Any", object())
    refused = CriError("ListContainerStats", "all", StatusCode.UNAVAILABLE, "busy")
    asked, before = Statistics(snapshots), current_context().actor
    snapshots.stats = cast("Any", SimpleNamespace(summary=Mock(side_effect=refused)))
    with pytest.raises(HttpStatusError, match="busy"):
        asked.resources(cast("Any", None))
    snapshots.stats = cast("Any", Mock())
    snapshots.runtime = cast("Any", SimpleNamespace(list_metric_descriptors=Mock(side_effect=refused)))
    with pytest.raises(HttpStatusError, match="busy"):
        asked.containers(cast("Any", None))
    assert current_context().actor == before
