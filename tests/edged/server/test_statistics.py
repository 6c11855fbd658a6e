"""What Prometheus and the metrics server read."""

from edged.api import Time
from edged.server.statistics import exposition
from edged.stats.model import ContainerStats, CpuStats, MemoryStats, NodeStats, PodReference, PodStats, Summary

AT = Time("2026-11-20T01:00:00Z")
CPU, MEMORY = CpuStats(AT, None, 2_500_000_000), MemoryStats(AT, working_set_bytes=4096)


def test_figures_of_resources() -> None:
    """kubelet's names and labels; what is not known is left out; each name is explained once."""
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
