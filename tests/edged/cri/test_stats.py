"""The containers' usage of the machine."""

from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb
from tests.edged.cri.harness import Pods, eventually, shell


def test_cpu_time_of_a_busy_container_grows_and_its_memory_is_seen(pods: Pods, client: CriClient) -> None:
    pod = pods.sandbox()
    container = pods.start(pod, *shell("while :; do :; done"))
    first = client.container_stats(container)
    assert first.attributes.id == container
    assert first.attributes.metadata.name == "main"
    assert dict(first.attributes.labels) == pods.labels

    def used(stats: pb.ContainerStats) -> int:
        return stats.cpu.usage_core_nano_seconds.value

    later = eventually(lambda: client.container_stats(container), lambda stats: used(stats) > used(first) + 50_000_000)
    assert later.cpu.timestamp > first.cpu.timestamp
    assert 0 < later.memory.working_set_bytes.value < 2**30


def test_stats_of_running_containers_are_listed_by_sandbox_and_label(pods: Pods, client: CriClient) -> None:
    """An ended container may be among them: containerd lists it until its removal."""
    pod, other = pods.sandbox(), pods.sandbox()
    running = [pods.start(pod, "sleep", "1000"), pods.start(other, "sleep", "1000")]
    ended = pods.run(pod, "true", name="ended").id

    def ids(**conditions: object) -> set[str]:
        stats_filter = pb.ContainerStatsFilter(label_selector=pods.labels)
        stats_filter.MergeFrom(pb.ContainerStatsFilter(**conditions))  # type: ignore[arg-type]
        return {stats.attributes.id for stats in client.list_container_stats(stats_filter)}

    assert ids() - {ended} == set(running)
    assert ids(pod_sandbox_id=pod.id) - {ended} == {running[0]}
    assert ids(id=running[1]) == {running[1]}
